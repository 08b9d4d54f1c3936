// Quotas of projects, where VMs are made and where they are placed.
#pragma once

#include "orchestrator/policy/quota.h"
#include "orchestrator/store/store.h"

namespace mare::engine {

/// What a project may have and what it has, in the transaction that is going to add to it.
struct Grant {
  Quota quota;
  policy::ProjectUse use;
};
Result<Grant> grant_of(const store::Reader& reader, const ProjectId& project);

/// policy::place_most() within what the project may have, VMs and hosts.
policy::Placing place_granted(const Grant& grant, const std::vector<policy::Room>& rooms,
                              Bytes memory, int count);
/// policy::place() for a VM that counts already, on hosts that the project may use.
Result<HostId> place_granted(const Grant& grant, const std::vector<policy::Room>& rooms,
                             Bytes memory);

Result<Quota> keep_quota(store::Store& store, const Quota& quota);
Status erase_quota(store::Store& store, const ProjectId& project);

}  // namespace mare::engine
