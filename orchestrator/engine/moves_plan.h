// Moves of several VMs: which first and which at once, from the forecasts that a plan.drain or a
// plan.layout asked for. A dry run shows it, host.drain and layout.change follow it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/move_plan.h"

namespace mare::engine {

struct MovesPlan {
  std::vector<policy::WantedMove> moves;  // the plan's indices lead here
  policy::MovePlan plan;
  std::vector<std::pair<VmId, std::string>> stay;  // had better not move, and why
  double bytes = 0;
};

/// Of the forecasts that are children of that operation, or of those of them that are `wanted`.
Result<MovesPlan> read_moves_plan(const store::Reader& reader, const OperationId& plan,
                                  const policy::MoveCaps& caps,
                                  const std::function<bool(const Forecast&)>& wanted = {});
/// One sentence.
std::string in_words(const MovesPlan& plan);

}  // namespace mare::engine
