// Why something can't be asked of a VM at this moment; for whoever asks.
#pragma once

#include "hypervisor/driver.h"

namespace mare::libvirt {

inline Error no_copy(const VmKey& vm) {
  return make_error(Code::NotFound, "no copy of VM '" + vm.id.value + "' is on this host");
}

inline Error busy_migrating(const VmKey& vm) {
  return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' is being migrated",
                    "wait for the migration or cancel it");
}

inline Error held_for_capture(const VmKey& vm) {
  return make_error(Code::FailedPrecondition,
                    "VM '" + vm.id.value + "' stands still for a checkpoint", "wait for it");
}

inline Error being_captured(const VmKey& vm) {
  return make_error(Code::Conflict, "VM '" + vm.id.value + "' is being captured",
                    "wait for the checkpoint");
}

}  // namespace mare::libvirt
