// What a user asked of a move, as an operation keeps it, and what that comes to.
#pragma once

#include <string>
#include <vector>

#include "hypervisor/driver.h"
#include "orchestrator/core/result.h"
#include "orchestrator/model/forecast.h"

namespace mare::engine {

inline constexpr double kMostTime_s = 86400;  // of any limit or window that a user states

/// JSON; what it does not hold reads as the default.
std::string text_of(const MovePolicy& policy, bool force = false, const Timing& timing = {});
Timing timing_from(const std::string& text);
/// Was the request to go on also when the forecast is against it?
bool is_forced(const std::string& text);
MovePolicy move_policy_from(const std::string& text);

/// JSON with only what it states; null: stated to be none.
std::string text_of(const PolicyChange& change);
/// What the JSON does not hold is not stated.
PolicyChange policy_change_from(const std::string& text);

/// InvalidArgument names the field of the request that can't be granted.
Status check(const MovePolicy& policy);
Status check(const Timing& timing);

/// The strategies that a host with these facts can be either end of: its own, and
/// checkpoint-restart, which is composed of captures, if there is storage for the file.
std::vector<Strategy> strategies_with(const HostFacts& facts, const std::string& checkpoints);

/// The strategy that the policy names, plain pre-copy if it names none, with usual knobs.
Sending sending_for(const MovePolicy& policy);

}  // namespace mare::engine
