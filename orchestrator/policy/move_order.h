// Steps that were found one after the other, as moves that can be carried out: each VM moves once,
// every state between is possible, and no step makes the score worse.
#pragma once

#include <vector>

#include "orchestrator/policy/rebalance_search.h"

namespace mare::policy {

/// `steps` is valid as it is, from where `cluster` has its VMs, but may move a VM twice. Answers
/// the same outcome with one move for each VM; `steps` itself where no such order is found.
std::vector<Step> ordered(const Cluster& cluster, const PlanPolicy& policy,
                          const std::vector<Step>& steps);

}  // namespace mare::policy
