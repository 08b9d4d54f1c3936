#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "orchestrator/policy/hard_rules.h"
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
  // To follow N+1 once more takes about as long as the search; large plans do without.
  std::optional<NPlusOne> n_plus_one;
  if (!policy.exchanges) n_plus_one.emplace(state);
  const auto score = [&] { return n_plus_one ? full_score(state, *n_plus_one) : state.score(); };
  int number = 0;
  for (const Step& step : steps) {
    ++number;
    for (const Hop& hop : step) {
      const HostIndex from = state.host_of(hop.vm);
      const double score_before = score();
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
      if (overfull(state, from)) {
        move.reason = "host '" + move.from.value + "' has given out more than it has";
      } else if (in_conflict(state, hop.vm)) {
        move.reason = "it must not share host '" + move.from.value + "'";
      }
      state.move(hop.vm, hop.to);
      if (n_plus_one) {
        static_cast<void>(n_plus_one->admit(hop.vm, from, hop.to));  // the search did so
        n_plus_one->retry_exposed();
      }
      move.score_after = state.score();
      move.gain = score_before - score();
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
  plan.broken_after = plan.broken_before;
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
  const int others_before = plan.broken_before - plan.exposed_before;
  const int others_after = plan.broken_after - plan.exposed_after;
  if (others_before != others_after) {
    out += ", other hard rules that are broken from " + std::to_string(others_before) + " to " +
           std::to_string(others_after);
  }
  if (plan.cost.added_job_time_s > 0) {
    out += ", for " + figure(plan.cost.added_job_time_s, 1) + " s of added job time";
  }
  return out;
}

/// The steps up to the first that moves a VM again.
std::vector<Step> first_hops(std::vector<Step> steps) {
  std::set<VmIndex> moved;
  const auto again = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
    return std::any_of(step.begin(), step.end(),
                       [&](const Hop& hop) { return !moved.insert(hop.vm).second; });
  });
  steps.erase(again, steps.end());
  return steps;
}

void note_after(const Cluster& cluster, const PlanPolicy& policy, const std::vector<Step>& steps,
                RebalancePlan& out) {
  ClusterState state(cluster, policy);
  for (const Step& step : steps) {
    for (const Hop& hop : step) state.move(hop.vm, hop.to);
  }
  const NPlusOne n_plus_one(state);
  out.score_after = full_score(state, n_plus_one);
  out.exposed_after = n_plus_one.exposed_hosts();
  out.broken_after = broken_rules(state, n_plus_one).count();
}

/// Better: fewer broken rules, or less broken ones, or a better score.
struct Standing {
  BrokenRules broken;
  double score = 0;

  bool better_than(const Standing& other) const {
    if (broken.count() != other.broken.count()) return broken.count() < other.broken.count();
    if (broken.bytes != other.broken.bytes) return broken.bytes < other.broken.bytes;
    return score < other.score - kNothing;
  }
};

Standing standing(const ClusterState& state, const NPlusOne& n_plus_one) {
  return {broken_rules(state, n_plus_one), full_score(state, n_plus_one)};
}

template <typename Items, typename Id>
int index_of(const Items& items, const Id& id) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& one) { return one.id == id; });
  return found == items.end() ? kNowhere : static_cast<int>(found - items.begin());
}

}  // namespace

RebalancePlan rebalance(const Cluster& cluster, const PlanPolicy& policy) {
  ClusterState state(cluster, policy);
  NPlusOne n_plus_one(state);
  RebalancePlan out;
  out.score_before = full_score(state, n_plus_one);
  out.exposed_before = n_plus_one.exposed_hosts();
  out.broken_before = broken_rules(state, n_plus_one).count();
  if (state.usable_hosts() < 2) return nothing(out, "there are fewer than two hosts to use");
  if (out.score_before < policy.threshold && out.broken_before == 0) {
    return nothing(out, "the score " + figure(out.score_before, 4) + " is below the threshold " +
                            figure(policy.threshold, 4));
  }
  RebalanceSearch search(state, n_plus_one);
  std::vector<Step> steps = search.run();
  out.score_after = full_score(state, n_plus_one);
  out.exposed_after = n_plus_one.exposed_hosts();
  out.broken_after = broken_rules(state, n_plus_one).count();
  if (!policy.exchanges) {
    steps = first_hops(std::move(steps));
    note_after(cluster, policy, steps, out);
  }
  if (steps.empty()) {
    return nothing(out, "none that is possible gains more than it costs (score " +
                            figure(out.score_before, 4) + ")");
  }
  const double gained = (out.score_before - out.score_after) / out.score_before;
  if (gained < policy.margin && out.broken_after >= out.broken_before) {
    return nothing(out, "the best plan found takes away " + figure(100 * gained, 1) +
                            "% of the score, less than the margin of " +
                            figure(100 * policy.margin, 1) + "%");
  }
  tell(cluster, policy, policy.exchanges ? ordered(cluster, policy, steps) : steps, out);
  out.reason = words_of(out);
  return out;
}

std::string check_moves(const Cluster& cluster, const PlanPolicy& policy,
                        const std::vector<Relocation>& moves) {
  ClusterState state(cluster, policy);
  NPlusOne n_plus_one(state);
  for (const Relocation& move : moves) {
    const VmIndex v = index_of(cluster.vms, move.vm);
    const HostIndex to = index_of(cluster.hosts, move.to);
    const std::string what = "moving VM '" + move.vm.value + "' to host '" + move.to.value + "'";
    if (v == kNowhere || to == kNowhere || cluster.vms[ClusterState::at(v)].host != move.from) {
      return what + " is not possible any more: one of them has gone";
    }
    const Standing before = standing(state, n_plus_one);
    if (state.obstacle(v, to) != Obstacle::None) return what + " is not possible any more";
    if (!try_move(state, n_plus_one, v, to)) {
      return what + " would leave a host whose failure can't be survived";
    }
    n_plus_one.retry_exposed();
    if (!standing(state, n_plus_one).better_than(before)) {
      return what + " would not make the cluster better any more";
    }
  }
  return "";
}

ClusterHealth cluster_health(const Cluster& cluster, const PlanPolicy& policy) {
  const ClusterState state(cluster, policy);
  const NPlusOne n_plus_one(state);
  return {full_score(state, n_plus_one), broken_rules(state, n_plus_one).count()};
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
