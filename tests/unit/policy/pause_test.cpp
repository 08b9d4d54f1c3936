// Guests that pause between bursts: how long, and what that leaves open.
#include "orchestrator/policy/pause.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/policy/forecast_input.h"

namespace mare::policy {
namespace {

constexpr double kStill = 0.2;  // MB that are written all the time
constexpr double kBurst = 25.6;

/// Looks at a guest that writes all of its burst so long after the cycle began.
DirtyCycle cycle(double began, const std::vector<double>& looks, double burst) {
  DirtyCycle out;
  out.began = micro(began);
  for (const double at : looks) {
    const double mega = at > burst ? kBurst : kStill;
    out.points.push_back({micro(at), micro(at), Bytes{static_cast<std::uint64_t>(mega * kMega)}});
  }
  return out;
}

/// A long cycle, and a look anew some seconds later: three glances and a second.
std::vector<DirtyCycle> looked_anew(double burst_in_glances, double burst) {
  const std::vector<double> glance{0.05, 0.1, 0.2};
  const std::vector<double> second{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0};
  return {cycle(0, {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0, 5.0}, 0.45),
          cycle(9, glance, burst_in_glances), cycle(9.235, glance, burst_in_glances),
          cycle(9.47, glance, burst_in_glances), cycle(9.705, second, burst)};
}

constexpr double kNever = 100;

TEST(Pause, GoesOverCyclesThatFollowOnOneAnother) {
  const auto cycles = looked_anew(kNever, 0.8);
  // From 9 to 9.705 + 0.7: four times what is written all the time.
  EXPECT_NEAR(longest_pause_s(cycles, 1e6), 1.405, 1e-6);
  // Twice: from 9.47.
  EXPECT_NEAR(longest_pause_s(cycles, 0.5e6), 0.935, 1e-6);
  EXPECT_EQ(longest_pause_s(cycles, 0.1e6), 0) << "it never writes so little";
}

TEST(Pause, EndsAtAGapAndAtABurst) {
  auto cycles = looked_anew(kNever, 0.8);
  cycles[2].began += micro(0.5);  // after the next one: no time that anybody knows
  EXPECT_NEAR(longest_pause_s(cycles, 1e6), 0.935, 1e-6);
  EXPECT_NEAR(longest_pause_s(looked_anew(0.07, 0.15), 1e6), 0.1, 1e-6)
      << "what was written once may be written again and again after that";
  EXPECT_EQ(longest_pause_s({}, 1e6), 0);
}

ForecastInput bursting(std::vector<DirtyCycle> cycles) {
  ForecastInput in = input(0, 0);
  in.policy.time_limit = Seconds{60};
  in.profile.cycles = std::move(cycles);
  offer_only(in, {Strategy::PreCopy});
  return in;
}

TEST(Pause, LeavesOpenWhetherRoundsEnd) {
  // 25.6 MB take 2.2 s; every round seems to have a burst in it.
  const StrategyForecast pausing =
      of(forecast(bursting(looked_anew(kNever, 0.8))), Strategy::PreCopy);
  EXPECT_FALSE(pausing.converges);
  EXPECT_TRUE(pausing.end_unsure) << "it paused for 1.4 s";
  auto often = looked_anew(0.07, 0.15);
  for (auto& one : often) {
    for (auto& point : one.points) {
      // And each half second anew, of other memory.
      point.unique =
          Bytes{point.unique.count + static_cast<std::uint64_t>(point.wall.count() * 12)};
    }
  }
  const StrategyForecast busy = of(forecast(bursting(often)), Strategy::PreCopy);
  EXPECT_FALSE(busy.converges);
  EXPECT_FALSE(busy.end_unsure);
}

TEST(Pause, LeavesOpenAnEndThatWaitsForOne) {
  // Most of what was seen begins with a pause that a round of 2.2 s fits into.
  std::vector<DirtyCycle> cycles;
  for (int i = 0; i < 6; ++i) {
    cycles.push_back(cycle(50.0 * i, {0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 20.0, 40.0}, 4));
  }
  const auto anew = looked_anew(kNever, kNever);
  for (auto one : anew) {
    one.began += micro(300);
    cycles.push_back(one);
  }
  cycles[2] = cycle(100, {0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 20.0, 40.0}, 0.1);
  const StrategyForecast lucky = of(forecast(bursting(cycles)), Strategy::PreCopy);
  EXPECT_TRUE(lucky.converges);
  EXPECT_TRUE(lucky.end_unsure);
  // Who writes little has no need of a pause.
  for (auto& one : cycles) {
    for (auto& point : one.points) point.unique = Bytes{200'000};
  }
  const StrategyForecast calm = of(forecast(bursting(cycles)), Strategy::PreCopy);
  EXPECT_TRUE(calm.converges);
  EXPECT_FALSE(calm.end_unsure);
}

}  // namespace
}  // namespace mare::policy
