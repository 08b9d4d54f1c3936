// On which host a VM's part of a checkpoint is kept in memory as well. Pure.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/model/checkpoint.h"
#include "orchestrator/policy/placement.h"

namespace mare::policy {

struct PartnerSought {
  std::optional<HostId> host;  // where the VM is; nothing: nowhere just now
  HostId partner;              // that its part has, "" for none
  Bytes memory;                // of the VM
};
/// A host for each, in order, "" where there is none: not the VM's own, with room for the VM; of
/// those the one with the fewest of these parts, then with the fewest VMs, then the next behind the
/// VM's own. One that a part has stays if it may be one.
std::vector<HostId> choose_partners(const std::vector<Room>& rooms,
                                    const std::vector<PartnerSought>& parts);

/// As place_all(); a VM goes to the host that is preferred for it ("": none) where that has room,
/// and if all fit so.
Result<std::vector<HostId>> place_preferred(const std::vector<Room>& rooms,
                                            const std::vector<Bytes>& memories,
                                            const std::vector<HostId>& preferred);

}  // namespace mare::policy
