// Where new VMs go, which moves make the cluster better, and how a host is emptied. Pure arithmetic
// on a Cluster; every answer says why, also when it is "nothing". docs/placement.md has the score.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/core/result.h"
#include "orchestrator/policy/cluster_model.h"

namespace mare::policy {

struct Placed {
  VmId vm;
  HostId host;
};
struct Refusal {
  VmId vm;
  std::string reason;
};
enum class Wish { AllOrNothing, BestEffort };

struct PlacementPlan {
  std::vector<Placed>
      placed;  // in the order of Cluster::vms; empty when all was wished and not got
  std::vector<Refusal> refused;
  double score_before = 0;
  double score_after = 0;
  std::string reason;
};

/// Hosts for the VMs of the cluster that have none.
PlacementPlan place_new(const Cluster& cluster, const PlanPolicy& policy, Wish wish);

struct Relocation {
  VmId vm;
  HostId from;
  HostId to;
  int step = 0;            // from 1; the two moves of an exchange have the same
  double score_after = 0;  // without the part of N+1
  double gain = 0;         // of the score; of a plan without exchanges with the part of N+1
  MoveCost cost;
  std::string reason;
};

struct RebalancePlan {
  std::vector<Relocation> moves;  // in an order in which every state between is possible
  double score_before = 0;
  double score_after = 0;
  int exposed_before = 0;  // hosts whose failure would leave VMs without a place
  int exposed_after = 0;
  int broken_before = 0;  // hard rules, exposed hosts among them
  int broken_after = 0;
  MoveCost cost;  // of all moves, one after the other
  std::string reason;
};

/// Every step makes the score better by more than it costs, or mends a hard rule; a plan that mends
/// none and takes away too little of the score (policy.margin) is no plan. Planning again on the
/// outcome gives no moves.
RebalancePlan rebalance(const Cluster& cluster, const PlanPolicy& policy);

/// Whether these moves are still possible, one after the other, and each makes the cluster better.
/// "", or why not. What a move costs is not asked again, and neither is whether its VM is locked.
std::string check_moves(const Cluster& cluster, const PlanPolicy& policy,
                        const std::vector<Relocation>& moves);

struct ClusterHealth {
  double score = 0;  // N+1 included
  int broken = 0;    // hard rules
};
ClusterHealth cluster_health(const Cluster& cluster, const PlanPolicy& policy);

struct DrainPlan {
  std::vector<Relocation> moves;
  std::vector<Refusal> refused;  // VMs that have to stay, and why
  MoveCost cost;
  std::string reason;

  bool empties() const { return refused.empty(); }
};

/// NotFound when the host is not in the cluster.
Result<DrainPlan> drain(const Cluster& cluster, const PlanPolicy& policy, const HostId& host);

/// The score of the cluster as it is, N+1 included.
double cluster_score(const Cluster& cluster, const PlanPolicy& policy);
/// The same cluster after the moves.
Cluster after_moves(Cluster cluster, const std::vector<Relocation>& moves);

}  // namespace mare::policy
