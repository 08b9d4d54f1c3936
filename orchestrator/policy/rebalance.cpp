#include <unordered_map>

#include "orchestrator/policy/move_order.h"
#include "orchestrator/policy/plan_words.h"
#include "orchestrator/policy/planner.h"
#include "orchestrator/policy/rebalance_search.h"

namespace mare::policy {
namespace {

double full_score(const ClusterState& state, const NPlusOne& n_plus_one) {
  return state.score() + n_plus_one.penalty();
}

/// The moves in words and figures, carried out once more from the start.
void tell(const Cluster& cluster, const PlanPolicy& policy, const std::vector<Step>& steps,
          RebalancePlan& out) {
  ClusterState state(cluster, policy);
  int number = 0;
  for (const Step& step : steps) {
    ++number;
    for (const Hop& hop : step) {
      Relocation move;
      move.vm = state.source(hop.vm).id;
      move.from = state.host(state.host_of(hop.vm)).id;
      move.to = state.host(hop.to).id;
      move.step = number;
      move.cost = state.source(hop.vm).cost;
      const ScoreTerms before = state.terms();
      move.reason = move_words(state, hop.vm, hop.to, before, state.terms_after(hop.vm, hop.to));
      if (step.size() > 1) {
        const VmIndex other = hop.vm == step.front().vm ? step.back().vm : step.front().vm;
        move.reason = "trades places with '" + state.source(other).id.value +
                      "', which levels memory and cpus of both hosts";
      }
      state.move(hop.vm, hop.to);
      move.score_after = state.score();
      out.cost.added_job_time_s += move.cost.added_job_time_s;
      out.cost.bytes += move.cost.bytes;
      out.moves.push_back(std::move(move));
    }
  }
}

RebalancePlan nothing(RebalancePlan plan, const std::string& why) {
  plan.moves.clear();
  plan.cost = {};
  plan.score_after = plan.score_before;
  plan.exposed_after = plan.exposed_before;
  plan.reason = "no beneficial move: " + why;
  return plan;
}

std::string words_of(const RebalancePlan& plan) {
  std::string out = counted(plan.moves.size(), "move") + ": the score falls from " +
                    figure(plan.score_before, 4) + " to " + figure(plan.score_after, 4);
  if (plan.exposed_before != plan.exposed_after) {
    out += ", hosts whose failure could not be survived from " +
           std::to_string(plan.exposed_before) + " to " + std::to_string(plan.exposed_after);
  }
  if (plan.cost.added_job_time_s > 0) {
    out += ", for " + figure(plan.cost.added_job_time_s, 1) + " s of added job time";
  }
  return out;
}

}  // namespace

RebalancePlan rebalance(const Cluster& cluster, const PlanPolicy& policy) {
  ClusterState state(cluster, policy);
  NPlusOne n_plus_one(state);
  RebalancePlan out;
  out.score_before = full_score(state, n_plus_one);
  out.exposed_before = n_plus_one.exposed_hosts();
  if (state.usable_hosts() < 2) return nothing(out, "there are fewer than two hosts to use");
  if (out.score_before < policy.threshold) {
    return nothing(out, "the score " + figure(out.score_before, 4) + " is below the threshold " +
                            figure(policy.threshold, 4));
  }
  RebalanceSearch search(state, n_plus_one);
  const std::vector<Step> steps = search.run();
  out.score_after = full_score(state, n_plus_one);
  out.exposed_after = n_plus_one.exposed_hosts();
  if (steps.empty()) {
    return nothing(out, "none that is possible gains more than it costs (score " +
                            figure(out.score_before, 4) + ")");
  }
  const double gained = (out.score_before - out.score_after) / out.score_before;
  if (gained < policy.margin) {
    return nothing(out, "the best plan found takes away " + figure(100 * gained, 1) +
                            "% of the score, less than the margin of " +
                            figure(100 * policy.margin, 1) + "%");
  }
  tell(cluster, policy, ordered(cluster, policy, steps), out);
  out.reason = words_of(out);
  return out;
}

double cluster_score(const Cluster& cluster, const PlanPolicy& policy) {
  const ClusterState state(cluster, policy);
  return full_score(state, NPlusOne(state));
}

Cluster after_moves(Cluster cluster, const std::vector<Relocation>& moves) {
  std::unordered_map<VmId, HostId> last;
  for (const Relocation& move : moves) last[move.vm] = move.to;
  for (ClusterVm& vm : cluster.vms) {
    const auto found = last.find(vm.id);
    if (found != last.end()) vm.host = found->second;
  }
  return cluster;
}

}  // namespace mare::policy
