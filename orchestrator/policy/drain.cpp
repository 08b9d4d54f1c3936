#include <algorithm>

#include "orchestrator/policy/best_host.h"
#include "orchestrator/policy/plan_words.h"
#include "orchestrator/policy/planner.h"

namespace mare::policy {
namespace {

DrainPlan drain_by(const Cluster& cluster, const PlanPolicy& policy, HostIndex host,
                   Prefer prefer) {
  ClusterState state(cluster, policy);
  state.close_host(host);
  NPlusOne n_plus_one(state);
  std::vector<VmIndex> leaving = state.vms_on(host);
  std::stable_sort(leaving.begin(), leaving.end(), [&state](VmIndex a, VmIndex b) {
    return state.memory_of(a) > state.memory_of(b);
  });
  DrainPlan out;
  for (const VmIndex v : leaving) {
    if (state.locked(v)) {
      out.refused.push_back({state.source(v).id, "it is locked: it may not move now"});
      continue;
    }
    const Settled choice = settle(state, n_plus_one, v, host, prefer);
    if (choice.host == kNowhere) {
      out.refused.push_back(
          {state.source(v).id, no_place_words(state, v, host, choice.refused_by_n_plus_one)});
      continue;
    }
    Relocation move;
    move.vm = state.source(v).id;
    move.from = state.host(host).id;
    move.to = state.host(choice.host).id;
    move.step = static_cast<int>(out.moves.size()) + 1;
    move.score_after = state.score();
    move.cost = state.source(v).cost;
    move.reason = "'" + move.from.value + "' is drained";
    out.cost.added_job_time_s += move.cost.added_job_time_s;
    out.cost.bytes += move.cost.bytes;
    out.moves.push_back(std::move(move));
  }
  return out;
}

std::string words_of(const DrainPlan& plan, const HostId& host) {
  const std::string name = "'" + host.value + "'";
  if (plan.moves.empty() && plan.refused.empty()) return name + " runs no VM";
  if (plan.empties()) return name + " is emptied by " + counted(plan.moves.size(), "move");
  const Refusal& first = plan.refused.front();
  return name + " can't be emptied: " + counted(plan.refused.size(), "VM") + " of " +
         std::to_string(plan.moves.size() + plan.refused.size()) + " can't leave; '" +
         first.vm.value + "': " + first.reason;
}

}  // namespace

Result<DrainPlan> drain(const Cluster& cluster, const PlanPolicy& policy, const HostId& host) {
  const auto found = std::find_if(cluster.hosts.begin(), cluster.hosts.end(),
                                  [&host](const ClusterHost& one) { return one.id == host; });
  if (found == cluster.hosts.end()) {
    return make_error(Code::NotFound, "no host '" + host.value + "' in the cluster");
  }
  const auto index = static_cast<HostIndex>(found - cluster.hosts.begin());
  // By the score first; where that leaves a VM behind, packed as tightly as can be.
  DrainPlan out = drain_by(cluster, policy, index, Prefer::Score);
  if (!out.empties()) {
    DrainPlan tight = drain_by(cluster, policy, index, Prefer::Tightest);
    if (tight.refused.size() < out.refused.size()) out = std::move(tight);
  }
  out.reason = words_of(out, host);
  return out;
}

}  // namespace mare::policy
