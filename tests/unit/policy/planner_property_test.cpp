// Seeded random clusters: whatever the planner answers can be carried out, helps, and is enough.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "orchestrator/policy/planner.h"
#include "tests/unit/policy/plan_worlds.h"

namespace mare::policy {
namespace {

using testing::conflicts;
using testing::overfull;
using testing::random_cluster;
using testing::random_policy;
using testing::truly_exposed;

constexpr std::uint64_t kSeeds = 300;

ClusterVm& vm_in(Cluster& cluster, const VmId& id) {
  for (auto& vm : cluster.vms) {
    if (vm.id == id) return vm;
  }
  ADD_FAILURE() << "no VM " << id.value;
  return cluster.vms.front();
}

/// Every state on the way, not only the last.
void carry_out(Cluster cluster, const PlanPolicy& policy, const RebalancePlan& plan,
               std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const int exposed = policy.n_plus_one ? truly_exposed(cluster) : 0;
  const int conflicting = conflicts(cluster);
  int together = conflicting;
  double score = cluster_score(cluster, policy);
  for (std::size_t i = 0; i < plan.moves.size(); ++i) {
    const Relocation& move = plan.moves[i];
    ClusterVm& vm = vm_in(cluster, move.vm);
    ASSERT_EQ(vm.host, move.from);
    ASSERT_FALSE(vm.locked);
    ASSERT_NE(move.from, move.to);
    vm.host = move.to;
    ASSERT_EQ(overfull(cluster), "");
    ASSERT_LE(conflicts(cluster), conflicting);
    ASSERT_TRUE(!policy.n_plus_one || exposed > 0 || truly_exposed(cluster) == 0);
    const bool step_ends = i + 1 == plan.moves.size() || plan.moves[i + 1].step != move.step;
    if (!step_ends) continue;
    const double now = cluster_score(cluster, policy);
    // Hard rules are not weighed: a pair that parts may cost elsewhere.
    const int parted = together - conflicts(cluster);
    ASSERT_TRUE(now < score || parted > 0) << "after step " << move.step << ", by " << now - score;
    score = now;
    together -= parted;
  }
  ASSERT_NEAR(score, plan.score_after, 1e-9);
}

TEST(RebalanceProperty, EveryStepIsPossibleAndHelps) {
  std::size_t moves = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SeededRng rng(seed);
    const Cluster cluster = random_cluster(rng);
    const PlanPolicy policy = random_policy(rng);
    const auto plan = rebalance(cluster, policy);
    moves += plan.moves.size();
    ASSERT_LE(plan.score_after, plan.score_before);
    ASSERT_FALSE(plan.reason.empty());
    carry_out(cluster, policy, plan, seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(moves, kSeeds);  // the clusters are such that there is something to do
}

TEST(RebalanceProperty, PlanningAgainMovesNothing) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SeededRng rng(seed);
    const Cluster cluster = random_cluster(rng);
    const PlanPolicy policy = random_policy(rng);
    const auto plan = rebalance(cluster, policy);
    const auto again = rebalance(after_moves(cluster, plan.moves), policy);
    ASSERT_TRUE(again.moves.empty()) << "seed " << seed << ": " << again.reason;
  }
}

TEST(RebalanceProperty, KeepsToTheCap) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SeededRng rng(seed);
    const Cluster cluster = random_cluster(rng);
    PlanPolicy policy = random_policy(rng);
    policy.max_moves = 1 + static_cast<int>(rng.below(3));
    const auto plan = rebalance(cluster, policy);
    ASSERT_LE(plan.moves.size(), static_cast<std::size_t>(policy.max_moves)) << "seed " << seed;
    carry_out(cluster, policy, plan, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(RebalanceProperty, TheSameWhateverTheOrderOfTraffic) {
  SeededRng rng(7);
  Cluster cluster = random_cluster(rng);
  const auto plan = rebalance(cluster, {});
  std::reverse(cluster.traffic.begin(), cluster.traffic.end());
  EXPECT_EQ(rebalance(cluster, {}).moves.size(), plan.moves.size());
}

TEST(DrainProperty, EmptiesTheHostOrNamesWhoStays) {
  int emptied = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRng rng(seed);
    Cluster cluster = random_cluster(rng);
    const PlanPolicy policy = random_policy(rng);
    const HostId host = cluster.hosts[rng.below(cluster.hosts.size())].id;
    const auto plan = drain(cluster, policy, host);
    ASSERT_TRUE(plan);
    std::set<VmId> refused;
    for (const auto& one : plan->refused) {
      ASSERT_FALSE(one.reason.empty());
      refused.insert(one.vm);
    }
    for (const auto& move : plan->moves) {
      ASSERT_EQ(move.from, host);
      vm_in(cluster, move.vm).host = move.to;
      ASSERT_EQ(overfull(cluster), "");
    }
    for (const auto& vm : cluster.vms) {
      ASSERT_TRUE(vm.host != host || refused.contains(vm.id)) << vm.id.value;
    }
    emptied += plan->empties() && !plan->moves.empty() ? 1 : 0;
  }
  EXPECT_GT(emptied, static_cast<int>(kSeeds / 4));
}

TEST(PlaceProperty, NeverOverCapacityAndNPlusOneKept) {
  int placed = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRng rng(seed);
    Cluster cluster = random_cluster(rng);
    const PlanPolicy policy = random_policy(rng);
    const bool was_kept = policy.n_plus_one && truly_exposed(cluster) == 0;
    const int conflicting = conflicts(cluster);
    for (int i = 0; i < 5; ++i) {
      cluster.vms.push_back(testing::vm_of("new-" + std::to_string(i), 1024, ""));
      if (rng.chance(0.5)) cluster.vms.back().anti_affinity = "apart-0";
    }
    const auto plan = place_new(cluster, policy, Wish::BestEffort);
    ASSERT_EQ(plan.placed.size() + plan.refused.size(), 5U);
    for (const auto& one : plan.placed) vm_in(cluster, one.vm).host = one.host;
    ASSERT_EQ(overfull(cluster), "");
    ASSERT_EQ(conflicts(cluster), conflicting);
    ASSERT_TRUE(!was_kept || truly_exposed(cluster) == 0);
    placed += static_cast<int>(plan.placed.size());
  }
  EXPECT_GT(placed, static_cast<int>(kSeeds));
}

}  // namespace
}  // namespace mare::policy
