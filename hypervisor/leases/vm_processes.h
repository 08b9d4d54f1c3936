// The processes of this host's VMs as libvirtd's status files name them. For those who must end VMs
// at once, whether libvirtd and the agent live or hang.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "orchestrator/core/result.h"

namespace mare::leases {

struct VmProcess {
  pid_t pid = 0;
  std::string uuid;
  bool operator==(const VmProcess&) const = default;
};

/// Pure: of a status file's text (`<domstatus ... pid='N'>`). Nothing if the VM is not ours or has
/// no process.
std::optional<VmProcess> process_in(const std::string& status);

/// Kills the processes of all VMs of ours that have a status file in that directory; the number of
/// those that lived. A pid that is another program's by now is left alone.
int end_all_vms(const std::string& directory);

/// Unavailable when status files can't be read there: nothing could be ended.
Status can_end_vms(const std::string& directory);

}  // namespace mare::leases
