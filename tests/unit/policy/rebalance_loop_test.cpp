// What the engine's loop asks of the planner: when a plan is due, hard rules, whether moves are
// still good, waves in order.
#include "orchestrator/policy/rebalance_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orchestrator/policy/move_plan.h"
#include "orchestrator/policy/planner.h"

namespace mare::policy {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RebalanceDue is_due(RebalanceMode mode, double score, int broken,
                    std::optional<WallTime> since = {}, std::optional<WallTime> ended = {}) {
  RebalanceSetting setting;
  setting.mode = mode;
  return rebalance_due(setting, since, ended, {1000s, score, broken});
}

TEST(RebalanceDue, ThresholdAndHoldTime) {
  const auto automatic = RebalanceMode::Automatic;
  EXPECT_FALSE(is_due(automatic, 0.09, 0).plan);
  EXPECT_FALSE(is_due(automatic, 0.09, 0, 1s).above_since) << "forgotten when it falls below";
  const auto first = is_due(automatic, 0.1, 0);
  EXPECT_FALSE(first.plan);
  EXPECT_EQ(first.above_since, WallTime{1000s});
  EXPECT_THAT(first.reason, HasSubstr("not yet for 60 s"));
  EXPECT_FALSE(is_due(automatic, 0.1, 0, 941s).plan);
  const auto held = is_due(automatic, 0.1, 0, 940s);
  EXPECT_TRUE(held.plan);
  EXPECT_EQ(held.above_since, WallTime{940s});
}

TEST(RebalanceDue, CooldownHoldsRoundsNotProposals) {
  const auto waits = is_due(RebalanceMode::Automatic, 1, 0, 0s, 701s);
  EXPECT_FALSE(waits.plan);
  EXPECT_THAT(waits.reason, HasSubstr("cooldown of 300 s"));
  EXPECT_TRUE(is_due(RebalanceMode::Automatic, 1, 0, 0s, 700s).plan);
  EXPECT_TRUE(is_due(RebalanceMode::Manual, 1, 0, 0s, 999s).plan);
}

TEST(RebalanceDue, PartialGoesByHardRulesOnly) {
  EXPECT_FALSE(is_due(RebalanceMode::Partial, 5, 0, 0s).plan);
  EXPECT_TRUE(is_due(RebalanceMode::Partial, 0, 1, 0s).plan);
  EXPECT_TRUE(is_due(RebalanceMode::Automatic, 0, 1, 0s).plan) << "the others as well";
}

ClusterHost a_host(const std::string& id, std::uint64_t mib) {
  ClusterHost out;
  out.id = HostId{id};
  out.memory = mebibytes(mib);
  out.cpus = 4;
  return out;
}
ClusterVm a_vm(const std::string& id, std::uint64_t mib, const std::string& on) {
  ClusterVm out;
  out.id = VmId{id};
  out.memory = mebibytes(mib);
  out.host = HostId{on};
  return out;
}
PlanPolicy loop_policy() {
  PlanPolicy out;
  out.threshold = 0;
  out.exchanges = false;
  return out;
}
Relocation a_move(const std::string& id, const std::string& from, const std::string& to) {
  Relocation out;
  out.vm = VmId{id};
  out.from = HostId{from};
  out.to = HostId{to};
  return out;
}

TEST(HardRules, AHostThatGivesOutMoreThanItHasIsRelieved) {
  Cluster cluster{{a_host("a", 1000), a_host("b", 4000), a_host("c", 4000)},
                  {a_vm("v0", 600, "a"), a_vm("v1", 600, "a"), a_vm("v2", 100, "c")},
                  {}};
  for (auto& one : cluster.vms) one.by_rule_only = true;
  EXPECT_EQ(cluster_health(cluster, loop_policy()).broken, 1);
  const auto plan = rebalance(cluster, loop_policy());
  ASSERT_EQ(plan.moves.size(), 1U) << plan.reason;
  EXPECT_EQ(plan.moves[0].from, HostId{"a"});
  EXPECT_EQ(plan.moves[0].reason, "host 'a' has given out more than it has");
  EXPECT_EQ(plan.broken_before, 1);
  EXPECT_EQ(plan.broken_after, 0);
  EXPECT_THAT(plan.reason, HasSubstr("other hard rules that are broken from 1 to 0"));
  EXPECT_EQ(check_moves(cluster, loop_policy(), plan.moves), "");
  cluster.vms[0].locked = cluster.vms[1].locked = true;
  EXPECT_TRUE(rebalance(cluster, loop_policy()).moves.empty());
}

TEST(HardRules, AntiAffinityPartsThoseThatShareAHost) {
  // The fourth is where one of them goes when its host fails.
  Cluster cluster{{a_host("a", 4000), a_host("b", 4000), a_host("c", 4000), a_host("d", 4000)},
                  {a_vm("v0", 100, "a"), a_vm("v1", 100, "a"), a_vm("v2", 100, "a")},
                  {}};
  for (auto& one : cluster.vms) {
    one.anti_affinity = "g";
    one.by_rule_only = true;
  }
  EXPECT_EQ(cluster_health(cluster, loop_policy()).broken, 3) << "pairs";
  const auto plan = rebalance(cluster, loop_policy());
  EXPECT_EQ(plan.moves.size(), 2U) << plan.reason;
  EXPECT_EQ(plan.broken_after, 0);
  EXPECT_EQ(cluster_health(after_moves(cluster, plan.moves), loop_policy()).broken, 0);
}

TEST(HardRules, WhatMovesByRuleOnlyIsNotEvenedOut) {
  Cluster cluster{
      {a_host("a", 4000), a_host("b", 4000)}, {a_vm("v0", 500, "a"), a_vm("v1", 500, "a")}, {}};
  cluster.vms[0].by_rule_only = true;
  const auto plan = rebalance(cluster, loop_policy());
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0].vm, VmId{"v1"}) << "the other one may";
  EXPECT_GT(plan.moves[0].gain, 0);
  cluster.vms[1].by_rule_only = true;
  EXPECT_TRUE(rebalance(cluster, loop_policy()).moves.empty());
}

TEST(HardRules, WithoutExchangesEveryPrefixIsBetterAndNoVmMovesTwice) {
  Cluster cluster{
      {a_host("a", 4000), a_host("b", 4000), a_host("c", 4000), a_host("d", 4000)}, {}, {}};
  for (int i = 0; i < 12; ++i) {
    cluster.vms.push_back(
        a_vm("v" + std::to_string(i), static_cast<std::uint64_t>(100 + 60 * i), i < 9 ? "a" : "b"));
  }
  const auto plan = rebalance(cluster, loop_policy());
  ASSERT_GT(plan.moves.size(), 2U);
  double before = plan.score_before;
  std::vector<Relocation> done;
  std::set<VmId> moved;
  for (const auto& one : plan.moves) {
    EXPECT_TRUE(moved.insert(one.vm).second) << one.vm.value;
    EXPECT_EQ(check_moves(after_moves(cluster, done), loop_policy(), {one}), "");
    done.push_back(one);
    const double now = cluster_score(after_moves(cluster, done), loop_policy());
    EXPECT_LT(now, before);
    EXPECT_NEAR(before - now, one.gain, 1e-9);
    before = now;
  }
  EXPECT_NEAR(before, plan.score_after, 1e-9);
}

TEST(CheckMoves, WhatIsNoLongerPossibleOrGoodIsSaid) {
  Cluster cluster{{a_host("a", 4000), a_host("b", 4000), a_host("c", 4000)},
                  {a_vm("v0", 500, "a"), a_vm("v1", 500, "a"), a_vm("v2", 500, "b")},
                  {}};
  const auto why = [&](const Relocation& one) {
    return check_moves(cluster, loop_policy(), {one});
  };
  EXPECT_EQ(why(a_move("v0", "a", "c")), "");
  EXPECT_THAT(why(a_move("v2", "b", "a")), HasSubstr("not make the cluster better any more"));
  EXPECT_THAT(why(a_move("v0", "b", "c")), HasSubstr("one of them has gone"));
  EXPECT_THAT(why(a_move("v0", "a", "x")), HasSubstr("one of them has gone"));
  cluster.hosts[2].usable = false;
  EXPECT_THAT(why(a_move("v0", "a", "c")), HasSubstr("not possible any more"));
  cluster.hosts[2].usable = true;
  cluster.hosts[2].memory = mebibytes(400);
  EXPECT_THAT(why(a_move("v0", "a", "c")), HasSubstr("not possible any more"));
}

Route a_route(const std::string& from, const std::string& to) {
  return {HostId{from}, HostId{to}};
}

TEST(WavesInOrder, NoMoveCountsOnRoomThatAnotherOneMakes) {
  using Wave = std::vector<std::size_t>;
  const MoveCaps caps{4, 4};
  EXPECT_THAT(waves_in_order({}, caps), ElementsAre());
  EXPECT_THAT(waves_in_order({a_route("a", "b"), a_route("a", "c")}, caps),
              ElementsAre(Wave{0, 1}));
  EXPECT_THAT(waves_in_order({a_route("a", "b"), a_route("c", "a"), a_route("c", "b")}, caps),
              ElementsAre(Wave{0}, Wave{1, 2}));
  EXPECT_THAT(
      waves_in_order({a_route("a", "b"), a_route("a", "b"), a_route("a", "c")}, MoveCaps{2, 1}),
      ElementsAre(Wave{0}, Wave{1, 2}));
}

}  // namespace
}  // namespace mare::policy
