#include "orchestrator/policy/job_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "orchestrator/policy/remaining.h"
#include "tests/unit/policy/plan_worlds.h"

namespace mare::policy {
namespace {

using ::testing::HasSubstr;
using testing::host_of;
using testing::vm_of;

/// Hosts of 2 cpus, and a job of one rank a VM on the first ones, as many as `on` says.
Cluster ranks_on(const std::vector<int>& on, double move_s) {
  Cluster out;
  for (std::size_t h = 0; h < on.size(); ++h) {
    const std::string name = "h" + std::to_string(h + 1);
    out.hosts.push_back(host_of(name, 4096, 2));
    for (int i = 0; i < on[h]; ++i) {
      out.vms.push_back(vm_of("r" + std::to_string(out.vms.size()), 256, name));
      out.vms.back().job = JobId{"job-1"};
      out.vms.back().cost = {move_s, 1e8};
    }
  }
  return out;
}

LayoutRequest request_of(Layout layout, double remaining_s, int hosts = 0) {
  return {JobId{"job-1"}, layout, hosts, remaining_s, {}};
}

TEST(RemainingAfter, IsEquation52) {
  // Twice the speed for what is left.
  EXPECT_DOUBLE_EQ(remaining_after(600, 2, 1, 0, 0), 300);
  EXPECT_DOUBLE_EQ(remaining_after(600, 1, 2, 0, 0), 1200);
  // A quarter of the time is the wire's; half of its bytes stay inside hosts afterwards.
  EXPECT_DOUBLE_EQ(remaining_after(600, 1, 1, 0.25, 0.125), 525);
  EXPECT_DOUBLE_EQ(remaining_after(600, 2, 1, 0.25, 0.25), 375);
}

TEST(Spread, EightRanksFromTwoHostsToFour) {
  const auto plan = lay_out(ranks_on({4, 4, 0, 0}, 0.5), {}, request_of(Layout::Spread, 600));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->worth) << plan->reason;
  EXPECT_EQ(plan->moves.size(), 4U);  // two of each crowded host, and no more
  EXPECT_EQ(plan->hosts_before, 2);
  EXPECT_EQ(plan->hosts_after, 4);
  EXPECT_DOUBLE_EQ(plan->slowdown_before, 2);
  EXPECT_DOUBLE_EQ(plan->slowdown_after, 1);
  EXPECT_DOUBLE_EQ(plan->gain_s, 300);
  EXPECT_DOUBLE_EQ(plan->cost_s, 2);
  EXPECT_THAT(plan->reason, HasSubstr("gains 300.0 s over the 600 s that remain, for 2.0 s"));
}

TEST(Spread, IsWeighedAgainByWhatTheMovesCostTogether) {
  const auto request = request_of(Layout::Spread, 3);
  auto plan = lay_out(ranks_on({4, 4, 0, 0}, 0.5), {}, request);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->worth) << "1.5 s for 2 s";
  weigh(*plan, request, 1.25);  // moves at once stall it at once
  EXPECT_TRUE(plan->worth);
  EXPECT_THAT(plan->reason, HasSubstr("gains 1.5 s over the 3 s that remain, for 1.2 s"));
  weigh(*plan, request, 1.5);
  EXPECT_FALSE(plan->worth) << "not more than it costs";
  EXPECT_THAT(plan->reason, HasSubstr("not more than the 1.5 s that they cost"));
}

TEST(Spread, MovesEachVmOnce) {
  for (const auto& on : {std::vector<int>{9, 0, 0}, {7, 3, 0, 0}, {12, 0, 1, 0, 0}}) {
    const auto plan = lay_out(ranks_on(on, 0.1), {}, request_of(Layout::Spread, 600));
    ASSERT_TRUE(plan);
    std::set<std::string> moved;
    for (const auto& move : plan->moves) {
      EXPECT_TRUE(moved.insert(move.vm.value).second) << move.vm.value;
      EXPECT_NE(move.from, move.to);
    }
    EXPECT_DOUBLE_EQ(plan->cost_s, 0.1 * static_cast<double>(plan->moves.size()));
  }
}

TEST(RemainingOf, EarlierRunsThenItsOwnTime) {
  EXPECT_EQ(remaining_of(40, {}).seconds, 40);
  EXPECT_THAT(remaining_of(40, {}).why, HasSubstr("as long again"));
  EXPECT_EQ(remaining_of(40, {100, 90, 400}).seconds, 60) << "the median";
  EXPECT_THAT(remaining_of(40, {100, 90, 400}).why, HasSubstr("3 earlier runs of it took 100 s"));
  EXPECT_EQ(remaining_of(140, {100, 90, 120}).seconds, 140) << "it has outlasted them";
  EXPECT_EQ(remaining_of(-3, {}).seconds, 0);
}

TEST(Spread, IsRefusedWhenTooLittleTimeRemains) {
  const auto plan = lay_out(ranks_on({4, 4, 0, 0}, 0.5), {}, request_of(Layout::Spread, 3));
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->worth);
  EXPECT_THAT(plan->reason, HasSubstr("would gain 1.5 s over the 3 s that remain, not more than "
                                      "the 2.0 s that they cost"));
}

TEST(Spread, StaysWhereNoHostIsCrowded) {
  const auto plan = lay_out(ranks_on({2, 0}, 0.5), {}, request_of(Layout::Spread, 600));
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->worth);
  EXPECT_TRUE(plan->moves.empty());
  EXPECT_THAT(plan->reason, HasSubstr("none of its hosts is asked for more cpus than it has"));
}

TEST(Spread, OnNoMoreHostsThanAsked) {
  const auto plan = lay_out(ranks_on({8, 0, 0, 0}, 0.1), {}, request_of(Layout::Spread, 600, 2));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->hosts_after, 2);
  EXPECT_DOUBLE_EQ(plan->slowdown_after, 2);
  EXPECT_EQ(plan->moves.size(), 4U);
}

TEST(Spread, TheDearMovesAreLeftOutWhenTheyDoNotPay) {
  // Three crowded hosts that can only be relieved one by one: the whole counts.
  Cluster cluster = ranks_on({3, 3, 0}, 10);
  const auto plan = lay_out(cluster, {}, request_of(Layout::Spread, 100));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->worth) << plan->reason;
  EXPECT_EQ(plan->moves.size(), 2U);
  EXPECT_NEAR(plan->gain_s, 100.0 / 3, 1e-9);
  EXPECT_NEAR(plan->cost_s, 20, 1e-9);
}

TEST(Spread, OtherWorkOnTheHostsCounts) {
  Cluster cluster = ranks_on({4, 0, 0}, 0.1);
  for (int i = 0; i < 2; ++i) {
    cluster.vms.push_back(vm_of("busy" + std::to_string(i), 256, "h2"));
    cluster.vms.back().cpu_demand = 1;
  }
  const auto plan = lay_out(cluster, {}, request_of(Layout::Spread, 600));
  ASSERT_TRUE(plan);
  for (const auto& move : plan->moves) EXPECT_EQ(move.to, HostId{"h3"}) << move.reason;
  EXPECT_EQ(plan->moves.size(), 2U);
}

TEST(Pack, OnOneHostCostsTimeAndSaysSo) {
  const auto plan = lay_out(ranks_on({2, 2, 2, 2}, 0.5), {}, request_of(Layout::Pack, 600, 1));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->hosts_after, 1);
  EXPECT_EQ(plan->moves.size(), 6U);
  EXPECT_FALSE(plan->worth);
  EXPECT_DOUBLE_EQ(plan->gain_s, -1800);
  EXPECT_THAT(plan->reason, HasSubstr("which loses 1800.0 s over the 600 s that remain"));
}

TEST(Pack, PaysForAJobThatWaitsForTheWire) {
  Cluster cluster = ranks_on({1, 1}, 0.5);
  cluster.traffic = {{VmId{"r0"}, VmId{"r1"}, 6e6}};
  LayoutRequest request = request_of(Layout::Pack, 600);
  request.link.value = 12e6;
  PlanPolicy policy;
  policy.n_plus_one = false;
  const auto plan = lay_out(cluster, policy, request);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->worth) << plan->reason;
  EXPECT_DOUBLE_EQ(plan->gain_s, 300);
  EXPECT_EQ(plan->moves.size(), 1U);
}

TEST(Pack, OnAsFewHostsAsHaveRoom) {
  Cluster cluster = ranks_on({2, 2, 2}, 0.5);
  for (auto& host : cluster.hosts) host.memory = mebibytes(1100);  // 4 VMs of 256 MiB
  PlanPolicy policy;
  policy.n_plus_one = false;
  const auto plan = lay_out(cluster, policy, request_of(Layout::Pack, 10));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->hosts_after, 2) << plan->reason;
  const auto one = lay_out(cluster, policy, request_of(Layout::Pack, 10, 1));
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, Code::ResourceExhausted);
  EXPECT_THAT(one.error().message, HasSubstr("do not fit on 1 host"));
}

TEST(Layout, WithoutVmsThereIsNoJob) {
  const auto plan = lay_out(ranks_on({0, 0}, 0), {}, request_of(Layout::Spread, 10));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::NotFound);
}

}  // namespace
}  // namespace mare::policy
