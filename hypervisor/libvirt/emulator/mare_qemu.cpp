// mare-qemu: QEMU with a guest's RAM in a file that somebody else names. libvirt starts it in
// QEMU's place (<emulator>) for templates and their clones; without MARE_RAM it is QEMU, which is
// how libvirt asks it what it can do.
//
// libvirt has no words for such RAM, and what is added by <qemu:commandline> comes behind the RAM
// that libvirt gives each domain. That must not be: emulating, QEMU 10.0 forgets writes to all RAM
// but its first block while it migrates (cpu_physical_memory_dirty_bits_cleared() in ram_addr.h,
// there since 9.0, takes an offset in a block for one in all RAM).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "hypervisor/libvirt/emulator/ram_argument.h"

namespace {

// By the PATH that libvirtd has; the last is where Red Hat's family keeps it.
constexpr const char* kNames[] = {"qemu-system-x86_64", "/usr/libexec/qemu-kvm"};

int fail(const mare::Error& error) {
  std::fprintf(stderr, "mare-qemu: %s\n", error.text().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  if (const char* ram = std::getenv(mare::libvirt::kRamVariable)) {
    auto file = mare::libvirt::ram_file_from(ram);
    if (!file) return fail(file.error());
    auto changed = mare::libvirt::with_ram_file(arguments, *file);
    if (!changed) return fail(changed.error());
    arguments = *changed;
  }
  std::vector<char*> raw;
  raw.reserve(arguments.size() + 1);
  for (auto& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  for (std::string name : kNames) {
    raw.front() = name.data();  // as every other QEMU is listed
    execvp(name.c_str(), raw.data());
  }
  std::perror("mare-qemu: qemu-system-x86_64");
  return 127;
}
