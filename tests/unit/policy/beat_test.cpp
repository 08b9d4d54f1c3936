// Guests that write in bursts of seconds: when the next one comes, and what that means for a move.
#include "orchestrator/policy/beat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/unit/policy/forecast_input.h"

namespace mare::policy {
namespace {

constexpr double kStill = 0.2e6;  // that is written all the time
constexpr std::size_t kMany = 40;

/// Looks, as the log takes them, at a guest that began its last burst so long before `taken`.
DirtyCycle seen(const Beat& beat, double began, double until) {
  DirtyCycle out;
  out.began = micro(began);
  for (const double at : {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0}) {
    if (at > until) break;
    const double bytes = kStill + beat.written(began, began + at);
    out.points.push_back({micro(at), micro(at / 4), Bytes{static_cast<std::uint64_t>(bytes)}});
  }
  return out;
}

/// Two cycles of 10 s, and a look anew before the forecast: three glances and a second.
MemoryProfile watched(const Beat& beat) {
  MemoryProfile out = steady_profile(0, 0);
  out.cycles = {seen(beat, -22, 10),     seen(beat, -12, 10),    seen(beat, -1.95, 0.2),
                seen(beat, -1.715, 0.2), seen(beat, -1.48, 0.2), seen(beat, -1.245, 1.2)};
  out.taken = micro(0);
  return out;
}

TEST(Beat, WritesInItsBurstsAlone) {
  // Bursts from -1 to 0 and from 3 to 4: 8 MB in their first half, the same ones in the other.
  const Beat beat{4, 1, 0.5, 8e6, 1};
  EXPECT_DOUBLE_EQ(beat.written(0, 3), 0);
  EXPECT_DOUBLE_EQ(beat.written(2, 3.25), 4e6);
  EXPECT_DOUBLE_EQ(beat.written(2, 3.5), 8e6);
  EXPECT_DOUBLE_EQ(beat.written(0, 40), 8e6) << "the same pages each time";
  // The end of one and the beginning of the next are different pages.
  EXPECT_DOUBLE_EQ(beat.written(-0.25, 3.125), 6e6);
  EXPECT_DOUBLE_EQ(beat.written(-9.75, -9.5), 0);
  EXPECT_DOUBLE_EQ(beat.written(-9.125, -8.75), 4e6) << "from -9 on";
}

TEST(Beat, IsFoundInWhatTheLogSaw) {
  for (const double since : {0.1, 0.6, 1.1, 1.7}) {
    const Beat beat{2, 0.2, 0.2, 25.6e6, since};
    const auto found = plausible_beats(watched(beat), kMany);
    ASSERT_EQ(found.size(), kMany) << since;
    // One of its bursts was where the last one was that the log saw; but five periods of 2 s are
    // six of 1.7, where none of what was looked at speaks against it.
    const auto with = [&found](auto&& so) { return std::count_if(found.begin(), found.end(), so); };
    EXPECT_GE(with([since](const Beat& one) {
                return std::abs(std::remainder(one.since_s - since, one.period_s)) < 0.25;
              }),
              34)
        << since;
    EXPECT_GE(with([](const Beat& one) { return std::abs(one.bytes - 25.6e6) < 2e6; }), 34);
    EXPECT_GE(with([](const Beat& one) { return std::abs(one.period_s - 2) < 0.05; }), 5) << since;
  }
}

TEST(Beat, OfLongBurstsIsFoundToo) {
  const Beat beat{6, 3, 2, 17e6, 4.2};
  MemoryProfile profile = watched(beat);
  profile.cycles.insert(profile.cycles.begin() + 2, seen(beat, -2.9, 0.7));
  profile.cycles.front() = seen(beat, -18, 5);
  const auto found = plausible_beats(profile, kMany);
  ASSERT_EQ(found.size(), kMany);
  std::vector<double> next;
  for (const Beat& one : found) next.push_back(one.period_s - one.since_s);
  std::nth_element(next.begin(), next.begin() + kMany / 2, next.end());
  EXPECT_NEAR(next[kMany / 2], 1.8, 0.5);
}

TEST(Beat, IsTheSameForTheSameProfile) {
  const MemoryProfile profile = watched({2, 0.2, 0.2, 25.6e6, 0.6});
  const auto one = plausible_beats(profile, kMany);
  const auto other = plausible_beats(profile, kMany);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].period_s, other[i].period_s);
    EXPECT_EQ(one[i].since_s, other[i].since_s);
  }
}

TEST(Beat, IsNotClaimedWhereNothingTellsOfIt) {
  const Beat beat{2, 0.2, 0.2, 25.6e6, 0.6};
  EXPECT_TRUE(plausible_beats(watched(beat), 0).empty());
  MemoryProfile few = watched(beat);
  few.cycles.erase(few.cycles.begin(), few.cycles.begin() + 3);
  EXPECT_TRUE(plausible_beats(few, kMany).empty()) << "three cycles";
  MemoryProfile old = watched(beat);
  old.taken = micro(1.2);
  EXPECT_TRUE(plausible_beats(old, kMany).empty()) << "more than a second after the last look";
  EXPECT_TRUE(plausible_beats(watched({2, 0.2, 0.2, 1e6, 0.6}), kMany).empty()) << "of 1 MB";
  EXPECT_TRUE(plausible_beats(watched({0.4, 0.05, 0.05, 25.6e6, 0.3}), kMany).empty())
      << "one in any second";
  MemoryProfile steady = watched({2, 2, 2, 0, 0});
  for (auto& cycle : steady.cycles) {
    for (auto& point : cycle.points) {
      point.unique = Bytes{static_cast<std::uint64_t>(8 * point.wall.count())};
    }
  }
  EXPECT_TRUE(plausible_beats(steady, kMany).empty()) << "8 MB/s, all the time";
}

/// A move over 1 Gbit/s: its 150 MB take 1.35 s.
StrategyForecast moved(const Beat& beat) {
  ForecastInput in = input(0, 0);
  in.profile = watched(beat);
  in.link.goodput = BytesPerSecond{117.7e6};
  in.policy.downtime_limit = Milliseconds{100};
  offer_only(in, {Strategy::PreCopy});
  return of(forecast(in), Strategy::PreCopy);
}

TEST(Beat, TellsWhetherAMoveMeetsABurst) {
  // The next one comes 1.8 s after the profile, when the move is over, or after 0.9 s.
  const StrategyForecast without = moved({2, 0.2, 0.2, 25.6e6, 0.2});
  const StrategyForecast with = moved({2, 0.2, 0.2, 25.6e6, 1.1});
  EXPECT_NEAR(without.sent_bytes.value, 150e6, 4e6);
  EXPECT_NEAR(with.sent_bytes.value, 176e6, 4e6);
  EXPECT_LT(without.sent_bytes.high, with.sent_bytes.value);
  EXPECT_GT(with.sent_bytes.low, without.sent_bytes.value);
  EXPECT_NEAR(with.total_time_s.value - without.total_time_s.value, 25.6 / 117.7, 0.06);
}

}  // namespace
}  // namespace mare::policy
