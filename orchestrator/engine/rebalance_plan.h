// What a rebalancing goes by, and what a plan.rebalance found, as its operation keeps it beside
// what was asked. 'mare rebalance --dry-run' shows it, cluster.rebalance follows it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/context.h"
#include "orchestrator/engine/requests.h"
#include "orchestrator/policy/planner.h"

namespace mare::engine {

/// The target of plan.rebalance and cluster.rebalance: there is one.
inline constexpr const char* kTheCluster = "cluster";

struct RebalanceFound {
  policy::RebalancePlan plan;
  std::vector<std::pair<VmId, std::string>> refused;  // would cost more than they bring
  std::vector<std::pair<VmId, std::string>> stay;     // had better not move
};

RebalanceWish wish_of(const RebalanceSetting& setting);
policy::PlanPolicy policy_of(const RebalanceWish& wish);

/// JSON.
std::string text_of(const RebalanceWish& wish);
std::string text_of(const RebalanceWish& wish, const RebalanceFound& found);
RebalanceWish rebalance_wish_from(const std::string& text);
/// Moves and scores of the plan in it; without moves if it has none.
RebalanceProposal proposal_from(const std::string& text);
/// How many moves were refused for their cost.
std::size_t refused_in(const std::string& text);

RebalanceProposal proposal_of(const policy::RebalancePlan& plan);
/// One or two sentences.
std::string in_words(const RebalanceFound& found);

/// The cluster as a rebalancing may change it: VMs that have just moved, and those of pools that
/// are held back, are locked or moved by hard rules only.
Result<policy::Cluster> read_rebalance_cluster(const store::Reader& reader,
                                               const RebalanceWish& wish, WallTime now);
/// Who else is changing where VMs are, in words: a drain, a layout, a recovery. "" if nobody.
Result<std::string> who_moves_vms(const store::Reader& reader);

/// Event `rebalance.proposed` unless the same moves were proposed before.
Status put_proposal(store::Transaction& tx, const Clock& clock, Rebalancing& row,
                    RebalanceProposal proposal);

}  // namespace mare::engine
