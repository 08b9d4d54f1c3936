// Which of some estimates is taken: figures in, a choice out.
#include "orchestrator/policy/choice.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/policy/forecast_input.h"

namespace mare::policy {
namespace {

StrategyEstimate estimated(Strategy strategy, double added_s, double bytes) {
  StrategyEstimate out;
  out.forecast.strategy = strategy;
  out.forecast.offered = true;
  out.forecast.added_job_time_s.value = added_s;
  out.forecast.sent_bytes.value = bytes;
  out.forecast.total_time_s.value = bytes / (100 * kMega);
  return out;
}

Strategy taken(const std::vector<StrategyEstimate>& estimates,
               Priority priority = Priority::LeastStall) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.policy.priority = priority;
  const Situation situation(in);
  const auto index = choose(situation, estimates).index;
  if (!index) ADD_FAILURE() << "nothing was taken";
  return estimates.at(index.value_or(0)).forecast.strategy;
}

TEST(Choice, AJobsTimeGoesBeforeTheLinks) {
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 0.185, 430 * kMega),
                   estimated(Strategy::Compressed, 0.206, 350 * kMega)}),
            Strategy::PreCopy)
      << "21 ms are a tenth of what the move takes from it";
}

TEST(Choice, OfAsGoodOnesTheLeastIsSent) {
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 0.185, 430 * kMega),
                   estimated(Strategy::Compressed, 0.204, 350 * kMega)}),
            Strategy::Compressed);
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 10, 430 * kMega),
                   estimated(Strategy::Compressed, 10.29, 350 * kMega)}),
            Strategy::Compressed)
      << "nobody forecasts 10 s to a thirtieth";
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 10, 430 * kMega),
                   estimated(Strategy::Compressed, 10.31, 350 * kMega)}),
            Strategy::PreCopy);
}

TEST(Choice, WhatHasNoWayBackHasToSaveMoreThanForecastsAreWrongBy) {
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 0.385, 430 * kMega),
                   estimated(Strategy::Hybrid, 0.136, 400 * kMega)}),
            Strategy::PreCopy);
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 0.385, 430 * kMega),
                   estimated(Strategy::Hybrid, 0.134, 400 * kMega)}),
            Strategy::Hybrid);
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 0.385, 430 * kMega),
                   estimated(Strategy::Compressed, 0.3, 440 * kMega),
                   estimated(Strategy::PostCopy, 0.2, 400 * kMega)}),
            Strategy::Compressed)
      << "the best of those with a way back";
  EXPECT_EQ(taken({estimated(Strategy::PreCopy, 20.5, 430 * kMega),
                   estimated(Strategy::Hybrid, 20, 400 * kMega)}),
            Strategy::PreCopy)
      << "nobody forecasts 20 s to a thirtieth";
}

TEST(Choice, OfWhatSendsAsMuchTheQuickerIsTaken) {
  auto slow = estimated(Strategy::RateControlled, 0.258, 232 * kMega);
  slow.forecast.total_time_s.value = 3.35;
  const std::vector<StrategyEstimate> all{estimated(Strategy::PreCopy, 0.275, 234 * kMega), slow,
                                          estimated(Strategy::Throttled, 0.253, 234 * kMega)};
  // By pre-copy it would be 22 ms more than by the least of them.
  EXPECT_EQ(taken(all), Strategy::Throttled);
  EXPECT_EQ(taken(all, Priority::LeastTraffic), Strategy::Throttled);
  slow.forecast.sent_bytes.value = 220 * kMega;
  EXPECT_EQ(taken({all[0], slow, all[2]}), Strategy::RateControlled);
}

TEST(Choice, LeastTrafficTakesTheLinksTimeFirst) {
  const std::vector<StrategyEstimate> both{estimated(Strategy::PreCopy, 0.185, 430 * kMega),
                                           estimated(Strategy::Compressed, 0.9, 350 * kMega)};
  EXPECT_EQ(taken(both, Priority::LeastTraffic), Strategy::Compressed);
  EXPECT_EQ(taken(both), Strategy::PreCopy);
}

}  // namespace
}  // namespace mare::policy
