#include "hypervisor/libvirt/console.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>

namespace mare::libvirt {
namespace {

// The last one is our own initramfs, which says why it could not boot.
constexpr std::array kFaults{"BUG:",         "Oops",     "general protection", "Call Trace",
                             "Kernel panic", "WARNING:", "mare: boot failed"};
constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kShownOfLine = 200;
constexpr std::size_t kChunk = 65536;

/// What a terminal would not show, and the kernel's console ends lines with "\r\n".
std::string printable(const std::string& line) {
  std::string out;
  for (const char c : line.substr(0, kShownOfLine)) {
    if (static_cast<unsigned char>(c) >= 0x20) out.push_back(c);
  }
  return out;
}

}  // namespace

bool is_fault(const std::string& line) {
  return std::any_of(kFaults.begin(), kFaults.end(), [&](const char* fault) {
    const auto at = line.find(fault);
    if (at == std::string::npos) return false;
    if (at == 0) return true;
    // Notes about CPU flaws have the word in mid-line; a real one follows the time stamp at once.
    if (std::string_view(fault) == "WARNING:") return at >= 2 && line.substr(at - 2, 2) == "] ";
    return std::isalpha(static_cast<unsigned char>(line[at - 1])) == 0;  // not "DEBUG:"
  });
}

Status Consoles::make_directory() const {
  std::error_code failed;
  std::filesystem::create_directories(directory_, failed);
  if (!failed) return ok_status();
  return make_error(Code::Unavailable, "cannot make " + directory_ + ": " + failed.message());
}

std::string Consoles::heading(const VmKey& vm) const {
  return "mare: console of " + vm.id.value + " " + vm.uuid + ", begun ";
}

Status Consoles::begin(const VmKey& vm) {
  const std::lock_guard lock(mutex_);
  scans_.erase(vm.id.value);
  std::error_code ignored;  // the first copy of a VM has nothing to put aside
  std::filesystem::rename(path(vm.id), path(vm.id) + ".1", ignored);
  std::ofstream out(path(vm.id), std::ios::trunc);
  out << heading(vm) << format_rfc3339(clock_.wall_now()) << "\n" << std::flush;
  if (out) return ok_status();
  return make_error(Code::ResourceExhausted, "cannot write " + path(vm.id) + ", the VM's console",
                    "the agent's --state-dir must be writable and not full");
}

ConsoleFaults Consoles::scan(const VmKey& vm) {
  const std::lock_guard lock(mutex_);
  std::ifstream file(path(vm.id), std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::uint64_t>(file.tellg());
  Scan& scan = scans_[vm.id.value];
  if (scan.uuid != vm.uuid) {
    std::string first;
    file.seekg(0);
    std::getline(file, first);
    if (!first.starts_with(heading(vm))) return {};
    scan = Scan{vm.uuid, 0, {}, {}};
    file.clear();
  }
  if (size < scan.offset) scan.offset = 0;  // virtlogd began a new file
  file.seekg(static_cast<std::streamoff>(scan.offset));
  std::string chunk(kChunk, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    const auto got = static_cast<std::size_t>(file.gcount());
    scan.offset += got;
    for (std::size_t i = 0; i < got; ++i) {
      if (chunk[i] != '\n' && scan.tail.size() < kLongestLine) {
        scan.tail.push_back(chunk[i]);
        continue;
      }
      if (is_fault(scan.tail) && scan.faults.count++ == 0) {
        scan.faults.first = printable(scan.tail);
      }
      scan.tail.clear();
    }
  }
  return scan.faults;
}

}  // namespace mare::libvirt
