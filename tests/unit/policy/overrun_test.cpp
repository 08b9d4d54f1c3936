#include "orchestrator/policy/overrun.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace mare::policy {
namespace {

StrategyForecast said(double value, double high, Strategy strategy = Strategy::PreCopy) {
  StrategyForecast out;
  out.strategy = strategy;
  out.total_time_s = {value, value, high, value};
  return out;
}

/// The last one goes on.
std::vector<Round> rounds_of(std::initializer_list<std::uint64_t> megabytes) {
  std::vector<Round> out;
  for (const auto size : megabytes) {
    out.push_back({static_cast<int>(out.size()), {}, {}, Bytes{size * 1'000'000}, {}, 0});
  }
  return out;
}

const std::vector<Round> kAlike = rounds_of({500, 380, 381, 379, 12});

TEST(Overrun, NotBeforeOneAndAHalfTimesTheEndOfItsInterval) {
  EXPECT_FALSE(is_overrun(said(20, 24), Seconds{24.1}, kAlike));
  EXPECT_FALSE(is_overrun(said(20, 24), Seconds{36}, kAlike));
  EXPECT_TRUE(is_overrun(said(20, 24), Seconds{36.1}, kAlike));
}

TEST(Overrun, AShortOneIsGivenSomeSeconds) {
  EXPECT_FALSE(is_overrun(said(1, 1.2), Seconds{6.1}, kAlike));
  EXPECT_TRUE(is_overrun(said(1, 1.2), Seconds{6.3}, kAlike));
}

TEST(Overrun, WhatShrinksIsWaitedFor) {
  EXPECT_FALSE(is_overrun(said(20, 24), Seconds{700}, rounds_of({500, 300, 200, 100, 5})));
  // 380, then 350: 8% less is as large.
  EXPECT_TRUE(is_overrun(said(20, 24), Seconds{40}, rounds_of({500, 380, 350, 9})));
  // It has shrunk, and does no more.
  EXPECT_TRUE(is_overrun(said(20, 24), Seconds{40}, rounds_of({500, 200, 50, 48, 49, 9})));
}

TEST(Overrun, OneWholeRoundTellsOnlyOfTheLink) {
  EXPECT_FALSE(is_overrun(said(20, 24), Seconds{700}, {}));
  EXPECT_FALSE(is_overrun(said(20, 24), Seconds{700}, rounds_of({500})));
  EXPECT_FALSE(is_overrun(said(20, 24), Seconds{700}, rounds_of({500, 380, 3})));
}

TEST(Overrun, OnlyOfWhatWasToConverge) {
  for (int i = 0; i < kStrategies; ++i) {
    const auto strategy = static_cast<Strategy>(i);
    EXPECT_EQ(is_overrun(said(20, 24, strategy), Seconds{1000}, kAlike), must_converge(strategy))
        << to_string(strategy);
  }
  auto never = said(20, 24);
  never.converges = false;
  EXPECT_FALSE(is_overrun(never, Seconds{1000}, kAlike)) << "that it does not end was said before";
}

TEST(Overrun, WordsSayWhatWasForecastAndWhatCame) {
  EXPECT_EQ(overrun_words(said(4.2, 5, Strategy::Compressed), Seconds{10.8}, 4),
            "compressed was to take 4.20 s (at most 5.00 s) and had not ended after 10.8 s, in 4 "
            "rounds");
}

TEST(Overrun, WhatWasTriedIsOutAndAfterTwoTriesAllThatMustConverge) {
  EarlierTry first;
  first.strategy = Strategy::Compressed;
  first.said_s = {4.2, 3.9, 5, 4.2};
  first.lasted = Microseconds{10'800'000};
  EXPECT_EQ(why_not_again({}, Strategy::Compressed), "");
  EXPECT_TRUE(may_be_tried_again({first}));
  EXPECT_EQ(why_not_again({first}, Strategy::Compressed),
            "it was tried: 4.20 s were forecast, and after 10.8 s it had not ended");
  EXPECT_EQ(why_not_again({first}, Strategy::PreCopy), "");
  EarlierTry second = first;
  second.strategy = Strategy::PreCopy;
  EXPECT_FALSE(may_be_tried_again({first, second}));
  EXPECT_EQ(why_not_again({first, second}, Strategy::Throttled),
            "it must converge, and 2 tries did not");
  EXPECT_EQ(why_not_again({first, second}, Strategy::Hybrid), "");
  EXPECT_EQ(why_not_again({first, second}, Strategy::StopAndCopy), "");
}

}  // namespace
}  // namespace mare::policy
