// What libvirt counts of a domain.
#pragma once

#include <libvirt/libvirt.h>

#include "hypervisor/driver.h"

namespace mare::libvirt {

Result<VmStatistics> figures_of(virDomainPtr domain, const VmKey& vm);

/// The hypervisor's own figures of the migration that brought it; libvirt sends them with the VM.
void add_figures(virDomainPtr domain, ArrivalReport& report);

}  // namespace mare::libvirt
