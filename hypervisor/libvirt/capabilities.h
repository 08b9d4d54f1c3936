// What this machine and its QEMU can do. Pure but for facts read from /proc.
#pragma once

#include <string>
#include <vector>

#include "hypervisor/driver.h"

namespace mare::libvirt {

/// Does the text of /proc/cpuinfo have vmx or svm among its flags?
bool has_virtualisation_flag(const std::string& cpuinfo);
/// KVM is usable only if the CPU has the flag and /dev/kvm opens. On some machines /dev/kvm opens
/// without the flag (and libvirt lists kvm), but guests hang.
bool kvm_is_usable();

/// May a running guest of this QEMU be migrated? "" or the reason why not. QEMU before 9.0 loses
/// dirty pages of TCG guests (fixed upstream by commit 03bfc2188f06).
std::string why_no_live_migration(bool accelerated, unsigned long qemu_version);

/// Can a running guest's state be taken by copy-on-write? A QEMU before 9.0 lets a VM that was
/// paused before go on by itself, whatever others of its gang do.
bool captures_by_copy_on_write(unsigned long qemu_version, bool userfaultfd);

struct Machinery {
  bool accelerated = false;
  unsigned long qemu = 0;  // packed versions
  unsigned long libvirt = 0;
  bool zstd = false;             // QEMU was built with it
  bool userfaultfd = false;      // QEMU may use it: post-copy needs it at the destination
  std::string cloning_why = {};  // "" or why the emulator for clones can't be used
};
/// How such a host can take part in a migration, as either end.
std::vector<Strategy> strategies_of(const Machinery& machinery);
/// Unsupported if a host with these facts does not send by that strategy, or can't switch to
/// post-copy where that is to be allowed.
Status check_offered(const HostFacts& facts, const std::string& host, const Sending& sending);

/// Can a migration be told how fast its last round will be sent?
bool takes_switchover_bandwidth(unsigned long qemu_version, unsigned long libvirt_version);

/// Can VMs start as clones? "" or the reason why not. QEMU migrates to a file since 8.2.
std::string why_no_cloning(unsigned long qemu_version);

/// Can a post-copy that broke be taken up again? "" or the reason why not. Since 11.2 libvirt's
/// daemon at the destination ends with a segmentation fault when it is asked to
/// (qemuProcessIncomingDefNew, seen in 11.3.0); and the monitor of an emulated guest that waits for
/// a page answers nobody, so QEMU can't be asked past libvirt either.
std::string why_no_mending(bool accelerated, unsigned long libvirt_version);

/// From the text of libvirt's capabilities: the emulator of this architecture, "" if there is none.
std::string emulator_in(const std::string& capabilities);
/// Does libvirt run QEMU as root?
bool runs_qemu_as_root(const std::string& capabilities);
/// Is a program linked with that library? It is named in the file if it is.
bool is_linked_with(const std::string& program, const std::string& library);
bool userfaultfd_is_usable(bool by_root);

/// libvirt's packed version as "10.0.2".
std::string version_text(unsigned long packed);

}  // namespace mare::libvirt
