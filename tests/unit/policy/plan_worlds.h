// Clusters for the planner's tests: by hand in a line, or from a seed; and an independent look at
// what the planner answers.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/core/rng.h"
#include "orchestrator/policy/planner.h"

namespace mare::policy::testing {

ClusterHost host_of(const std::string& name, std::uint64_t memory_mib, double cpus);
ClusterVm vm_of(const std::string& name, std::uint64_t memory_mib, const std::string& host);

/// 2 to 12 hosts of different sizes, VMs where they fit, some with groups, tags, jobs, demands,
/// traffic and locks.
Cluster random_cluster(Rng& rng);
PlanPolicy random_policy(Rng& rng);

/// "" or what is wrong: a host over its memory, tags not met.
std::string overfull(const Cluster& cluster);
/// Pairs of an anti-affinity group on one host.
int conflicts(const Cluster& cluster);
/// Hosts that could not fail: by its own search, which tries everything, with nothing of the
/// planner's. For clusters with few VMs on a host.
int truly_exposed(const Cluster& cluster);

}  // namespace mare::policy::testing
