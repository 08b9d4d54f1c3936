// How a host is emptied: which VMs first and which at once, from the forecasts of a plan.drain.
// 'mare host drain --dry-run' shows it, host.drain follows it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/move_plan.h"

namespace mare::engine {

struct DrainPlan {
  std::vector<policy::WantedMove> moves;  // the plan's indices lead here
  policy::MovePlan plan;
  std::vector<std::pair<VmId, std::string>> stay;  // had better not move, and why
  double bytes = 0;
};

/// Of the forecasts that are children of that operation.
Result<DrainPlan> read_drain_plan(const store::Reader& reader, const OperationId& plan,
                                  const policy::MoveCaps& caps);
/// One sentence.
std::string in_words(const DrainPlan& plan);

}  // namespace mare::engine
