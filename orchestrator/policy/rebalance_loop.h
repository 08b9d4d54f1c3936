// When the placement of running VMs is worth a plan: threshold, hold time, cooldown. Pure.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/model/rebalancing.h"

namespace mare::policy {

struct RebalanceLook {
  WallTime now{0};
  double score = 0;
  int broken = 0;  // hard rules
};

struct RebalanceDue {
  bool plan = false;
  std::optional<WallTime> above_since;
  std::string reason;  // says the same as long as nothing changes
};

/// `above_since`: as the look before said; `ended`: when the last round did.
RebalanceDue rebalance_due(const RebalanceSetting& setting, std::optional<WallTime> above_since,
                           std::optional<WallTime> ended, const RebalanceLook& look);

}  // namespace mare::policy
