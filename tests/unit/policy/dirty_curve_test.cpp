#include "orchestrator/policy/dirty_curve.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "orchestrator/core/rng.h"
#include "orchestrator/policy/statistics.h"
#include "tests/unit/policy/quantities.h"

namespace mare::policy {
namespace {

/// A cycle of a guest that runs `share` of the time and has written d(progress) bytes.
DirtyCycle cycle(double share, const std::function<double(double)>& d, double until = 64) {
  DirtyCycle out;
  for (const double wall : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 64.0}) {
    if (wall > until) break;
    out.points.push_back(
        {micro(wall), micro(wall * share), Bytes{static_cast<std::uint64_t>(d(wall * share))}});
  }
  return out;
}

MemoryProfile profile(std::vector<DirtyCycle> cycles) {
  MemoryProfile out;
  out.total = Bytes{200'000'000};
  out.zero = Bytes{50'000'000};
  out.cycles = std::move(cycles);
  return out;
}

double random_writer(double progress) {
  return 64 * kMega * (1 - std::exp(-progress / 5));
}

TEST(CyclesSince, LeaveOutWhatAnotherProgramWrote) {
  std::vector<DirtyCycle> all(4, cycle(0.5, random_writer));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].began = std::chrono::seconds{100 + 10 * static_cast<int>(i)};
  }
  EXPECT_EQ(cycles_since(all, std::chrono::seconds{0}).size(), 4U);
  const auto two = cycles_since(all, std::chrono::seconds{115});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two.front().began, std::chrono::seconds{120});
  // It was watched before the program began and not yet since: better than nothing.
  EXPECT_EQ(cycles_since(all, std::chrono::seconds{500}).size(), 1U);
  all.back().points.clear();  // has just begun
  EXPECT_EQ(cycles_since(all, std::chrono::seconds{125}).size(), 1U);
  EXPECT_TRUE(cycles_since({}, std::chrono::seconds{1}).empty());
}

TEST(CyclesOfProgram, LeaveOutItsSetUpIfOthersTellEnough) {
  std::vector<DirtyCycle> all;
  for (const int began : {105, 119, 120, 140}) {
    all.push_back(cycle(0.5, random_writer, began == 119 ? 64 : 2));
    all.back().began = std::chrono::seconds{began};
  }
  const std::chrono::seconds start{100};
  EXPECT_EQ(cycles_of_program(all, start).size(), 4U) << "the later ones are of 2 s";
  all.back() = cycle(0.5, random_writer, 5);
  all.back().began = std::chrono::seconds{140};
  const auto left = cycles_of_program(all, start);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left.front().began, std::chrono::seconds{120});
  EXPECT_EQ(cycles_of_program(all, std::chrono::seconds{115}).size(), 1U) << "119 is too soon, too";
  EXPECT_EQ(cycles_of_program(all, std::chrono::seconds{500}).size(), 1U) << "better than nothing";
}

TEST(Statistics, ByHand) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
  EXPECT_DOUBLE_EQ(robust_deviation({5}), 0);
  // Deviations 0, 1, 1, 2, 2: half within 1 (1.483), 8 of 10 within 2 (1.561).
  EXPECT_NEAR(robust_deviation({1, 2, 3, 4, 5}), 2 / 1.2816, 1e-9);
}

TEST(MonotoneCurve, PassesThroughItsKnotsAndNeverFalls) {
  const MonotoneCurve curve({{0, 0}, {1, 5}, {2, 4}, {4, 10}});
  EXPECT_DOUBLE_EQ(curve.at(1), 5);
  EXPECT_DOUBLE_EQ(curve.at(2), 5);  // 4 would have been a fall
  EXPECT_DOUBLE_EQ(curve.at(1.5), 5);
  EXPECT_DOUBLE_EQ(curve.at(4), 10);
  EXPECT_DOUBLE_EQ(curve.at(6), 15);  // the last slope
  EXPECT_DOUBLE_EQ(curve.at(-1), 0);
}

TEST(MonotoneCurve, FollowsTheBendOfARandomWriter) {
  std::vector<MonotoneCurve::Knot> knots{{0, 0}};
  for (const double x : {0.5, 1.0, 2.0, 5.0, 10.0, 20.0}) knots.push_back({x, random_writer(x)});
  const MonotoneCurve curve(knots);
  // Straight lines would be 4.6% low there.
  EXPECT_NEAR(curve.at(3.5) / random_writer(3.5), 1, 0.01);
}

TEST(DirtyCurve, IsOverProgressWhateverTheShare) {
  const auto full = DirtyCurve::from(profile({cycle(1, random_writer)}));
  const auto half = DirtyCurve::from(profile({cycle(0.5, random_writer)}));
  EXPECT_NEAR(half.share(), 0.5, 1e-6);
  for (const double p : {0.5, 3.0, 12.0, 30.0}) {
    EXPECT_NEAR(half.bytes(p) / full.bytes(p), 1, 0.02) << p;
  }
  EXPECT_NEAR(half.dirty_rate(10), half.bytes(5) / 10, 1);
}

TEST(DirtyCurve, IsByTheClockOfAGuestThatWritesByIt) {
  // 4 MB/s, whatever CPU time that takes: 5, 10 or 20% of a core.
  std::vector<DirtyCycle> cycles;
  for (const double share : {0.05, 0.2, 0.1, 0.05, 0.2, 0.1}) {
    cycles.push_back(cycle(
        share, [share](double progress) { return 4 * kMega * progress / share; }, 20));
  }
  const auto by_clock = DirtyCurve::from(profile(cycles));
  EXPECT_NEAR(by_clock.share(), 0.35 / 3, 1e-6);
  for (const double wall : {0.3, 1.0, 4.0, 12.0}) {
    EXPECT_NEAR(by_clock.dirty_rate(wall), 4 * kMega, 0.02 * kMega) << wall;
  }
  EXPECT_NEAR(DirtyCurve::from(profile(cycles), Band::High).dirty_rate(4) / 4 / kMega, 1, 0.11);
  EXPECT_TRUE(DirtyCurve::each(profile(cycles)).empty()) << "they are alike";
}

TEST(DirtyCurve, TakesTheMedianOfItsCycles) {
  const auto times = [](double factor) {
    return cycle(1, [factor](double p) { return factor * p * kMega; });
  };
  const MemoryProfile seen = profile({times(1), times(9), times(1.1)});
  EXPECT_NEAR(DirtyCurve::from(seen).bytes(10), 11 * kMega, 1);
  EXPECT_LT(DirtyCurve::from(seen, Band::Low).bytes(10), 11 * kMega);
  EXPECT_GT(DirtyCurve::from(seen, Band::High).bytes(10), 11 * kMega);
}

TEST(DirtyCurve, ForgetsAPhaseThatIsOverButNotOneThatComesBack) {
  const auto times = [](double factor) {
    return cycle(1, [factor](double p) { return factor * p * kMega; });
  };
  const auto at_10 = [](std::vector<DirtyCycle> cycles) {
    return DirtyCurve::from(profile(std::move(cycles))).bytes(10);
  };
  EXPECT_NEAR(at_10({times(9), times(9), times(1)}), 10 * kMega, 1) << "its set-up is over";
  EXPECT_NEAR(at_10({times(1), times(1), times(9)}), 90 * kMega, 1) << "work has begun";
  EXPECT_NEAR(at_10({times(1), times(9), times(1), times(9), times(9)}), 90 * kMega, 1);
  EXPECT_NEAR(at_10({times(9), times(1), times(9), times(1), times(1)}), 10 * kMega, 1);
}

TEST(DirtyCurve, GoesOnByTheCyclesThatWereNotCutShort) {
  const auto line = [](double p) { return p * kMega; };
  DirtyCycle cut = cycle(1, line);
  while (cut.points.back().wall > std::chrono::seconds{1}) cut.points.pop_back();
  const auto curve = DirtyCurve::from(profile({cycle(1, line), cut, cut, cut}));
  EXPECT_NEAR(curve.bytes(1), 1 * kMega, 1);
  EXPECT_NEAR(curve.bytes(30), 30 * kMega, 1e3);
}

TEST(DirtyCurve, ASingleCycleHasAStatedSpread) {
  const MemoryProfile seen = profile({cycle(1, [](double p) { return p * kMega; })});
  EXPECT_NEAR(DirtyCurve::from(seen, Band::High).bytes(10), 10 * kMega * (1 + 1.96 * 0.1), 1);
}

TEST(DirtyCurve, AnUnfinishedCycleDoesNotShortenIt) {
  const auto d = [](double p) { return p * kMega; };
  const auto curve = DirtyCurve::from(profile({cycle(1, d), cycle(1, d, 1)}));
  EXPECT_NEAR(curve.bytes(40), 40 * kMega, 1);
}

TEST(DirtyCurve, GoesOnByItsLastSlopeUpToTheMemory) {
  const auto curve = DirtyCurve::from(profile({cycle(1, [](double p) { return p * kMega; })}));
  EXPECT_NEAR(curve.bytes(100), 100 * kMega, 1);
  EXPECT_DOUBLE_EQ(curve.bytes(1e6), 200 * kMega);
  EXPECT_EQ(curve.progress_for(201 * kMega), DirtyCurve::kNever);
  EXPECT_NEAR(curve.progress_for(30 * kMega), 30, 1e-3);
}

TEST(DirtyCurve, WhatHasBegunToFlattenGoesOnFlattening) {
  // Seen for 10 s of progress; twice as long as 64 MB take to be half full.
  const auto seen = profile({cycle(1, random_writer, 10)});
  for (const double after : {15.0, 20.0, 40.0}) {
    EXPECT_NEAR(DirtyCurve::from(seen).bytes(after), random_writer(after), 2 * kMega) << after;
  }
  // At the end of its range it may go on as it did last.
  EXPECT_GT(DirtyCurve::from(seen, Band::High).bytes(40), 120 * kMega);
  EXPECT_LE(DirtyCurve::from(seen, Band::Low).bytes(40), DirtyCurve::from(seen).bytes(40));
}

TEST(DirtyCurve, TheWwsIsWhereItFlattens) {
  const auto sweep = [](double p) { return std::min(32.0, 16 * p) * kMega; };
  const auto curve = DirtyCurve::from(profile({cycle(1, sweep)}));
  EXPECT_TRUE(curve.flattens());
  EXPECT_NEAR(curve.wws_bytes(), 32 * kMega, 1);
  EXPECT_FALSE(
      DirtyCurve::from(profile({cycle(1, [](double p) { return p * kMega; })})).flattens());
}

TEST(DirtyCurve, WhatTwoWindowsShare) {
  // Rewrites the same 10 MB all the time; and never the same page.
  const DirtyCurve same({{0, 0}, {1, 10e6}, {2, 10e6}}, 1, 200e6);
  EXPECT_DOUBLE_EQ(same.in_both(1, 1), 10e6);
  const DirtyCurve fresh({{0, 0}, {1, 10e6}, {2, 20e6}}, 1, 200e6);
  EXPECT_NEAR(fresh.in_both(1, 3), 0, 1);
}

TEST(DirtyCurve, AVmWhoseCpusStoodStillIsKeptOverWallTime) {
  DirtyCycle still;
  still.points = {{micro(1), Microseconds{0}, Bytes{4096}},
                  {micro(10), Microseconds{0}, Bytes{8192}}};
  const auto curve = DirtyCurve::from(profile({still}));
  EXPECT_DOUBLE_EQ(curve.share(), 1);
  EXPECT_NEAR(curve.bytes(10), 8192, 1e-6);
}

TEST(DirtyCurve, UnwatchedIsAGuessBetweenNothingAndAll) {
  const MemoryProfile none = profile({});
  EXPECT_FALSE(DirtyCurve::from(none).watched());
  EXPECT_DOUBLE_EQ(DirtyCurve::from(none, Band::Low).bytes(60), 0);
  EXPECT_DOUBLE_EQ(DirtyCurve::from(none).bytes(60), 15 * kMega);
  EXPECT_DOUBLE_EQ(DirtyCurve::from(none, Band::High).bytes(60), 150 * kMega);
}

RC_GTEST_PROP(DirtyCurve, NeverFallsNorLeavesTheMemoryAndBandsAreInOrder, (std::uint64_t seed)) {
  SeededRng rng(seed);
  std::vector<DirtyCycle> cycles;
  for (std::uint64_t i = 1 + rng.below(5); i > 0; --i) {
    DirtyCycle one;
    double wall = 0, progress = 0, bytes = 0;
    for (std::uint64_t k = 1 + rng.below(12); k > 0; --k) {
      wall += 0.05 + 10 * rng.unit();
      progress += rng.chance(0.1) ? 0 : 8 * rng.unit();
      bytes += rng.chance(0.3) ? 0 : 30e6 * rng.unit();
      one.points.push_back(
          {micro(wall), micro(progress), Bytes{static_cast<std::uint64_t>(bytes)}});
    }
    cycles.push_back(one);
  }
  const MemoryProfile seen = profile(cycles);
  const auto low = DirtyCurve::from(seen, Band::Low);
  const auto middle = DirtyCurve::from(seen);
  const auto high = DirtyCurve::from(seen, Band::High);
  double before = 0;
  for (int i = 0; i < 90; ++i) {
    const double p = 1.7 * i;
    RC_ASSERT(middle.bytes(p) >= before - 1e-6);
    RC_ASSERT(middle.bytes(p) <= 200e6);
    before = middle.bytes(p);
  }
  for (int i = 0; i < 215; ++i) {
    const double p = 0.7 * i;
    RC_ASSERT(low.bytes(p) <= middle.bytes(p));
    RC_ASSERT(middle.bytes(p) <= high.bytes(p));
  }
}

TEST(DirtyCurve, BurstsThatWereSeenAreInTheRange) {
  // One cycle in eight began with a burst of 9 MB, the others waited half a second for it.
  std::vector<DirtyCycle> cycles;
  for (int i = 0; i < 8; ++i) {
    const double at_once = i == 3 ? 8.9e6 : 0.1e6;
    cycles.push_back(cycle(1, [at_once](double p) { return p < 0.5 ? at_once : 9e6; }));
  }
  const MemoryProfile seen = profile(cycles);
  EXPECT_NEAR(DirtyCurve::from(seen).bytes(0.2), 0.1e6, 1e4);
  EXPECT_GT(DirtyCurve::from(seen, Band::High).bytes(0.2), 5e6);
}

TEST(DirtyCurve, WindowsThatDifferAreKeptOneByOne) {
  std::vector<DirtyCycle> cycles;
  for (int i = -1; i < 4; ++i) {
    const double at_once = i == 3 ? 8.9e6 : 0.1e6;
    // The second one was cut short; the first one is of a guest that has just come.
    cycles.push_back(cycle(
        1, [at_once](double p) { return p < 0.5 ? at_once : 9e6; }, i == 0 ? 0.2 : 64));
  }
  const auto each = DirtyCurve::each(profile(cycles));
  ASSERT_EQ(each.size(), 4U);
  EXPECT_NEAR(each[1].bytes(0.2), 0.1e6, 1e4);
  EXPECT_NEAR(each[3].bytes(0.2), 8.9e6, 1e4);
  EXPECT_NEAR(each[0].bytes(10), 9e6, 0.1e6) << "goes on as the others do";
  cycles.pop_back();
  EXPECT_TRUE(DirtyCurve::each(profile(cycles)).empty()) << "they are alike";
  EXPECT_TRUE(DirtyCurve::each(profile({})).empty());
}

TEST(DirtyCurve, WindowsThatSomeCyclesAreTooShortForMayDiffer) {
  // 8 MB/s for 3 s and then nothing for as long: three glances of 0.2 s are alike.
  const auto on = [](double p) { return std::min(p, 3.0) * 8e6; };
  const auto off = [](double p) { return std::max(p - 2.5, 0.0) * 8e6; };
  std::vector<DirtyCycle> cycles;
  for (int i = 0; i < 3; ++i) cycles.push_back(cycle(1, on, 0.2));
  cycles.push_back(cycle(1, on, 10));
  cycles.push_back(cycle(1, on, 1));
  EXPECT_TRUE(DirtyCurve::each(profile(cycles)).empty()) << "two are not enough to tell";
  cycles.push_back(cycle(1, off, 1));
  const auto each = DirtyCurve::each(profile(cycles));
  ASSERT_EQ(each.size(), 5U) << "the first one is of a guest that has just come";
  EXPECT_NEAR(each.back().bytes(1), 0, 1);
  EXPECT_NEAR(each.front().bytes(1), 8e6, 0.1e6) << "goes on as the middle does";
}

TEST(DirtyCurve, ACycleThatWasCutShortMeetsTheBurstThatAllOthersMet) {
  // 8.7 MB each half second: in each window of that length, however long it waited for them.
  std::vector<DirtyCycle> cycles;
  for (const double burst : {0.4, 0.4, 0.45, 0.48, 0.05}) {
    cycles.push_back(cycle(1, [burst](double p) { return p < burst ? 0.1e6 : 8.7e6; }));
  }
  const auto quiet = [](double) { return 0.1e6; };
  for (int i = 0; i < 3; ++i) cycles.push_back(cycle(1, quiet, 0.2));
  const auto each = DirtyCurve::each(profile(cycles));
  ASSERT_EQ(each.size(), 7U);
  for (const auto& one : each) EXPECT_NEAR(one.bytes(0.5), 8.7e6, 1e4);
  EXPECT_NEAR(each.back().bytes(0.2), 0.1e6, 1e4) << "as it was seen";
}

TEST(DirtyCurve, ABurstThatMostHaveMetIsNotInTheMiddleTwice) {
  // 25.6 MB, the same each time: four glances fell into it, and those that went on began before it.
  const auto burst_at = [](double at) {
    return [at](double p) { return p < at ? 0.2e6 : 25.6e6; };
  };
  const DirtyCycle glance = cycle(1, burst_at(0.05), 0.2);
  const auto curve = DirtyCurve::from(profile(
      {cycle(1, burst_at(0.8), 10), glance, glance, glance, glance, cycle(1, burst_at(0.9), 10)}));
  EXPECT_NEAR(curve.bytes(0.2), 25.6e6, 1e4);
  EXPECT_NEAR(curve.bytes(5), 25.6e6, 1e4);
}

/// It is moved twice a minute: whatever lasted for long was the first cycle after a move.
TEST(DirtyCurve, TheFirstCycleAfterAMoveTellsHowTheOthersGoOn) {
  std::vector<DirtyCycle> cycles;
  const auto burst_at = [](double at) {
    return [at](double p) { return p < at ? 0.2e6 : 25.6e6; };
  };
  for (int move = 0; move < 3; ++move) {
    const auto come = std::chrono::seconds{100 + 30 * move};
    cycles.push_back(cycle(1, burst_at(1.5), 10));
    cycles.back().began = come;
    for (int i = 0; i < 4; ++i) {
      cycles.push_back(cycle(1, burst_at(i == 1 ? 0.15 : 1.9), i == 3 ? 1 : 0.2));
      cycles.back().began = come + std::chrono::milliseconds{10'000 + 235 * i};
    }
  }
  const MemoryProfile seen = profile(cycles);
  const auto each = DirtyCurve::each(seen);
  ASSERT_EQ(each.size(), 12U) << "they are not drawn themselves";
  for (const auto& one : each) EXPECT_GE(one.bytes(10), 25.3e6) << "a burst is in each";
  EXPECT_NEAR(each.front().bytes(0.2), 0.2e6, 1e4) << "as it was seen";
  EXPECT_NEAR(DirtyCurve::from(seen).bytes(10), 25.6e6, 0.3e6);
  EXPECT_NEAR(DirtyCurve::from(seen).bytes(0.2), 0.2e6, 1e4);
}

TEST(DirtyCurve, HowAGuestWritesThatHasJustComeIsNotDrawn) {
  // Each 64 s after the one before, but for the fourth, which an hour's pause is in front of.
  std::vector<DirtyCycle> cycles;
  for (int i = 0; i < 6; ++i) {
    const double at_once = i == 3 ? 0.1e6 : 8.9e6;
    cycles.push_back(cycle(1, [at_once](double p) { return p < 0.5 ? at_once : 9e6; }));
    cycles.back().began = std::chrono::seconds{64 * i + (i >= 3 ? 3600 : 0)};
  }
  EXPECT_TRUE(DirtyCurve::each(profile(cycles)).empty()) << "the others are alike";
  for (int i = 3; i < 6; ++i)
    cycles[static_cast<std::size_t>(i)].began = std::chrono::seconds{64 * i};
  EXPECT_EQ(DirtyCurve::each(profile(cycles)).size(), 5U) << "this one counts";
  // Too few are left to do without.
  EXPECT_EQ(DirtyCurve::each(profile({cycles[3], cycles[4], cycles[5]})).size(), 3U);
}

TEST(DirtyCurve, BeyondWhatWasSeenItFlattensAsItDidBefore) {
  const auto seen = [](const std::function<double(double)>& d, double until) {
    return DirtyCurve::from(profile({cycle(1, d, until), cycle(1, d, until)}));
  };
  const auto random = [](double p) { return 33.5 * kMega * (1 - std::exp(-0.188 * p)); };
  for (const double p : {15.0, 20.0, 33.0}) {
    EXPECT_NEAR(seen(random, 10).bytes(p), random(p), 0.03 * random(p)) << p;
  }
  // Nine of ten writes go to a tenth of its pages.
  const auto hot = [](double p) {
    return 6.5 * kMega * (1 - std::exp(-7.2 * p / 6.5)) +
           64 * kMega * (1 - std::exp(-0.8 * p / 64));
  };
  EXPECT_NEAR(seen(hot, 5).bytes(10), hot(10), 0.12 * hot(10));
  EXPECT_LE(seen(hot, 5).bytes(10), hot(10));
  const auto linear = [](double p) { return 2 * kMega * p; };
  EXPECT_NEAR(seen(linear, 5).bytes(20), 40 * kMega, 1);
  const auto flat = [](double p) { return std::min(p, 1.0) * 8 * kMega; };
  EXPECT_NEAR(seen(flat, 5).bytes(100), 8 * kMega, 1);
}

TEST(DirtyCurve, CyclesInStepWithTheGuestsBeatTellNoLessOfAShortWindow) {
  // 1.5 MB each 0.2 s, and each cycle began just after it.
  const auto beat = [](double p) { return 0.1e6 + 1.5e6 * std::floor(p / 0.2 + 1e-9); };
  const MemoryProfile seen = profile({cycle(1, beat), cycle(1, beat), cycle(1, beat)});
  ASSERT_TRUE(DirtyCurve::each(seen).empty());
  const DirtyCurve middle = DirtyCurve::from(seen);
  EXPECT_NEAR(middle.bytes(0.1), 0.8e6, 1) << "half of the windows have it";
  EXPECT_NEAR(middle.bytes(0.2), 1.6e6, 1) << "as it was seen";
  EXPECT_NEAR(middle.bytes(5), beat(5), 1);
  for (const double p : {0.1, 0.15, 0.2, 0.5}) {
    EXPECT_LE(DirtyCurve::from(seen, Band::Low).bytes(p), middle.bytes(p)) << p;
    EXPECT_GE(DirtyCurve::from(seen, Band::High).bytes(p), middle.bytes(p)) << p;
  }
}

TEST(DirtyCurve, AGuestThatIsHeldBackLeavesOutItsWaitingFirst) {
  std::vector<DirtyCycle> cycles;
  for (const double burst : {0.3, 0.02, 0.15, 0.25, 0.35, 0.45}) {
    cycles.push_back(by_the_clock(burst));
  }
  const auto each = DirtyCurve::each(profile(cycles));
  ASSERT_EQ(each.size(), 5U);
  // Of its first burst all of the 0.03 s that the look has (0.025 of the one that was met at once):
  // it does not wait while it writes. Of the next one, which writes the same pages, 0.02, which is
  // what is more than waiting takes. And 0.1 MB are written in 1.25 ms.
  for (const auto& one : each) EXPECT_NEAR(one.work_share(), (0.045 + 4 * 0.050125) / 5, 1e-6);
  const DirtyCurve& soon = each[1];
  const DirtyCurve& late = each[4];
  // With 0.3 of a CPU its burst takes 0.1 s, as long as the look that found it.
  EXPECT_NEAR(soon.bytes_held(0.3, 0.3), 8.1e6, 1e4);
  EXPECT_NEAR(late.bytes_held(0.3, 0.3), 0.1e6, 1e4);
  // With 0.075 it takes 0.4 s, and is over before the next one.
  EXPECT_GT(soon.bytes_held(0.3, 0.075), 1e6);
  EXPECT_LT(soon.bytes_held(0.3, 0.075), 7e6);
  EXPECT_NEAR(late.bytes_held(0.3, 0.075), 0.1e6, 1e4);
  EXPECT_NEAR(late.bytes_held(1, 0.075), 8.1e6, 1e4);
  // With a fiftieth it never gets done in time: it is at it wherever one looks.
  EXPECT_GT(soon.bytes_held(0.5, 0.02), 1e6);
  EXPECT_GT(late.bytes_held(0.5, 0.02), 1e6);
  EXPECT_DOUBLE_EQ(late.bytes_held(0.5, 0), 0);
  // A burst, which looks at 0.01 and 0.04 s of progress saw, takes 1.5 s then.
  EXPECT_NEAR(soon.bytes_held(0.25, 0.02), soon.bytes(0.01 + 0.03 * (0.25 - 0.000125 / 0.02) / 1.5),
              1);
  // Each of its 1,950 pages takes half a microsecond more: it writes less in the same time.
  const double dear = 0.5e-6 / 4096;
  EXPECT_LT(soon.bytes_held(0.3, 0.075, dear), 0.99 * soon.bytes_held(0.3, 0.075));
  EXPECT_NEAR(soon.bytes_held(0.3, 0.35, dear), 8.1e6, 1e4) << "there is time for that";
}

TEST(DirtyCurve, ACycleThatSawAProgramSetUpIsHeldToWhatOthersSay) {
  // 8 MB in any 5 s and little more; in one cycle 46 MB are filled after 7 s, and never again.
  const auto usual = [](double p) { return 8 * kMega * std::min(1.0, p / 5) + 0.01 * kMega * p; };
  const auto filled = [&](double p) { return usual(p) + (p > 7 ? 46 * kMega : 0); };
  const DirtyCurve curve = DirtyCurve::from(profile({cycle(1, filled), cycle(1, usual, 5)}));
  EXPECT_NEAR(curve.bytes(5), 8 * kMega, 0.1 * kMega);
  EXPECT_LE(curve.bytes(10), 1.1 * 2 * 8.1 * kMega) << "two windows of 5 s write no more";
  EXPECT_NEAR(curve.bytes(64), filled(64), 0.1 * kMega) << "it was written all the same";
  // Who writes that much each minute does so on average.
  const auto alone = DirtyCurve::from(profile({cycle(1, filled)}));
  EXPECT_NEAR(alone.bytes(10), filled(10), 1) << "nothing else is known";
}

TEST(DirtyCurve, WhoWritesOnAndOnIsNotHeldBack) {
  for (const double rate : {0.5, 2.0}) {
    const auto linear = [rate](double p) { return rate * kMega * p; };
    const DirtyCurve curve = DirtyCurve::from(profile({cycle(1, linear), cycle(1, linear, 5)}));
    for (const double p : {5.0, 10.0, 40.0}) EXPECT_NEAR(curve.bytes(p), linear(p), 1) << p;
  }
}

TEST(DirtyCurve, WhoAlwaysWritesIsNotTakenToWait) {
  std::vector<DirtyCycle> cycles;
  for (const double burst : {0.3, 0.02, 0.15, 0.25, 0.35, 0.45}) {
    DirtyCycle one = by_the_clock(burst);
    for (auto& point : one.points) point.unique.count += 600'000;
    cycles.push_back(one);
  }
  const auto each = DirtyCurve::each(profile(cycles));
  ASSERT_FALSE(each.empty());
  EXPECT_FALSE(each.front().told_apart());
  EXPECT_DOUBLE_EQ(each.front().bytes_held(0.5, 0.02), each.front().bytes(0.01));
}

std::vector<DirtyCycle> phases(const std::vector<double>& rates, int repeats) {
  std::vector<DirtyCycle> out;
  for (int i = 0; i < repeats; ++i) {
    for (const double rate : rates) {
      out.push_back(cycle(1, [rate](double p) { return rate * p; }));
      out.back().began = WallTime{1'000'000'000} + std::chrono::seconds{64} * (out.size() - 1);
    }
  }
  return out;
}

TEST(Troughs, TheNextOneOfAPeriodThatRepeats) {
  const auto cycles = phases({5e6, 5e6, 1e6, 5e6}, 3);
  const WallTime now = cycles.back().began + std::chrono::seconds{64};
  const auto trough = next_trough(cycles, now, now + std::chrono::seconds{600});
  ASSERT_TRUE(trough);
  EXPECT_EQ(trough->at, now + std::chrono::seconds{2 * 64});
  EXPECT_NEAR(trough->period.count(), 4 * 64, 1e-6);
  EXPECT_NEAR(trough->bytes, 5e6, 1);
  EXPECT_NEAR(trough->usual, 25e6, 1);
  EXPECT_FALSE(next_trough(cycles, now, now + std::chrono::seconds{100}));
}

TEST(Troughs, NoneWhereNothingRepeatsOrNothingFalls) {
  const WallTime far{9'000'000'000'000};
  EXPECT_FALSE(next_trough(phases({5e6, 1e6}, 2), WallTime{0}, far));    // too short
  EXPECT_FALSE(next_trough(phases({5e6}, 12), WallTime{0}, far));        // flat
  EXPECT_FALSE(next_trough(phases({5e6, 4.8e6}, 6), WallTime{0}, far));  // shallow
  EXPECT_FALSE(next_trough(phases({1, 2, 3, 4, 5, 6, 7, 8}, 1), WallTime{0}, far));
}

}  // namespace
}  // namespace mare::policy
