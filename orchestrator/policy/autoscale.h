// How many VMs a pool should have, by the target rule of Kubernetes and of MCMPI (section 4):
//   desired = ceil(current * metric / target)
// with what keeps it from fluttering. Pure: the time is an argument, what is remembered is a value.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/model/autoscaler.h"

namespace mare::policy {

struct AutoscaleDecision {
  int size = 0;            // what the pool should have now
  int desired = 0;         // what the rule alone says, within min and max
  std::string reason;      // one sentence
  AutoscaleMemory memory;  // for the next time
};

/// `now` is since any fixed origin. Without a metric the pool stays as it is, within min and max.
AutoscaleDecision autoscale(const AutoscaleRule& rule, AutoscaleMemory memory, Seconds now,
                            int current, std::optional<double> metric);

}  // namespace mare::policy
