// What this machine and its QEMU can do. Pure but for facts read from /proc.
#pragma once

#include <string>

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

/// libvirt's packed version as "10.0.2".
std::string version_text(unsigned long packed);

}  // namespace mare::libvirt
