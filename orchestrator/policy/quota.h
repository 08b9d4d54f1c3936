// What a project's quota leaves room for. Pure.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "orchestrator/core/result.h"
#include "orchestrator/model/entities.h"
#include "orchestrator/policy/placement.h"

namespace mare::policy {

struct ProjectUse {
  int vms = 0;
  Bytes memory;
  std::set<HostId> hosts;
};
/// Of the project's VMs, whether they run or not.
ProjectUse use_of(const std::vector<Vm>& vms);

struct Allowance {
  int vms = 0;
  std::optional<Error> refusal;  // why not all; the tightest of the limits
};
/// Of `more` VMs of this size, how many the project may have besides those that it has.
Allowance allowance(const Quota& quota, const ProjectUse& use, Bytes memory, int more);

/// None: VMs of the project may go to any number of hosts.
std::optional<HostCap> host_cap(const Quota& quota, const ProjectUse& use);

}  // namespace mare::policy
