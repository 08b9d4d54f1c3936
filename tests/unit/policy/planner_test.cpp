#include "orchestrator/policy/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy/plan_worlds.h"

namespace mare::policy {
namespace {

using ::testing::HasSubstr;
using testing::host_of;
using testing::vm_of;

PlanPolicy without_n_plus_one() {
  PlanPolicy out;
  out.n_plus_one = false;
  return out;
}

Cluster three_hosts() {
  Cluster out;
  for (const char* name : {"h1", "h2", "h3"}) out.hosts.push_back(host_of(name, 4096, 4));
  return out;
}

TEST(PlaceNew, SpreadsByTheScore) {
  Cluster cluster = three_hosts();
  cluster.vms = {vm_of("old", 1024, "h1"), vm_of("a", 1024, ""), vm_of("b", 1024, "")};
  const auto plan = place_new(cluster, {}, Wish::AllOrNothing);
  ASSERT_EQ(plan.placed.size(), 2U) << plan.reason;
  EXPECT_NE(plan.placed[0].host, HostId{"h1"});
  EXPECT_NE(plan.placed[1].host, HostId{"h1"});
  EXPECT_NE(plan.placed[0].host, plan.placed[1].host);
}

TEST(PlaceNew, AllOrNothingPlacesNoneAndSaysWhy) {
  Cluster cluster = three_hosts();
  cluster.vms = {vm_of("small", 512, ""), vm_of("large", 5000, "")};
  const auto all = place_new(cluster, without_n_plus_one(), Wish::AllOrNothing);
  EXPECT_TRUE(all.placed.empty());
  ASSERT_EQ(all.refused.size(), 1U);
  EXPECT_EQ(all.refused[0].vm, VmId{"large"});
  EXPECT_THAT(all.refused[0].reason,
              HasSubstr("needs 5000 MiB and the most that is free is 4096 MiB"));
  EXPECT_THAT(all.reason, HasSubstr("1 of 2 VMs fit, so none is placed"));
  const auto some = place_new(cluster, without_n_plus_one(), Wish::BestEffort);
  ASSERT_EQ(some.placed.size(), 1U);
  EXPECT_EQ(some.placed[0].vm, VmId{"small"});
}

TEST(PlaceNew, RefusesWhatWouldCostNPlusOne) {
  Cluster cluster = three_hosts();
  cluster.hosts.pop_back();
  cluster.vms = {vm_of("a", 2500, "h1"), vm_of("b", 2000, "")};
  const auto with = place_new(cluster, {}, Wish::AllOrNothing);
  ASSERT_EQ(with.refused.size(), 1U);
  EXPECT_THAT(with.refused[0].reason, HasSubstr("failure of one host could not be survived"));
  EXPECT_TRUE(place_new(cluster, without_n_plus_one(), Wish::AllOrNothing).refused.empty());
}

TEST(PlaceNew, KeepsGroupsTagsAndVcpuLimit) {
  Cluster cluster = three_hosts();
  cluster.hosts[1].tags = {"ib", "fast"};
  cluster.hosts[2].usable = false;
  cluster.vms = {vm_of("a", 100, "h1"), vm_of("b", 100, ""), vm_of("c", 100, "")};
  cluster.vms[0].anti_affinity = cluster.vms[1].anti_affinity = "db";
  cluster.vms[2].needs = {"ib"};
  auto plan = place_new(cluster, without_n_plus_one(), Wish::AllOrNothing);
  ASSERT_EQ(plan.placed.size(), 2U) << plan.reason;
  EXPECT_EQ(plan.placed[0].host, HostId{"h2"});
  EXPECT_EQ(plan.placed[1].host, HostId{"h2"});

  cluster.vms[1].host = HostId{"h2"};
  cluster.vms[2].anti_affinity = "db";
  plan = place_new(cluster, without_n_plus_one(), Wish::AllOrNothing);
  ASSERT_EQ(plan.refused.size(), 1U);
  EXPECT_THAT(plan.refused[0].reason, HasSubstr("1 host run a VM of its anti-affinity group 'db'"));
  EXPECT_THAT(plan.refused[0].reason, HasSubstr("1 host lack the tag 'ib'"));
  EXPECT_THAT(plan.refused[0].reason, HasSubstr("1 host may not take VMs"));
  PlanPolicy tight = without_n_plus_one();
  tight.max_vcpus_per_cpu = 0.25;
  cluster.vms = {vm_of("d", 100, "")};
  cluster.vms[0].vcpus = 2;
  EXPECT_THAT(place_new(cluster, tight, Wish::AllOrNothing).reason,
              HasSubstr("more than 0.2 vcpus for each cpu"));
}

TEST(PlaceNew, NearThoseItTalksTo) {
  Cluster cluster = three_hosts();
  for (const char* name : {"a", "b", "c"}) cluster.vms.push_back(vm_of(name, 64, "h1"));
  cluster.vms[1].host = HostId{"h2"};
  cluster.vms[2].host = HostId{"h3"};
  cluster.vms.push_back(vm_of("new", 64, ""));
  cluster.traffic = {{VmId{"new"}, VmId{"b"}, 5e7}};
  const auto plan = place_new(cluster, {}, Wish::AllOrNothing);
  ASSERT_EQ(plan.placed.size(), 1U);
  EXPECT_EQ(plan.placed[0].host, HostId{"h2"});
}

TEST(Rebalance, EmptiesTheFullHostFirst) {
  Cluster cluster = three_hosts();
  for (int i = 0; i < 6; ++i) cluster.vms.push_back(vm_of("v" + std::to_string(i), 512, "h1"));
  const auto plan = rebalance(cluster, {});
  EXPECT_EQ(plan.moves.size(), 4U) << plan.reason;
  EXPECT_NEAR(plan.score_after, 0, 1e-9);
  EXPECT_THAT(plan.reason, HasSubstr("4 moves: the score falls from"));
  EXPECT_THAT(plan.moves[0].reason, HasSubstr("'h1' has"));
  for (const auto& move : plan.moves) EXPECT_EQ(move.from, HostId{"h1"});
}

TEST(Rebalance, ExchangesWhereNoSingleMoveFits) {
  Cluster cluster;
  cluster.hosts = {host_of("h1", 4096, 4), host_of("h2", 4096, 4)};
  // Memory and vcpus are against each other: only both moves together level both.
  cluster.vms = {vm_of("a", 1500, "h1"), vm_of("b", 1500, "h1"), vm_of("c", 500, "h2"),
                 vm_of("d", 500, "h2")};
  const auto plan = rebalance(cluster, without_n_plus_one());
  ASSERT_EQ(plan.moves.size(), 2U) << plan.reason;
  EXPECT_EQ(plan.moves[0].step, plan.moves[1].step);
  EXPECT_NEAR(plan.score_after, 0, 1e-9);
  EXPECT_THAT(plan.moves[0].reason, HasSubstr("trades places with"));
}

TEST(Rebalance, SlowestRankFirst) {
  Cluster cluster = three_hosts();
  // h1 is fullest in memory, h2 out of cpus: its ranks hold up their job.
  cluster.vms = {vm_of("m1", 1500, "h1"), vm_of("m2", 1500, "h1")};
  for (int i = 0; i < 6; ++i) {
    cluster.vms.push_back(vm_of("r" + std::to_string(i), 64, "h2"));
    cluster.vms.back().job = JobId{"job-1"};
  }
  PlanPolicy policy = without_n_plus_one();
  policy.max_moves = 1;
  const auto plan = rebalance(cluster, policy);
  ASSERT_EQ(plan.moves.size(), 1U) << plan.reason;
  EXPECT_EQ(plan.moves[0].from, HostId{"h2"});
}

TEST(Rebalance, TalkersComeTogetherAndLockedStay) {
  Cluster cluster = three_hosts();
  cluster.vms = {vm_of("a", 64, "h1"), vm_of("b", 64, "h2"), vm_of("c", 64, "h3")};
  cluster.traffic = {{VmId{"a"}, VmId{"b"}, 9e7}};
  PlanPolicy policy = without_n_plus_one();
  policy.weights.vcpus = 0;
  auto plan = rebalance(cluster, policy);
  ASSERT_EQ(plan.moves.size(), 1U) << plan.reason;
  EXPECT_THAT(plan.moves[0].reason, HasSubstr("exchanges 90.0 MB/s with VMs on"));
  for (auto& vm : cluster.vms) vm.locked = true;
  EXPECT_TRUE(rebalance(cluster, policy).moves.empty());
}

TEST(Rebalance, SaysWhyItDoesNothing) {
  Cluster cluster = three_hosts();
  EXPECT_THAT(rebalance(cluster, {}).reason,
              HasSubstr("no beneficial move: the score 0.0000 is below the threshold"));
  cluster.vms = {vm_of("a", 1024, "h1")};
  EXPECT_THAT(rebalance(cluster, {}).reason, HasSubstr("none that is possible gains more than"));
  cluster.vms = {vm_of("a", 2000, "h1"), vm_of("b", 400, "h1"), vm_of("c", 1600, "h2"),
                 vm_of("d", 1900, "h3")};
  for (auto& vm : cluster.vms) vm.vcpus = 0;
  PlanPolicy strict;
  strict.margin = 0.99;
  EXPECT_THAT(rebalance(cluster, strict).reason, HasSubstr("less than the margin of 99.0%"));
  cluster.hosts.resize(1);
  EXPECT_THAT(rebalance(cluster, {}).reason, HasSubstr("fewer than two hosts"));
}

TEST(Rebalance, AMoveThatCostsMoreThanItGainsIsNone) {
  Cluster cluster = three_hosts();
  for (int i = 0; i < 3; ++i) cluster.vms.push_back(vm_of("v" + std::to_string(i), 512, "h1"));
  EXPECT_FALSE(rebalance(cluster, {}).moves.empty());
  for (auto& vm : cluster.vms) vm.cost.added_job_time_s = 3600;
  EXPECT_TRUE(rebalance(cluster, {}).moves.empty());
}

TEST(Rebalance, RepairsNPlusOne) {
  Cluster cluster = three_hosts();
  // The 3000 MiB of h1 fit nowhere; with both others on one host they do.
  cluster.vms = {vm_of("large", 3000, "h1"), vm_of("b", 1500, "h2"), vm_of("c", 1500, "h3")};
  ASSERT_EQ(testing::truly_exposed(cluster), 1);
  const auto plan = rebalance(cluster, {});
  EXPECT_GT(plan.exposed_before, 0);
  EXPECT_EQ(plan.exposed_after, 0) << plan.reason;
  EXPECT_EQ(testing::truly_exposed(after_moves(cluster, plan.moves)), 0);
  EXPECT_THAT(plan.reason, HasSubstr("could not be survived from"));
}

TEST(Drain, EmptiesOrSaysWhatDoesNotFit) {
  Cluster cluster = three_hosts();
  cluster.vms = {vm_of("a", 1024, "h1"), vm_of("b", 3500, "h2"), vm_of("c", 3500, "h3"),
                 vm_of("d", 300, "h1"), vm_of("e", 300, "h1")};
  cluster.vms[3].locked = true;
  const auto plan = drain(cluster, without_n_plus_one(), HostId{"h1"});
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->empties());
  ASSERT_EQ(plan->moves.size(), 1U);
  EXPECT_EQ(plan->moves[0].vm, VmId{"e"});
  ASSERT_EQ(plan->refused.size(), 2U);
  EXPECT_THAT(plan->refused[0].reason, HasSubstr("needs 1024 MiB"));
  EXPECT_THAT(plan->refused[1].reason, HasSubstr("locked"));
  EXPECT_THAT(plan->reason, HasSubstr("'h1' can't be emptied: 2 VMs of 3 can't leave; 'a'"));
  EXPECT_EQ(drain(cluster, {}, HostId{"h9"}).error().code, Code::NotFound);
}

TEST(Drain, PacksTightlyWhereTheScoreWouldNot) {
  Cluster cluster = three_hosts();
  cluster.hosts[1].memory = mebibytes(2000);
  cluster.hosts[2].memory = mebibytes(3000);
  // By the score the 1500 goes to the larger h3; then the 1400 and the 1600... only one way fits.
  cluster.vms = {vm_of("a", 2000, "h1"), vm_of("b", 1500, "h1"), vm_of("c", 1500, "h1")};
  const auto plan = drain(cluster, without_n_plus_one(), HostId{"h1"});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->empties()) << plan->reason;
}

}  // namespace
}  // namespace mare::policy
