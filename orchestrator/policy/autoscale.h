// How many VMs a pool should have, by the target rule of Kubernetes and of MCMPI (section 4):
//   desired = ceil(current * metric / target)
// with what keeps it from fluttering. Pure: the time is an argument, what is remembered is a value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/units.h"

namespace mare::policy {

/// Of one direction. Zero: not used.
struct ScalePace {
  Seconds stabilisation{0};  // the mildest wish of so long counts
  Seconds cooldown{0};       // since the last change in this direction
  int step = 0;              // VMs at once
};

struct AutoscaleRule {
  double target = 1;       // of the metric, for each VM or for all, as the metric is; > 0
  double tolerance = 0.1;  // a metric so near to the target changes nothing
  int min = 1;
  int max = 1;
  ScalePace up;
  ScalePace down{Seconds{300}, Seconds{0}, 0};
};

struct AutoscaleWish {
  Seconds at{0};
  int desired = 0;
};
struct AutoscaleMemory {
  std::vector<AutoscaleWish> wishes;  // as far back as the longer window
  std::optional<Seconds> last_up;
  std::optional<Seconds> last_down;
};

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
