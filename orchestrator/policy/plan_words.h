// The sentences of the planner.
#pragma once

#include <string>

#include "orchestrator/policy/cluster_state.h"
#include "orchestrator/policy/n_plus_one.h"

namespace mare::policy {

std::string mib_words(std::uint64_t bytes);
std::string figure(double value, int decimals);
std::string percent(double share);
/// "1 VM", "3 VMs"
std::string counted(std::size_t count, const std::string& noun);

/// Why no host takes a VM: what stands in the way where. `n_plus_one` of its hosts were refused
/// only because a failure could not be survived any more.
std::string no_place_words(const ClusterState& state, VmIndex v, HostIndex except, int n_plus_one);

/// Why a move that takes the terms from `before` to `after` is worth it.
std::string move_words(const ClusterState& state, VmIndex v, HostIndex to, const ScoreTerms& before,
                       const ScoreTerms& after);

}  // namespace mare::policy
