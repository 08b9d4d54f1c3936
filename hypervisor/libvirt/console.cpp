#include "hypervisor/libvirt/console.h"

#include <array>
#include <filesystem>
#include <fstream>

namespace mare::libvirt {
namespace {

constexpr std::array kFaults{"BUG:",       "Oops",         "general protection",
                             "Call Trace", "Kernel panic", "WARNING:"};
constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kShownOfLine = 200;
constexpr std::size_t kChunk = 65536;

}  // namespace

bool is_fault(const std::string& line) {
  for (const char* fault : kFaults) {
    if (line.find(fault) != std::string::npos) return true;
  }
  return false;
}

Status Consoles::make_directory() const {
  std::error_code failed;
  std::filesystem::create_directories(directory_, failed);
  if (!failed) return ok_status();
  return make_error(Code::Unavailable, "cannot make " + directory_ + ": " + failed.message());
}

void Consoles::begin(const std::string& vm) {
  const std::lock_guard lock(mutex_);
  scans_.erase(vm);
  std::error_code ignored;  // the first copy of a VM has nothing to put aside
  std::filesystem::rename(path(vm), path(vm) + ".1", ignored);
}

ConsoleFaults Consoles::scan(const std::string& vm) {
  const std::lock_guard lock(mutex_);
  Scan& scan = scans_[vm];
  std::ifstream file(path(vm), std::ios::binary);
  if (!file) return scan.faults;
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
      if (is_fault(scan.tail)) {
        if (scan.faults.count++ == 0) scan.faults.first = scan.tail.substr(0, kShownOfLine);
      }
      scan.tail.clear();
    }
  }
  return scan.faults;
}

}  // namespace mare::libvirt
