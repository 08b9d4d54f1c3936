// When to switch under a guest that sweeps, against cases that can be drawn by hand.
#include "orchestrator/policy/sweep.h"

#include <gtest/gtest.h>

#include "orchestrator/policy/replay.h"
#include "orchestrator/policy/strategy_estimate.h"

namespace mare::policy {
namespace {

constexpr double kMega = 1e6;

TEST(Sweep, AtOnceItWaitsForTheStreamAndFollowsIt) {
  // Twice as fast as the link, all of it missing. At the beginning it follows the stream all the
  // way at half its pace; in the middle it stands still for half of it first.
  const SweepReplay sweep(2, 0, false);
  EXPECT_DOUBLE_EQ(sweep.switched(0, 0).missing, 1);
  EXPECT_NEAR(sweep.switched(0, 0).lost, 0.5, 0.02);
  EXPECT_NEAR(sweep.switched(0.5, 0).lost, 0.5 + 0.25, 0.02);
  // Downwards it meets the stream in the middle, and all that follows is there but the top.
  const SweepReplay down(2, 0, true);
  EXPECT_NEAR(down.switched(0.999, 0).lost, 1, 0.02) << "until the stream has come to the top";
}

TEST(Sweep, WhatWasSentBehindItIsNotMissing) {
  // From 1/3 on; it comes to the end of memory when 1/3 of it has been sent.
  const SweepReplay sweep(2, 0, false);
  const SweepEnd end = sweep.switched(1.0 / 3, 1.0 / 3);
  EXPECT_NEAR(end.missing, 2.0 / 3, 0.02);
  // It goes through that third in 1/6, while the stream comes to 1/2; there it catches up after
  // another 1/6, at 2/3, and loses half of the third that is left.
  EXPECT_NEAR(end.lost, 1.0 / 6, 0.02);
  EXPECT_NEAR(sweep.best_wait(1.0 / 3), 1.0 / 3, 0.05);
}

TEST(Sweep, AWaitNeverCostsMoreThanNone) {
  for (const bool descending : {false, true}) {
    for (const double speed : {1.1, 2.2, 5.0}) {
      const SweepReplay sweep(speed, 0.1, descending);
      const auto waits = sweep.best_waits(16);
      ASSERT_EQ(waits.size(), 16U);
      double with = 0;
      double without = 0;
      for (int i = 0; i < 16; ++i) {
        const double place = (i + 0.5) / 16;
        const double wait = waits[static_cast<std::size_t>(i)];
        EXPECT_GE(wait, 0);
        EXPECT_LE(wait, SweepReplay::kLongestWait);
        EXPECT_LE(sweep.switched(place, wait).lost, sweep.switched(place, 0).lost);
        with += sweep.switched(place, wait).lost;
        without += sweep.switched(place, 0).lost;
      }
      EXPECT_LT(with, 0.95 * without) << speed;
    }
  }
}

TEST(Sweep, TheBestPlaceIsOneFromWhichLeastIsLost) {
  const SweepReplay sweep(2.2, 0.1, false);
  const auto waits = sweep.best_waits(32);
  const double best = sweep.best_place(waits);
  const double lost = sweep.switched(best, waits[static_cast<std::size_t>(best * 32)]).lost;
  double mean = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    mean += sweep.switched((static_cast<double>(i) + 0.5) / 32, waits[i]).lost / 32;
  }
  EXPECT_LT(lost, 0.8 * mean);
  EXPECT_NEAR(best, 0.38, 0.1) << "a third of it is sent until it comes to the end";
}

TEST(Sweep, IsHeldUpOnlyForWhatItWins) {
  const SweepReplay sweep(2.2, 0.1, false);
  const auto waits = sweep.best_waits(32);
  const double best = sweep.best_place(waits);
  const double longest = sweep.longest_way(waits, best);
  EXPECT_NEAR(longest, 0.75, 0.04);
  // From a little behind the best place it would have to go all the way round for next to nothing.
  EXPECT_NEAR(sweep.way(best + 0.1, best), 0.9, 1e-9);
  EXPECT_NEAR(sweep.way(best - 0.1, best), 0.1, 1e-9);
  EXPECT_NEAR(SweepReplay(2.2, 0.1, true).way(best + 0.1, best), 0.1, 1e-9);
  const auto lost = [&](double place) {
    return sweep.switched(place, waits[static_cast<std::size_t>(place * 32)]).lost;
  };
  const double there = lost(best);
  constexpr double kWorth = 0.3;  // a second of the migration, beside one of the guest's
  EXPECT_GT(lost(best - longest / 2) - there, kWorth * longest / 2 / 2.2) << "too little is won";
  EXPECT_LT(lost(best + 0.1) - there, kWorth * 0.9 / 2.2);
}

/// 382 MiB of 512, once through in 15.5 s, over 100 Mbit/s: the guest is 2.2 times as fast.
ForecastInput sweeping() {
  constexpr double kSwept = 400.6 * kMega;
  ForecastInput in;
  in.source = HostId{"h1"};
  in.destination = HostId{"h2"};
  in.profile.source = "pagemap-scan";
  in.profile.total = Bytes{536'870'912};
  in.profile.zero = Bytes{60'000'000};
  in.profile.emulated = true;
  in.profile.sequential = 0.99;
  in.profile.sweep = {false, Microseconds{15'500'000}};
  DirtyCycle cycle;
  for (const double wall_s : {0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0}) {
    const auto wall = static_cast<std::int64_t>(wall_s * 1e6);
    const auto unique = static_cast<std::uint64_t>(std::min(1.0, wall_s / 15.5) * kSwept);
    cycle.points.push_back({Microseconds{wall}, Microseconds{wall / 2}, Bytes{unique}});
  }
  in.profile.cycles = {cycle, cycle, cycle};
  in.link = {BytesPerSecond{11.77 * kMega}, Microseconds{400}, mebibytes(4)};
  in.job = JobCoupling{};
  return in;
}

TEST(Sweep, AHybridMoveOfItWaitsAndLosesLess) {
  const ForecastInput in = sweeping();
  const Situation situation(in, HypervisorCosts{});
  const StrategyEstimate with = estimate(situation, Strategy::Hybrid);
  ASSERT_FALSE(with.sending.sweep_switch.waits.empty());
  EXPECT_EQ(with.sending.sweep_switch.sweep, in.profile.sweep);
  EXPECT_EQ(with.sending.pre_copy_rounds, 1);
  ForecastInput unknown = in;
  unknown.profile.sweep = {};
  const Situation blind(unknown, HypervisorCosts{});
  const StrategyEstimate without = estimate(blind, Strategy::Hybrid);
  EXPECT_TRUE(without.sending.sweep_switch.waits.empty());
  EXPECT_LT(with.forecast.added_job_time_s.value, 0.6 * without.forecast.added_job_time_s.value);
  EXPECT_GT(with.forecast.sent_bytes.value, 1.5 * 400e6);
  // The end of the round is held up for it where that is worth it.
  EXPECT_EQ(with.sending.sweep_switch.longest_hold, Milliseconds{11625}) << "24 of 32 parts";
  EXPECT_GT(with.forecast.total_time_s.high, with.forecast.total_time_s.value + 4);
  EXPECT_GT(with.forecast.added_job_time_s.high, with.forecast.added_job_time_s.value + 1);
}

TEST(Sweep, ASlowOneIsSentByRounds) {
  ForecastInput in = sweeping();
  in.link.goodput = BytesPerSecond{117.7 * kMega};
  const Situation situation(in, HypervisorCosts{});
  EXPECT_TRUE(estimate(situation, Strategy::Hybrid).sending.sweep_switch.waits.empty());
}

}  // namespace
}  // namespace mare::policy
