#include <algorithm>
#include <numeric>

#include "orchestrator/policy/best_host.h"
#include "orchestrator/policy/plan_words.h"
#include "orchestrator/policy/planner.h"

namespace mare::policy {
namespace {

std::vector<VmIndex> without_host(const ClusterState& state) {
  std::vector<VmIndex> out;
  for (int v = 0; v < state.vms(); ++v) {
    if (state.host_of(v) == kNowhere) out.push_back(v);
  }
  // The largest first: what is hard to place finds the cluster emptiest.
  std::stable_sort(out.begin(), out.end(), [&state](VmIndex a, VmIndex b) {
    return state.memory_of(a) > state.memory_of(b);
  });
  return out;
}

std::string words_of(std::size_t asked, const PlacementPlan& plan, Wish wish) {
  if (asked == 0) return "there is no VM to place";
  if (plan.refused.empty()) {
    return counted(asked, "VM") + " placed; score " + figure(plan.score_before, 4) + " -> " +
           figure(plan.score_after, 4);
  }
  const std::string most = std::to_string(asked - plan.refused.size()) + " of " +
                           counted(asked, "VM") + (wish == Wish::BestEffort ? " placed" : " fit");
  const Refusal& first = plan.refused.front();
  return most + (wish == Wish::BestEffort ? "; '" : ", so none is placed; '") + first.vm.value +
         "' has no place: " + first.reason;
}

}  // namespace

PlacementPlan place_new(const Cluster& cluster, const PlanPolicy& policy, Wish wish) {
  ClusterState state(cluster, policy);
  NPlusOne n_plus_one(state);
  PlacementPlan out;
  out.score_before = state.score() + n_plus_one.penalty();
  std::vector<VmIndex> asked = without_host(state);
  for (const VmIndex v : asked) {
    const Settled choice = settle(state, n_plus_one, v, kNowhere);
    if (choice.host != kNowhere) continue;
    out.refused.push_back(
        {state.source(v).id, no_place_words(state, v, kNowhere, choice.refused_by_n_plus_one)});
  }
  const bool keep = out.refused.empty() || wish == Wish::BestEffort;
  out.score_after = keep ? state.score() + n_plus_one.penalty() : out.score_before;
  std::sort(asked.begin(), asked.end());
  for (const VmIndex v : asked) {
    const HostIndex h = state.host_of(v);
    if (keep && h != kNowhere) out.placed.push_back({state.source(v).id, state.host(h).id});
  }
  out.reason = words_of(asked.size(), out, wish);
  return out;
}

}  // namespace mare::policy
