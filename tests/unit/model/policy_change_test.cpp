#include <gtest/gtest.h>

#include "orchestrator/model/forecast.h"

namespace mare {
namespace {

MovePolicy full() {
  return {Priority::Manual,
          Strategy::Throttled,
          BytesPerSecond{1e7},
          Milliseconds{50},
          Seconds{9},
          LimitAction::StopAndCopy,
          true};
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
}

TEST(PolicyChange, TheDefaultStatesEverything) {
  const MovePolicy after = changed(full(), default_policy());
  EXPECT_EQ(after.priority, Priority::LeastStall);
  EXPECT_FALSE(after.strategy || after.bandwidth_limit || after.downtime_limit || after.time_limit);
  EXPECT_EQ(after.at_limit, LimitAction::Cancel);
  EXPECT_FALSE(after.drop_page_cache);
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
