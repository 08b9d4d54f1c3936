// Spreading and packing the VMs of one running job: an MPI program can't change its number of
// ranks, but its VMs can share more hosts or fewer. A plan is done only if what the job gains over
// its remaining time exceeds what the moves cost it (Neves 2009, Eq. 5.2; docs/placement.md).
#pragma once

#include <string>
#include <vector>

#include "orchestrator/policy/planner.h"

namespace mare::policy {

enum class Layout { Spread, Pack };

struct LayoutRequest {
  JobId job;
  Layout layout = Layout::Spread;
  int hosts = 0;           // on how many at most; 0: as many as help (spread), as few as do (pack)
  double remaining_s = 0;  // of the job, at today's pace
  BytesPerSecond link;     // of one host; 0: not known, communication is left out
};

struct LayoutPlan {
  std::vector<Relocation> moves;  // what was found, also when it is not worth it; one a VM
  bool worth = false;             // gain_s > cost_s
  int hosts_before = 0;
  int hosts_after = 0;
  double slowdown_before = 1;  // of the slowest rank: cpus asked for on its host, for each it has
  double slowdown_after = 1;
  double gain_s = 0;  // over the remaining time; below 0 the job gets slower
  double cost_s = 0;  // added job time of the moves
  std::string reason;
};

/// NotFound: no VM of the job is on a host. ResourceExhausted: it does not fit on so few hosts.
Result<LayoutPlan> lay_out(const Cluster& cluster, const PlanPolicy& policy,
                           const LayoutRequest& request);

/// The same plan when its moves together cost so much: whether it is worth it, and the sentence.
void weigh(LayoutPlan& plan, const LayoutRequest& request, double cost_s);

/// Eq. 5.2 for the rest of a job: seconds that remain after the slowest rank's slow-down went from
/// `slowdown` to `slowdown_after`, and the share of time spent on its busiest link from `wire` to
/// `wire_after` (both of today's second).
double remaining_after(double remaining_s, double slowdown, double slowdown_after, double wire,
                       double wire_after);

}  // namespace mare::policy
