#include "orchestrator/policy/checkpoint_interval.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mare::policy {
namespace {

/// Where a job is slowed down least, by looking everywhere.
double best_interval(Seconds cost, Seconds mtbf) {
  double best = 0;
  double least = INFINITY;
  for (double t = cost.count() / 10; t < 4 * mtbf.count(); t *= 1.001) {
    const double now = slowdown(Seconds{t}, cost, mtbf, Seconds{30});
    if (now < least) {
      least = now;
      best = t;
    }
  }
  return best;
}

TEST(CheckpointInterval, YoungsIsTheSquareRootOfTwiceCostTimesMtbf) {
  EXPECT_DOUBLE_EQ(young_interval(Seconds{2}, Seconds{900}).count(), 60);
}

TEST(CheckpointInterval, DalysIsWhereTheJobIsSlowedDownLeast) {
  for (const double cost : {0.05, 1.0, 60.0, 600.0}) {
    for (const double mtbf : {1'800.0, 86'400.0, 30 * 86'400.0}) {
      const double found = best_interval(Seconds{cost}, Seconds{mtbf});
      const double said = daly_interval(Seconds{cost}, Seconds{mtbf}).count();
      EXPECT_NEAR(said, found, 0.03 * found) << cost << " s, " << mtbf << " s";
    }
  }
  // Where a checkpoint costs much, Young's is far off and Daly's is not.
  const double found = best_interval(Seconds{600}, Seconds{1'800});
  EXPECT_GT(young_interval(Seconds{600}, Seconds{1'800}).count(), 1.3 * found);
}

TEST(CheckpointInterval, ACheckpointThatTakesLongerThanHostsLiveIsTakenOncePerFailure) {
  EXPECT_EQ(daly_interval(Seconds{100}, Seconds{50}), Seconds{50});
  EXPECT_EQ(daly_interval(Seconds{101}, Seconds{50}), Seconds{50});
}

TEST(CheckpointInterval, BeliefGivesWayToWhatWasSeen) {
  const Seconds believed{1'000'000};
  EXPECT_EQ(host_mtbf(0, Seconds{0}, believed), believed);
  EXPECT_EQ(host_mtbf(9, Seconds{9'000'000}, believed), Seconds{1'000'000});
  EXPECT_NEAR(host_mtbf(999, Seconds{99'000'000}, believed).count(), 100'000, 1);
  EXPECT_EQ(host_mtbf(-3, Seconds{-5}, believed), believed);
}

TEST(NextCheckpoint, ComesWhenTheUserSaid) {
  CheckpointClock clock;
  clock.since = WallTime{5'000'000};
  EXPECT_FALSE(next_checkpoint(clock)) << "nobody asked for any";
  clock.plan = {CheckpointRule::Every, Seconds{60}, 2};
  EXPECT_EQ(next_checkpoint(clock), WallTime{65'000'000});
  // One that takes long is not overtaken by the next.
  clock.duration = Seconds{90};
  EXPECT_EQ(next_checkpoint(clock), WallTime{95'000'000});
}

TEST(NextCheckpoint, IsMoreOftenWithMoreHostsAndDearerOnesLessOften) {
  CheckpointClock clock;
  clock.plan.rule = CheckpointRule::Optimal;
  clock.mtbf = Seconds{100 * 86'400.0};
  clock.cost = Seconds{0.5};
  clock.hosts = 1;
  const auto alone = next_checkpoint(clock);
  clock.hosts = 100;
  const auto many = next_checkpoint(clock);
  clock.cost = Seconds{50};
  const auto dear = next_checkpoint(clock);
  ASSERT_TRUE(alone && many && dear);
  // sqrt(2 * 0.5 * 8,640,000) = 2939 s; a hundred hosts fail a hundred times as often: 294 s.
  EXPECT_NEAR(Seconds{*alone}.count(), 2'939, 3);
  EXPECT_NEAR(Seconds{*many}.count(), 294, 1);
  EXPECT_NEAR(Seconds{*dear}.count(), 2'956, 30);
}

TEST(NextCheckpoint, NeverIsAllTheTime) {
  CheckpointClock clock;
  clock.plan.rule = CheckpointRule::Optimal;
  clock.hosts = 0;
  EXPECT_GE(*next_checkpoint(clock), WallTime{1'000'000});
  clock.plan = {CheckpointRule::Every, Seconds{0}, 2};
  EXPECT_GE(*next_checkpoint(clock), WallTime{1'000'000});
}

}  // namespace
}  // namespace mare::policy
