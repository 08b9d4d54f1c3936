#include <gtest/gtest.h>

#include "orchestrator/model/forecast.h"

namespace mare {
namespace {

Knobs throttle(double initial) {
  Knobs out;
  out.throttle_initial = initial;
  return out;
}

MovePolicy full() {
  return {Priority::Manual,
          Strategy::Throttled,
          BytesPerSecond{1e7},
          Milliseconds{50},
          Seconds{9},
          LimitAction::StopAndCopy,
          true,
          throttle(40)};
}

TEST(PolicyChange, NothingStatedChangesNothing) {
  const MovePolicy after = changed(full(), {});
  EXPECT_EQ(after.priority, full().priority);
  EXPECT_EQ(after.strategy, full().strategy);
  EXPECT_EQ(after.bandwidth_limit, full().bandwidth_limit);
  EXPECT_EQ(after.downtime_limit, full().downtime_limit);
  EXPECT_EQ(after.time_limit, full().time_limit);
  EXPECT_EQ(after.at_limit, full().at_limit);
  EXPECT_TRUE(after.drop_page_cache);
  EXPECT_EQ(after.knobs, full().knobs);
}

TEST(PolicyChange, TheDefaultStatesEverything) {
  const MovePolicy after = changed(full(), default_policy());
  EXPECT_EQ(after.priority, Priority::LeastStall);
  EXPECT_FALSE(after.strategy || after.bandwidth_limit || after.downtime_limit || after.time_limit);
  EXPECT_EQ(after.at_limit, LimitAction::Cancel);
  EXPECT_FALSE(after.drop_page_cache);
  EXPECT_EQ(after.knobs, Knobs{});
}

TEST(PolicyChange, KnobsAreTheStrategysAndGoWithIt) {
  PolicyChange other;
  other.strategy = Strategy::Hybrid;
  EXPECT_EQ(changed(full(), other).knobs, Knobs{});
  PolicyChange same;
  same.strategy = Strategy::Throttled;
  EXPECT_EQ(changed(full(), same).knobs, full().knobs);
  PolicyChange by_priority;
  by_priority.priority = Priority::LeastTraffic;
  EXPECT_EQ(changed(full(), by_priority).knobs, Knobs{}) << "no strategy is named";
  PolicyChange knobs;
  knobs.knobs.emplace();
  knobs.knobs->throttle_step = 5;
  const MovePolicy after = changed(full(), knobs);
  EXPECT_EQ(after.knobs.throttle_step, 5);
  EXPECT_FALSE(after.knobs.throttle_initial) << "all of them are stated at once";
}

TEST(Knobs, OnlyThoseOfItsStrategyAreASendings) {
  const Knobs all{2e6, 3e6, 2.5, 33, 7, 4};
  Sending sending;
  const Sending usual;
  sending.strategy = Strategy::Throttled;
  set_knobs(sending, all);
  EXPECT_EQ(sending.throttle_initial_percent, 33);
  EXPECT_EQ(sending.throttle_step_percent, 7);
  EXPECT_EQ(sending.pre_copy_rounds, usual.pre_copy_rounds);
  EXPECT_EQ(sending.rate_gain, usual.rate_gain);
  sending.strategy = Strategy::Hybrid;
  set_knobs(sending, all);
  EXPECT_EQ(sending.pre_copy_rounds, 4);
  sending.strategy = Strategy::RateControlled;
  set_knobs(sending, all);
  EXPECT_EQ(sending.rate_min, BytesPerSecond{2e6});
  EXPECT_EQ(sending.rate_max, BytesPerSecond{3e6});
  EXPECT_EQ(sending.rate_gain, 2.5);
}

TEST(Knobs, TheEndOfTheRateThatNobodyStatedGivesWay) {
  Sending sending;
  sending.strategy = Strategy::RateControlled;
  sending.rate_min = BytesPerSecond{1e7};
  sending.rate_max = BytesPerSecond{1e8};
  Knobs slow;
  slow.rate_max = 5e6;
  set_knobs(sending, slow);
  EXPECT_EQ(sending.rate_min, BytesPerSecond{5e6});
  Knobs fast;
  fast.rate_min = 5e8;
  set_knobs(sending, fast);
  EXPECT_EQ(sending.rate_max, BytesPerSecond{5e8});
}

TEST(PolicyChange, FieldByField) {
  PolicyChange change;
  change.bandwidth_limit = BytesPerSecond{3e6};
  change.time_limit.emplace();
  const MovePolicy after = changed(full(), change);
  EXPECT_EQ(after.bandwidth_limit, BytesPerSecond{3e6});
  EXPECT_FALSE(after.time_limit) << "stated to be none";
  EXPECT_EQ(after.downtime_limit, full().downtime_limit);
  EXPECT_EQ(after.strategy, full().strategy);
}

TEST(PolicyChange, AStrategyIsTheChoiceAndAPriorityLeavesIt) {
  PolicyChange named;
  named.priority = Priority::LeastTraffic;
  named.strategy = Strategy::Hybrid;
  EXPECT_EQ(changed({}, named).priority, Priority::Manual);
  PolicyChange by_priority;
  by_priority.priority = Priority::LeastTraffic;
  EXPECT_FALSE(changed(full(), by_priority).strategy) << "the pool's strategy is not asked for";
  PolicyChange none;
  none.strategy.emplace();
  EXPECT_EQ(changed(full(), none).priority, Priority::LeastStall);
  MovePolicy traffic;
  traffic.priority = Priority::LeastTraffic;
  EXPECT_EQ(changed(traffic, none).priority, Priority::LeastTraffic);
}

}  // namespace
}  // namespace mare
