// Moves of several VMs: which first and which at once, from the forecasts that a plan.drain or a
// plan.layout asked for. A dry run shows it, host.drain and layout.change follow it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/move_plan.h"

namespace mare::engine {

/// Had better not move.
struct Stay {
  VmId vm;
  std::string why;
};
struct MovesPlan {
  std::vector<policy::WantedMove> moves;  // the plan's indices lead here
  policy::MovePlan plan;
  std::vector<Stay> stay;
  std::map<VmId, OperationId> forecasts;  // of all of them
};

/// Of the forecasts that are children of that operation, or of those of them that are `wanted`.
Result<MovesPlan> read_moves_plan(const store::Reader& reader, const OperationId& plan,
                                  const policy::MoveCaps& caps,
                                  const std::function<bool(const Forecast&)>& wanted = {});
/// One sentence.
std::string in_words(const MovesPlan& plan);

/// As a plan.drain keeps it, JSON: what the policy states, and the whole plan as "plan". Waves are
/// counted from 1. Figures of moves are the plan's, in which those that share a host's link
/// lengthen each other; seconds and bytes.
std::string text_of(const PolicyChange& policy, const MovesPlan& plan);
/// The plan in it, whose moves' forecasts hold the plan's figures and their strategy, and no more.
/// None: there is no plan in it.
std::optional<MovesPlan> moves_plan_from(const std::string& text);

}  // namespace mare::engine
