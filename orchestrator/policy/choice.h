// Which strategy to take, and why, in one sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/policy/strategy_estimate.h"

namespace mare::policy {

/// Why the policy forbids this one; "" if it does not. Manual forbids nothing.
std::string ruled_out(const Situation& situation, const StrategyEstimate& estimate);

struct Choice {
  std::optional<std::size_t> index;  // into the estimates; none: do not move
  std::string reason;
};
/// Expects why_not to be set on all that are not offered or are ruled out.
///   least-stall    least added job time; of those as good: no way of no return, then least traffic
///   least-traffic  least bytes; of those as good: least added job time
///   by-deadline    as least-stall, among those whose interval ends within the time limit; without
///                  a limit the least total time
///   manual         the one that was named
Choice choose(const Situation& situation, const std::vector<StrategyEstimate>& estimates);

/// "12.3 s", "85 ms", "140 MB": three digits, as for a sentence.
std::string say_time(double seconds);
std::string say_bytes(double bytes);

}  // namespace mare::policy
