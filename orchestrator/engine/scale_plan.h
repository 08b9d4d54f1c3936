// What a pool.scale is to do, as its operation keeps it from the moment it was accepted.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

struct ScalePlan {
  int size = 0;    // asked for
  int before = 0;  // VMs when it was accepted
  bool best_effort = false;
  std::vector<VmId> vms = {};  // that come, or that go
  std::string cause = {};      // why a rule asked for it, "" if a user did
  std::string limit = {};      // why these are fewer than asked for; "" if they are not
  bool grows() const { return size > before; }
};

/// JSON.
std::string text_of(const ScalePlan& plan);
ScalePlan scale_plan_from(const std::string& text);

/// VMs of a pool on which no job may begin: an unfinished pool.scale may end them.
Result<std::set<VmId>> leaving_vms(const store::Reader& reader, const PoolId& pool);

/// Conflict while a pool.scale decides over this VM: what comes or goes is not anybody else's.
Status check_not_scaled(const store::Reader& reader, const Vm& vm);

}  // namespace mare::engine
