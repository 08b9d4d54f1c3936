#include "hypervisor/libvirt/capabilities.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

namespace mare::libvirt {
namespace {
constexpr unsigned long kQemu9 = 9'000'000;
constexpr unsigned long kQemuToFile = 8'002'000;
constexpr unsigned long kQemuSwitchover = 8'002'000;
constexpr unsigned long kLibvirtSwitchover = 11'001'000;
// With several channels libvirt compresses since 9.4, QEMU by zstd since 5.0.
constexpr unsigned long kLibvirtZstd = 9'004'000;
// Before 8.5 libvirt can't mend a post-copy whose connection broke.
constexpr unsigned long kLibvirtMends = 8'005'000;
constexpr unsigned long kLibvirtMendsNoMore = 11'002'000;

std::string between(const std::string& text, std::string_view before, std::string_view after,
                    std::size_t from) {
  auto begin = text.find(before, from);
  if (begin == std::string::npos) return "";
  begin += before.size();
  const auto end = text.find(after, begin);
  return end == std::string::npos ? "" : text.substr(begin, end - begin);
}
}  // namespace

bool has_virtualisation_flag(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      if (word == "vmx" || word == "svm") return true;
    }
  }
  return false;
}

bool kvm_is_usable() {
  const std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  if (!has_virtualisation_flag(text.str())) return false;
  const int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  close(fd);
  return true;
}

std::string why_no_live_migration(bool accelerated, unsigned long qemu_version) {
  if (accelerated || qemu_version >= kQemu9) return "";
  return "QEMU " + version_text(qemu_version) +
         " corrupts emulated (TCG) guests that migrate while they run; install QEMU 9.0 or newer "
         "(bookworm-backports has 10.0), or move the VM with save and restore";
}

bool captures_by_copy_on_write(unsigned long qemu_version, bool userfaultfd) {
  return qemu_version >= 9'000'000 && userfaultfd;
}

std::vector<Strategy> strategies_of(const Machinery& machinery) {
  // A VM that stands still loses no page, whatever QEMU makes of its log of dirty ones.
  std::vector<Strategy> out{Strategy::StopAndCopy};
  if (!why_no_live_migration(machinery.accelerated, machinery.qemu).empty()) return out;
  out.insert(out.end(), {Strategy::PreCopy, Strategy::RateControlled, Strategy::Throttled});
  if (machinery.zstd && machinery.libvirt >= kLibvirtZstd) out.push_back(Strategy::Compressed);
  if (machinery.userfaultfd && machinery.libvirt >= kLibvirtMends) {
    out.insert(out.end(), {Strategy::PostCopy, Strategy::Hybrid});
  }
  std::sort(out.begin(), out.end());
  return out;
}

Status check_offered(const HostFacts& facts, const std::string& host, const Sending& sending) {
  const auto offers = [&facts](Strategy strategy) {
    return std::find(facts.strategies.begin(), facts.strategies.end(), strategy) !=
           facts.strategies.end();
  };
  if (!offers(sending.strategy)) {
    const std::string& why = facts.live_migration_why;
    return make_error(Code::Unsupported, "host '" + host + "' (" + facts.hypervisor +
                                             ") does not offer " +
                                             std::string(to_string(sending.strategy)) +
                                             (why.empty() ? "" : ": " + why));
  }
  if (sending.allow_post_copy && !offers(Strategy::PostCopy)) {
    return make_error(Code::Unsupported, "host '" + host + "' does not offer post-copy");
  }
  return ok_status();
}

bool takes_switchover_bandwidth(unsigned long qemu_version, unsigned long libvirt_version) {
  return qemu_version >= kQemuSwitchover && libvirt_version >= kLibvirtSwitchover;
}

std::string why_no_cloning(unsigned long qemu_version) {
  if (qemu_version >= kQemuToFile) return "";
  return "QEMU " + version_text(qemu_version) + " can't keep a template; 8.2 or newer can";
}

std::string why_no_mending(bool accelerated, unsigned long libvirt_version) {
  if (libvirt_version >= kLibvirtMendsNoMore) {
    return "libvirt " + version_text(libvirt_version) + " can't take up a post-copy that broke";
  }
  return accelerated ? "" : "an emulated guest in a post-copy that broke can't be reached";
}

std::string emulator_in(const std::string& capabilities) {
  const auto arch = capabilities.find("<arch name='x86_64'>");
  return arch == std::string::npos ? "" : between(capabilities, "<emulator>", "</emulator>", arch);
}

bool runs_qemu_as_root(const std::string& capabilities) {
  const auto model = capabilities.find("<model>dac</model>");
  if (model == std::string::npos) return false;
  // "+64055:+994": user and group.
  const std::string label = between(capabilities, "<baselabel type='qemu'>", "<", model);
  return label.starts_with("+0:");
}

bool is_linked_with(const std::string& program, const std::string& library) {
  std::ifstream file(program, std::ios::binary);
  std::array<char, 65536> block{};
  std::string tail;
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    const std::string text =
        tail + std::string(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.find(library) != std::string::npos) return true;
    tail = text.substr(text.size() - std::min(text.size(), library.size()));
  }
  return false;
}

bool userfaultfd_is_usable(bool by_root) {
  const long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
  if (fd < 0) return false;
  close(static_cast<int>(fd));
  if (by_root) return true;
  std::ifstream file("/proc/sys/vm/unprivileged_userfaultfd");
  int allowed = 0;
  return file >> allowed && allowed == 1;
}

std::string version_text(unsigned long packed) {
  return std::to_string(packed / 1'000'000) + "." + std::to_string(packed / 1000 % 1000) + "." +
         std::to_string(packed % 1000);
}

}  // namespace mare::libvirt
