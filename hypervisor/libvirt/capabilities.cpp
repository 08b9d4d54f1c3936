#include "hypervisor/libvirt/capabilities.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace mare::libvirt {
namespace {
constexpr unsigned long kQemu9 = 9'000'000;
}

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

std::string version_text(unsigned long packed) {
  return std::to_string(packed / 1'000'000) + "." + std::to_string(packed / 1000 % 1000) + "." +
         std::to_string(packed % 1000);
}

}  // namespace mare::libvirt
