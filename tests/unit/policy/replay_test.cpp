#include "orchestrator/policy/replay.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/unit/policy/replay_input.h"

namespace mare::policy {
namespace {

TEST(Replay, AnIdleGuestIsSentOnce) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  const HypervisorCosts costs;
  const Replay out = replay(input(idle), costs);
  EXPECT_TRUE(out.converges);
  EXPECT_FALSE(out.forced);
  EXPECT_NEAR(out.sent_bytes, 200 * kMega * kPageWire + costs.device_bytes, 1);
  EXPECT_NEAR(out.total_time_s, 0.07 + 20 * kPageWire + 0.03 + 0.04, 1e-6);
  // The rest below the threshold (0.3 s, half a slice earlier on average) goes in the downtime.
  EXPECT_NEAR(out.downtime_s, 0.3 - 0.025 + 0.07, 0.001);
  EXPECT_EQ(out.rounds.size(), 2U);
}

TEST(Replay, ZeroPagesCostNineBytes) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  in.zero_bytes = 120 * kMega;
  const Replay out = replay(in);
  EXPECT_NEAR(out.sent_bytes, 80 * kMega * kPageWire + 120 * kMega * 9 / 4096 + 0.4e6, 1);
  EXPECT_NEAR(out.total_time_s, out.sent_bytes / 10e6 + 0.10 + 0.06, 0.001);
}

TEST(Replay, ASmallWwsTakesASecondRound) {
  // 5 MB rewritten in no time: over the threshold of 3 MB after round 0, so 2 MB more go out, and
  // then all 5 are dirty again: it never ends.
  const DirtyCurve small = writer(100 * kMega, 5 * kMega, 200 * kMega);
  EXPECT_FALSE(replay(input(small)).converges);
  // 2 MB are below the threshold at once; with what was left of round 0 they are over it.
  const DirtyCurve tiny = writer(100 * kMega, 2 * kMega, 200 * kMega);
  const Replay out = replay(input(tiny));
  EXPECT_TRUE(out.converges);
  EXPECT_GE(out.rounds.size(), 3U);
  EXPECT_LE(out.downtime_s, 0.3 + 0.07 + 0.001);
}

TEST(Replay, ARoundThatHappensToLeaveLessEndsWhatHangsJustAboveTheLimit) {
  // 3.3 MB are dirty again after each round, 3 would do.
  const DirtyCurve curve = writer(100 * kMega, 3.3 * kMega, 200 * kMega);
  ReplayInput in = input(curve);
  EXPECT_FALSE(replay(in).converges) << "each round is like the one before";
  const DirtyCurve less = writer(70 * kMega, 2.3 * kMega, 200 * kMega);
  in.low = &less;
  const Replay out = replay(in);
  EXPECT_TRUE(out.converges);
  EXPECT_EQ(out.rounds.size(), 9U);
  // Three times as much as would do is never left by chance.
  const DirtyCurve far = writer(100 * kMega, 9 * kMega, 200 * kMega);
  const DirtyCurve nearer = writer(70 * kMega, 6 * kMega, 200 * kMega);
  ReplayInput endless = input(far);
  endless.low = &nearer;
  EXPECT_FALSE(replay(endless).converges);
}

TEST(Replay, OfAnEmulatedCpuTheLogTakesTheFirstWritesAfterEachLook) {
  const DirtyCurve curve = writer(100 * kMega, 3.3 * kMega, 200 * kMega);
  const DirtyCurve less = writer(70 * kMega, 2.3 * kMega, 200 * kMega);
  ReplayInput in = input(curve);
  in.low = &less;
  EXPECT_EQ(replay(in).first_writes_s, 0);
  in.emulated = true;
  const Replay out = replay(in);
  EXPECT_EQ(out.rounds.size(), 9U);
  // The last of them is the stop.
  EXPECT_NEAR(out.first_writes_s, 8 * 3.3 * kMega / 4096 * 4e-6, 1e-9);
}

TEST(Replay, WhatIsLeftIsWrittenAgainLessOftenThanByChance) {
  // 1 MB at once, and then some that are others for a while, where 3 would do; what a round leaves
  // beside them makes them too many, unless it is among them.
  const DirtyCurve curve({{0, 0}, {0.02, 1 * kMega}, {2, 5 * kMega}, {50, 5 * kMega}}, 1,
                         200 * kMega);
  HypervisorCosts by_chance;
  by_chance.written_again = 1;
  const Replay fewer = replay(input(curve), by_chance);
  const Replay more = replay(input(curve));
  EXPECT_TRUE(fewer.converges);
  EXPECT_GT(more.sent_bytes, fewer.sent_bytes);
  EXPECT_GE(more.total_time_s, fewer.total_time_s);
  // Of one that writes in order what it shares with the round before comes again.
  ReplayInput in_order = input(curve);
  in_order.sequential = 1;
  EXPECT_LT(replay(in_order).sent_bytes, more.sent_bytes);
}

TEST(Replay, WhatIsMarkedWasWrittenSinceTheRoundsBeganThatItIsLeftOf) {
  // The same 2 MB all the time are never more, however little of them is taken to come again.
  const DirtyCurve same = writer(100 * kMega, 2 * kMega, 200 * kMega);
  HypervisorCosts costs;
  costs.written_again = 0;
  EXPECT_TRUE(replay(input(same), costs).converges);
}

TEST(Replay, ASliceEndsWithA64thPage) {
  // 64 pages take 26.3 ms over the link, so two of them 52.5; over a slower one two take longer.
  const DirtyCurve curve({{0, 0}, {0.01, 0.4 * kMega}, {50, 10.4 * kMega}}, 1, 200 * kMega);
  HypervisorCosts costs;
  costs.written_again = 0;
  const auto shortest_s = [&](double link_rate) {
    ReplayInput in = input(curve);
    in.link_rate = link_rate;
    double out = 1;
    const Replay moved = replay(in, costs);
    for (std::size_t i = 0; i + 1 < moved.rounds.size(); ++i) {
      out = std::min(out, moved.rounds[i].duration_s);
    }
    return out;
  };
  const double pages_s = 64 * 4104 / (10 * kMega);
  EXPECT_NEAR(shortest_s(10 * kMega), 2 * pages_s, 1e-9);
  EXPECT_NEAR(shortest_s(8 * kMega), 2 * 1.25 * pages_s, 1e-9);
}

TEST(Replay, AHybridMoveGoesOnByRoundsUntilItsSwitchIsGranted) {
  // 4 MB in all: after round 0 these are marked, over the threshold of 3 MB.
  const DirtyCurve small = writer(100 * kMega, 4 * kMega, 200 * kMega);
  ReplayInput in = input(small, Strategy::Hybrid);
  in.sending.pre_copy_rounds = 1;
  EXPECT_EQ(replay(in).rounds.size(), 2U) << "0.4 s for the next: switched before it is over";
  // Over a faster link the next round takes 0.04 s and leaves little: it ends there.
  in.link_rate = 100 * kMega;
  in.downtime_limit_s = 0.03;
  const DirtyCurve slower = writer(20 * kMega, 4 * kMega, 200 * kMega);
  in.curve = &slower;
  const Replay ended = replay(in);
  EXPECT_EQ(ended.rounds.size(), 3U);
  EXPECT_EQ(ended.faulted_s, 0) << "no page is missing";
  HypervisorCosts at_once;
  at_once.post_copy_lead_s = 0;
  EXPECT_EQ(replay(in, at_once).rounds.size(), 2U);
  EXPECT_GT(replay(in, at_once).total_time_s, ended.total_time_s);
}

TEST(Replay, FasterThanTheLinkDoesNotEndByItself) {
  const DirtyCurve fast = writer(20 * kMega, 100 * kMega, 200 * kMega);
  ReplayInput in = input(fast);
  const Replay endless = replay(in);
  EXPECT_FALSE(endless.converges);
  EXPECT_TRUE(endless.forced);
  EXPECT_GT(endless.downtime_s, 5);  // the WWS goes in the stop

  in.time_limit_s = 60;
  in.at_limit = LimitAction::Cancel;
  const Replay cancelled = replay(in);
  EXPECT_TRUE(cancelled.cancelled);
  EXPECT_FALSE(cancelled.converges);
  EXPECT_DOUBLE_EQ(cancelled.total_time_s, 60);
  EXPECT_DOUBLE_EQ(cancelled.downtime_s, 0);

  in.at_limit = LimitAction::StopAndCopy;
  const Replay stopped = replay(in);
  EXPECT_NEAR(stopped.total_time_s, 60 + stopped.downtime_s, 1e-6);
  EXPECT_GT(stopped.downtime_s, 5);

  in.at_limit = LimitAction::PostCopy;
  const Replay after = replay(in);
  EXPECT_NEAR(after.downtime_s, 0.0665, 1e-9);
  EXPECT_GT(after.faulted_s, 0);
}

TEST(Replay, ALimitThatIsNotReachedChangesNothing) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  in.time_limit_s = 60;
  EXPECT_DOUBLE_EQ(replay(in).total_time_s, replay(input(idle)).total_time_s);
  in.time_limit_s = 5;
  in.at_limit = LimitAction::StopAndCopy;
  const Replay stopped = replay(in);
  EXPECT_TRUE(stopped.converges);
  EXPECT_TRUE(stopped.forced);
  EXPECT_NEAR(stopped.downtime_s, 20 * kPageWire - 4.93 + 0.07, 0.001);
}

TEST(Replay, ThrottlingEndsWhatWouldNotEnd) {
  const DirtyCurve fast = writer(20 * kMega, 100 * kMega, 200 * kMega);
  const Replay out = replay(input(fast, Strategy::Throttled));
  EXPECT_TRUE(out.converges);
  EXPECT_GT(out.held_s, 1);
  double most = 0;
  for (const auto& round : out.rounds) {
    EXPECT_GE(round.throttle, most);
    most = round.throttle;
  }
  EXPECT_GT(most, 0.75);  // 20 MB/s of progress against 10 MB/s of link and 3 MB in the stop
  EXPECT_LE(most, 0.99);
}

TEST(Replay, ALinkThatIsNearlyDeadTakesYearsButNoTimeToCompute) {
  const DirtyCurve fast = writer(20 * kMega, 100 * kMega, 200 * kMega);
  for (const Strategy strategy : {Strategy::PreCopy, Strategy::Throttled, Strategy::RateControlled,
                                  Strategy::PostCopy, Strategy::Hybrid}) {
    ReplayInput in = input(fast, strategy);
    in.link_rate = 0.002;
    EXPECT_GT(replay(in).total_time_s, 200 * kMega / 0.002) << to_string(strategy);
  }
}

TEST(Replay, ThrottlingTakesFirstWhatAGuestDoesNotUse) {
  // A fifth of a CPU, 30 MB in each second of wall time all the same.
  const DirtyCurve part = writer(150 * kMega, 40 * kMega, 200 * kMega, 0.2);
  ReplayInput in = input(part, Strategy::Throttled);
  const Replay idle = replay(in);
  in.most_share = 0.2;  // it gets no more than that fifth
  const Replay full = replay(in);
  ASSERT_TRUE(idle.converges && full.converges);
  EXPECT_GT(idle.total_time_s, full.total_time_s + 2);
  EXPECT_GT(idle.rounds.back().throttle, 0.8);
  double harmless = 0;
  for (const auto& round : idle.rounds) {
    if (round.throttle <= 0.8) harmless += round.duration_s;
  }
  EXPECT_LE(idle.held_s, 0.2 * (idle.total_time_s - harmless) + 1e-9);
  double taken = 0;
  for (const auto& round : full.rounds) taken += round.throttle * round.duration_s;
  taken -= full.rounds.back().throttle * full.rounds.back().duration_s;  // the stop
  EXPECT_NEAR(full.held_s, taken, 0.01) << "who computes all the time that it may loses it all";
}

TEST(Replay, UnderAQuotaAThrottledCpuHasWhatItSleptThrough) {
  const DirtyCurve part = writer(150 * kMega, 40 * kMega, 200 * kMega, 0.2);
  ReplayInput in = input(part, Strategy::Throttled);
  in.most_share = 0.25;
  const Replay strict = replay(in);
  in.awake_share = 0.5;
  const Replay quota = replay(in);
  ASSERT_TRUE(strict.converges && quota.converges);
  EXPECT_GT(quota.total_time_s, strict.total_time_s + 2) << "60% of it is not felt";
}

TEST(Replay, AThrottleThatTakesNothingLeavesABurstInItsPlace) {
  // 17 MB each 2 s take 1.7 s on the link, so rounds and bursts are out of step after a while.
  const std::vector<Beat> beats{{2, 0.5, 0.5, 17 * kMega, 0}};
  const DirtyCurve part = writer(9 * kMega, 17 * kMega, 200 * kMega, 0.2);
  ReplayInput in = input(part, Strategy::Throttled);
  in.beats = &beats;
  in.most_share = 0.25;
  in.awake_share = 0.5;
  const Replay quota = replay(in);
  ASSERT_TRUE(quota.converges);
  EXPECT_GT(quota.rounds.back().throttle, 0);
  EXPECT_LE(quota.rounds.back().throttle, 0.5);
  ReplayInput plain = in;
  plain.sending.strategy = Strategy::PreCopy;
  EXPECT_DOUBLE_EQ(quota.total_time_s, replay(plain).total_time_s);
}

TEST(Replay, RoundsThatAreAlikeEndWhenALookFallsIntoABurst) {
  // 21.85 MB each 2 s, sent in 1.95 s but for what the limit lets be left: each look is 0.05 s
  // earlier in the beat than the one before.
  const DirtyCurve curve = writer(10.9 * kMega, 21.85 * kMega, 200 * kMega);
  ReplayInput in = input(curve);
  EXPECT_FALSE(replay(in).converges) << "without a beat each round is like the one before";
  std::size_t most = 0;
  for (double since = 0.05; since < 2; since += 0.1) {
    const std::vector<Beat> beats{{2, 0.08, 0.08, 21.85 * kMega, since}};
    in.beats = &beats;
    const Replay out = replay(in);
    EXPECT_TRUE(out.converges) << since;
    EXPECT_GT(out.rounds.size(), 4U) << since;
    EXPECT_LT(out.rounds.size(), 80U) << since;
    most = std::max(most, out.rounds.size());
  }
  EXPECT_GT(most, 25U) << "some begin just behind a burst";
}

TEST(Replay, AThrottledGuestsRoundsVary) {
  // 3.3 MB are dirty again after each round, held back to a half or not, and 3 would do.
  const DirtyCurve curve = writer(100 * kMega, 3.3 * kMega, 200 * kMega);
  EXPECT_FALSE(replay(input(curve)).converges);
  ReplayInput in = input(curve, Strategy::Throttled);
  in.sending.throttle_initial_percent = 20;
  in.sending.throttle_step_percent = 10;
  const Replay out = replay(in);
  EXPECT_TRUE(out.converges);
  EXPECT_GT(out.rounds.back().throttle, 0) << "before, each round is like the one before";
  EXPECT_LT(out.rounds.back().throttle, 0.5);
}

TEST(Replay, AThrottleTakesFirstWhatAGuestWaits) {
  // 8 MB each half second, in 20 ms of CPU time; the rest of its 0.14 of a CPU is waiting.
  MemoryProfile profile;
  profile.total = Bytes{200'000'000};
  for (const double burst : {0.3, 0.02, 0.15, 0.25, 0.35, 0.45}) {
    profile.cycles.push_back(by_the_clock(burst));
  }
  const DirtyCurve curve = DirtyCurve::from(profile);
  const auto cycles = DirtyCurve::each(profile);
  ASSERT_TRUE(!cycles.empty() && cycles.front().told_apart());
  ReplayInput in = input(curve, Strategy::Throttled);
  in.cycles = &cycles;
  in.sending.throttle_initial_percent = 90;
  in.sending.throttle_step_percent = 5;
  in.downtime_limit_s = 0.05;  // no part of a burst fits
  int held_at_first = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    in.seed = seed;
    const Replay out = replay(in);
    EXPECT_TRUE(out.converges);
    double late_s = 0;  // held back to a hundredth: a quarter of its work
    for (const auto& round : out.rounds) {
      if (round.throttle > 0.96) late_s += round.duration_s;
      held_at_first += round.throttle > 0 && round.throttle < 0.96 ? 1 : 0;
    }
    EXPECT_NEAR(out.held_s, 0.75 * late_s, 0.3) << "at 90 and 95% it loses nothing";
  }
  EXPECT_GT(held_at_first, 40) << "nor does that end it";
}

TEST(Replay, AThrottledGuestKeepsItsBeatUntilItIsLate) {
  // 24.5 MB each 2 s, sent in 2 s, in 40 ms of CPU time: with a twentieth of one there is still
  // time for that.
  MemoryProfile profile;
  profile.total = Bytes{200'000'000};
  for (const double burst : {0.3, 0.02, 0.55, 2.1, 1.35, 1.85}) {  // once it was late
    DirtyCycle cycle;
    for (const double wall : {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0}) {
      const bool met = wall > burst;
      cycle.points.push_back(
          {micro(wall), micro(0.1 * wall + (met ? 0.03 : 0)), Bytes{met ? 24'600'000U : 100'000U}});
    }
    profile.cycles.push_back(cycle);
  }
  const DirtyCurve curve = DirtyCurve::from(profile);
  const auto cycles = DirtyCurve::each(profile);
  ASSERT_TRUE(!cycles.empty() && cycles.front().told_apart());
  ReplayInput in = input(curve, Strategy::Throttled);
  in.link_rate = 12e6;
  in.downtime_limit_s = 0.05;
  in.cycles = &cycles;
  in.sending.throttle_initial_percent = 20;
  in.sending.throttle_step_percent = 10;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Beat> beats{{2, 0.1, 0.1, 24.5e6, 0.1 * static_cast<double>(seed)}};
    in.beats = &beats;
    in.seed = seed;
    const Replay out = replay(in);
    EXPECT_TRUE(out.converges) << seed;
    EXPECT_GT(out.rounds.back().throttle, 0.9) << seed;
    for (const auto& round : out.rounds) {
      if (round.throttle > 0 && round.throttle < 0.85) {
        EXPECT_NEAR(round.duration_s, 2, 0.3) << seed << ' ' << round.throttle;
      }
    }
  }
  in.beats = nullptr;
  int sooner = 0;
  for (in.seed = 1; in.seed <= 20; ++in.seed) {
    sooner += replay(in).rounds.back().throttle < 0.9 ? 1 : 0;
  }
  EXPECT_GT(sooner, 5) << "by windows drawn one by one, chance ends it";
}

TEST(Replay, LimitsOfTheRateAreSetInWholeSteps) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  in.rate_limit = 5.9 * 1048576;
  const Replay asked = replay(in);
  in.rate_limit = 5.0 * 1048576;
  EXPECT_DOUBLE_EQ(asked.total_time_s, replay(in).total_time_s);
}

TEST(Replay, ThrottlingBeginsAtTheSecondHighRound) {
  // Round 0 dirties 150 MB against 200 MB sent, the later ones more than they send.
  const DirtyCurve fast = writer(20 * kMega, 150 * kMega, 200 * kMega);
  ReplayInput in = input(fast, Strategy::Throttled);
  in.sending.throttle_initial_percent = 35;
  const Replay out = replay(in);
  ASSERT_GE(out.rounds.size(), 4U);
  EXPECT_DOUBLE_EQ(out.rounds[0].throttle, 0);
  EXPECT_DOUBLE_EQ(out.rounds[1].throttle, 0);
  EXPECT_DOUBLE_EQ(out.rounds[2].throttle, 0.35);
}

TEST(Replay, AnEmulatedCpuThatSleepsHoldsUpTheLook) {
  const DirtyCurve busy = writer(30 * kMega, 40 * kMega, 200 * kMega);
  ReplayInput in = input(busy, Strategy::Throttled);
  in.sending.throttle_initial_percent = 90;
  in.sending.throttle_step_percent = 5;
  const Replay real = replay(in);
  in.emulated = true;
  const Replay emulated = replay(in);
  ASSERT_GE(real.rounds.size(), 3U);
  EXPECT_GT(emulated.total_time_s, real.total_time_s + 0.09);  // 10 ms * 0.9 / 0.1, at least once
  in.sending.strategy = Strategy::PreCopy;
  in.emulated = false;
  const Replay unthrottled = replay(in);
  in.emulated = true;
  EXPECT_DOUBLE_EQ(replay(in).total_time_s, unthrottled.total_time_s);
}

/// Seconds of a compressed move whose wire and CPUs take so long each.
double overlapped(double wire_s, double cpu_s) {
  return std::pow(std::pow(wire_s, 1.5) + std::pow(cpu_s, 1.5), 1 / 1.5);
}

TEST(Replay, CompressedPagesTakeLessOfTheWireButTheCpu) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle, Strategy::Compressed);
  in.compressed_fraction = 0.25;
  EXPECT_NEAR(replay(in).total_time_s, overlapped(20 * (0.25 + 8.0 / 4096), 200.0 / 300) + 0.15,
              0.01);
  in.link_rate = 1000 * kMega;
  in.sending.channels = 1;
  HypervisorCosts costs;
  costs.compress_rate = 100 * kMega;
  EXPECT_NEAR(replay(in, costs).total_time_s, 2 + 0.14, 0.01);
  in.sending.channels = 16;  // two CPUs
  EXPECT_NEAR(replay(in, costs).total_time_s, 1 + 0.14, 0.01);
}

TEST(Replay, WhatItsChannelsHoldEndsRoundsSooner) {
  const DirtyCurve busy = writer(8 * kMega, 40 * kMega, 200 * kMega);
  ReplayInput in = input(busy, Strategy::Compressed);
  HypervisorCosts none;
  none.channel_bytes = 0;
  const Replay usual = replay(in);
  EXPECT_TRUE(usual.converges);
  EXPECT_LT(usual.total_time_s, replay(in, none).total_time_s - 0.2);
  in.sending.strategy = Strategy::PreCopy;
  EXPECT_DOUBLE_EQ(replay(in).total_time_s, replay(in, none).total_time_s);
}

TEST(Replay, OnePacketWaitsForAChannelAndHalfOfTheirsIsSent) {
  const DirtyCurve busy = writer(8 * kMega, 40 * kMega, 200 * kMega);
  ReplayInput in = input(busy, Strategy::Compressed);
  HypervisorCosts costs;
  costs.compress_rate = 1e6 * kMega;  // the wire alone takes time
  const auto first_round = [&in, &costs](int channels) {
    in.sending.channels = channels;
    return replay(in, costs).rounds.front().duration_s;
  };
  const double packet_s = 128 * 4104 / in.link_rate;
  // Each more holds half a packet more, that its round need not send.
  EXPECT_NEAR(first_round(1) - first_round(2), 0.5 * packet_s, 1e-4);
  EXPECT_NEAR(first_round(2) - first_round(4), packet_s, 1e-4);
}

TEST(Replay, WhatIsWrittenAgainMayCompressWorseThanTheRest) {
  const DirtyCurve busy = writer(30 * kMega, 40 * kMega, 200 * kMega);
  ReplayInput in = input(busy, Strategy::Compressed);
  in.compressed_fraction = 0.25;
  EXPECT_TRUE(replay(in).converges);
  in.hot_compressed_fraction = 1;  // 30 MB/s of it, and the link carries 10
  EXPECT_FALSE(replay(in).converges);
  in.compressed_fraction = 1;
  in.hot_compressed_fraction = 0.25;
  EXPECT_TRUE(replay(in).converges);
  in.sending.strategy = Strategy::PreCopy;
  EXPECT_FALSE(replay(in).converges);
}

TEST(Replay, AHostWithoutIdleCpusSharesThemWithTheCompressor) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = compressed(idle, 0.25, 1000 * kMega);
  in.sending.channels = 16;
  HypervisorCosts costs;
  costs.compress_rate = 100 * kMega;
  in.host_cpus = 4;
  in.busy_cpus = 2;  // two are left, as many as it takes
  EXPECT_NEAR(replay(in, costs).total_time_s, 1 + 0.14, 0.01);
  EXPECT_NEAR(replay(in, costs).crowded, 0.5 * std::pow(2.0 / 4, 3), 1e-9)
      << "all others, by chance";
  in.busy_cpus = 4;  // six want four
  EXPECT_NEAR(replay(in, costs).total_time_s, 1.5 + 0.14, 0.01);
  EXPECT_NEAR(replay(in, costs).crowded, 1.0 / 3, 1e-9);
  in.sending.strategy = Strategy::PreCopy;
  EXPECT_DOUBLE_EQ(replay(in, costs).crowded, 0);
}

TEST(Replay, WhoSendsWaitsForACpuWhileAllAreBusy) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  HypervisorCosts costs;
  costs.mover_rate = 200 * kMega;
  const auto first_round_s = [&](double link_rate, double busy, std::optional<double> limit = {}) {
    ReplayInput in = input(idle);
    in.link_rate = link_rate;
    in.host_cpus = 2;
    in.busy_cpus = busy;
    in.rate_limit = limit;
    in.downtime_limit_s = 0;
    return replay(in, costs).rounds.at(0).duration_s;
  };
  const double whole_s = 2 * kPageWire;
  EXPECT_NEAR(first_round_s(100 * kMega, 0), whole_s, 1e-6);
  // Both are busy in a quarter of the time, and it wants one for half of that, squared.
  EXPECT_NEAR(first_round_s(100 * kMega, 1), whole_s / (1 - 0.25 * 0.25), 1e-6);
  EXPECT_NEAR(first_round_s(10 * kMega, 1), 10 * whole_s / (1 - 0.25 * 0.0025), 1e-5);
  // However fast its link, it wants no more than all of one.
  EXPECT_NEAR(first_round_s(400 * kMega, 1), whole_s / 4 / 0.75, 1e-6);
  // Who leaves half of the link idle makes up for it.
  const double half = 50 * 1048576.0;
  EXPECT_DOUBLE_EQ(first_round_s(100 * kMega, 1, half), first_round_s(100 * kMega, 0, half));
}

TEST(Replay, BesideGuestsWithQuotasTheCompressorHasWhatIsIdle) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = compressed(idle, 0.25, 1000 * kMega);
  HypervisorCosts costs;
  costs.compress_rate = 100 * kMega;
  in.host_cpus = 2;
  in.cpu_quota = 0.25;
  in.busy_cpus = 1;  // four guests
  EXPECT_NEAR(replay(in, costs).total_time_s, 2 + 0.14, 0.01);
  in.busy_cpus = 2;  // eight, and each has an eighth of both CPUs: nothing beside its quota
  EXPECT_GT(replay(in, costs).total_time_s, 20);
  in.cpu_quota = 1;  // two: a quota of all that there is for each
  EXPECT_GT(replay(in, costs).total_time_s, 20);
  in.cpu_quota = 2;  // one
  in.busy_cpus = 1.5;
  EXPECT_NEAR(replay(in, costs).total_time_s, 4 + 0.14, 0.01);
  in.link_rate = 10 * kMega;  // the wire takes 5 s
  EXPECT_NEAR(replay(in, costs).total_time_s, overlapped(20 * (0.25 + 8.0 / 4096), 4) + 0.15, 0.01);
}

TEST(Replay, AWireAndCpusOfOneSpeedAreBothIdleAtTimes) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle, Strategy::Compressed);
  in.compressed_fraction = 0.5;
  HypervisorCosts costs;
  costs.compress_rate = 100 * kMega;                  // a second by both channels
  in.link_rate = 100 * kMega * (1 + 2 * 8.0 / 4096);  // and on the wire
  EXPECT_NEAR(replay(in, costs).total_time_s, overlapped(1, 1) + 0.14, 0.01);
  in.sending.strategy = Strategy::PreCopy;
  costs.copy_rate = 100 * kMega;
  EXPECT_NEAR(replay(in, costs).total_time_s, 2 + 0.14, 0.05) << "one thread does both";
}

TEST(Replay, OfWhatIsLeftARoundWritesLessAgainIfItWritesLess) {
  // 3 MB in each 0.4 s, all of them again; and at times nothing for as long. A limit of 0.2 s
  // leaves 2 MB at 10 MB/s: what was not sent when such a rest begins is still there at its end.
  const DirtyCurve busy = writer(7.5 * kMega, 3 * kMega, 200 * kMega);
  const DirtyCurve rest = writer(0, 0, 200 * kMega);
  ReplayInput in = input(busy);
  in.downtime_limit_s = 0.2;
  const std::vector<DirtyCurve> often{busy, rest};
  in.cycles = &often;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    in.seed = seed;
    const Replay out = replay(in);
    ASSERT_TRUE(out.converges);
    EXPECT_GT(out.downtime_s, 0.15) << "what was left was sent by nobody";
    EXPECT_LT(out.downtime_s, 0.2 + 0.08);
  }
}

TEST(Replay, OnOneMachineTheOtherEndUnpacksByTheSameCpus) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = compressed(idle, 0.25, 1000 * kMega);
  HypervisorCosts costs;
  costs.compress_rate = 150 * kMega;
  costs.unpack_rate = 75 * kMega;
  in.one_machine = true;
  // Enough CPUs: two channels unpack more slowly than they pack.
  EXPECT_NEAR(replay(in, costs).total_time_s, 200.0 / 150 + 0.14, 0.01);
  in.host_cpus = 2;
  in.cpu_quota = 0.25;
  in.busy_cpus = 1;  // one is left, and a byte takes 1/150 + 1/75 us of it
  EXPECT_NEAR(replay(in, costs).total_time_s, 200.0 / 50 + 0.14, 0.01);
  in.cpu_quota = 0;  // one is busy, three are wanted
  EXPECT_NEAR(replay(in, costs).total_time_s, 200.0 / 150 * 2 + 0.14, 0.01);
  EXPECT_NEAR(replay(in, costs).crowded, 0.5, 1e-9);
  in.one_machine = false;
  EXPECT_NEAR(replay(in, costs).total_time_s, 200.0 / 300 * 1.5 + 0.14, 0.01);
  in.one_machine = true;
  in.link_rate = 10 * kMega;  // what limits it then
  EXPECT_NEAR(replay(in, costs).total_time_s,
              overlapped(20 * (0.25 + 8.0 / 4096), 200.0 / 150) + 0.16, 0.01);
}

TEST(Replay, TheDestinationIsBehindWithWhatPacksBest) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = compressed(idle, 0.8, 120 * kMega);
  HypervisorCosts costs;
  costs.compress_rate = 600 * kMega;
  costs.unpack_rate = 250 * kMega;
  const auto waits_s = [&] {
    HypervisorCosts at_once = costs;
    at_once.unpack_s = 0;
    return replay(in, costs).downtime_s - replay(in, at_once).downtime_s;
  };
  const double comes = 120 / (0.8 + 8.0 / 4096);
  EXPECT_NEAR(waits_s(), 0.04 * comes / 250, 1e-9);
  in.hot_compressed_fraction = 0.1;  // 1.2 GB/s of it would come
  EXPECT_NEAR(waits_s(), 0.04, 1e-9);
  in.hot_compressed_fraction.reset();
  costs.compress_rate = 100 * kMega;
  EXPECT_NEAR(waits_s(), 0.04, 1e-9) << "by the slower of both";
}

TEST(Replay, WhatPacksMeetsTheGuestOnItsCpuThoughOthersAreIdle) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = compressed(idle, 0.5 - 8.0 / 4096, 100 * kMega);
  in.host_cpus = 2;
  in.busy_cpus = 0.5;
  HypervisorCosts costs;
  costs.compress_rate = 200 * kMega;  // 200e6 of memory a second take a CPU,
  EXPECT_NEAR(replay(in, costs).crowded, 0.5 / 2, 1e-9) << "the other one for half of the time";
  in.host_cpus = 4;
  EXPECT_NEAR(replay(in, costs).crowded, 0.5 / 64, 1e-9);
  in.host_cpus = 0;
  EXPECT_EQ(replay(in, costs).crowded, 0) << "more than anybody needs";
}

TEST(Replay, ARoundEndsWhenItsPagesHaveGone) {
  // Half of what a round sends is written meanwhile: it halves each time, also below a slice.
  const DirtyCurve busy = writer(5 * kMega, 20 * kMega, 200 * kMega);
  ReplayInput in = input(busy);
  in.downtime_limit_s = 0.02;
  const Replay out = replay(in);
  EXPECT_TRUE(out.converges);
  EXPECT_LT(out.downtime_s, 0.02 + 0.08);
  EXPECT_LT(out.rounds[out.rounds.size() - 2].duration_s, 0.05);
}

TEST(Replay, StopAndCopyIsAllDowntime) {
  const DirtyCurve fast = writer(20 * kMega, 100 * kMega, 200 * kMega);
  ReplayInput in = input(fast, Strategy::StopAndCopy);
  in.zero_bytes = 100 * kMega;
  const Replay out = replay(in);
  EXPECT_NEAR(out.downtime_s, 10 * kPageWire + 0.022 + 0.05 + 0.07, 0.002);
  EXPECT_NEAR(out.total_time_s, out.downtime_s + 0.07, 1e-9);
}

TEST(Replay, CheckpointRestartGoesOverTheLinkTwice) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  const HypervisorCosts costs;
  const Replay out = replay(input(idle, Strategy::CheckpointRestart), costs);
  const double file = 200 * kMega * kPageWire + costs.device_bytes;
  EXPECT_DOUBLE_EQ(out.sent_bytes, 2 * file);
  EXPECT_NEAR(out.total_time_s, 2 * file / 10e6 + 0.07 + 0.03 + costs.restore_s, 1e-6);
  EXPECT_EQ(out.rounds.size(), 2U);
}

TEST(Replay, RateControlStartsSlowAndGrows) {
  const DirtyCurve slow = writer(2 * kMega, 20 * kMega, 200 * kMega);
  ReplayInput in = input(slow, Strategy::RateControlled);
  in.sending.rate_min = BytesPerSecond{4 * kMega};
  in.sending.rate_max = BytesPerSecond{10 * kMega};
  HypervisorCosts any_rate;
  any_rate.rate_step = 0;
  const Replay out = replay(in, any_rate);
  ASSERT_TRUE(out.converges);
  const auto rate = [&](std::size_t i) {
    return out.rounds[i].sent_bytes / out.rounds[i].duration_s;
  };
  EXPECT_NEAR(rate(0), 4 * kMega, 1e4);
  // 50 s of round 0 left the WWS of 20 MB: 4 + 20/50 (less what is not sent of round 0).
  EXPECT_NEAR(rate(1), 4.4 * kMega, 0.1 * kMega);
  EXPECT_GT(out.total_time_s, replay(input(slow)).total_time_s);
}

TEST(Replay, AChosenDowntimeLimitThatItsRoundsHangAboveGivesWay) {
  // 0.4 MB are written in a moment, again and again; 30 ms carry 0.3.
  const DirtyCurve busy = writer(100 * kMega, 0.4 * kMega, 200 * kMega);
  ReplayInput in = input(busy);
  in.downtime_limit_s = 0.03;
  EXPECT_FALSE(replay(in).converges);
  in.later_downtime_limit_s = 0.3;
  const Replay out = replay(in);
  EXPECT_TRUE(out.converges);
  EXPECT_GT(static_cast<int>(out.rounds.size()), kRoundsWithFirstLimit);
  EXPECT_LT(out.downtime_s, 0.3 + 0.1);
  in.downtime_limit_s = 0.3;
  const Replay usual = replay(in);
  EXPECT_LE(usual.rounds.size(), out.rounds.size()) << "nothing is won by waiting";
}

TEST(Replay, AHybridThatComesBelowItsLimitEndsByAStop) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle, Strategy::Hybrid);
  in.sending.pre_copy_rounds = 1;
  const Replay out = replay(in);
  EXPECT_DOUBLE_EQ(out.faulted_s, 0);
  EXPECT_GT(out.downtime_s, 0.2) << "the last 0.3 s of its pages go while it stands still";
}

TEST(Replay, TheBandwidthLimitEndsAtTheSwitch) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  in.rate_limit = 5 * 1048576;
  const Replay out = replay(in);
  EXPECT_NEAR(out.total_time_s, 38.1, 0.5);
  EXPECT_NEAR(out.downtime_s, 0.15 + 0.07, 0.02);  // the threshold is of the limit, the rest not
}

TEST(Replay, ItStopsByTheRateThatItWasTold) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  in.rate_limit = 5 * 1048576;
  in.sending.switchover_bandwidth = BytesPerSecond{10 * kMega};
  // 0.3 s of the link, less half a slice of the limit; not 0.3 s of the limit.
  EXPECT_NEAR(replay(in).downtime_s, 0.3 - 0.013 + 0.07, 0.02);
  // A link that is faster than told: a shorter stop.
  ReplayInput slow_said = input(idle);
  const double by_itself = replay(slow_said).downtime_s;
  slow_said.sending.switchover_bandwidth = BytesPerSecond{8 * kMega};
  EXPECT_NEAR(by_itself - replay(slow_said).downtime_s, 0.06, 0.01);
}

TEST(RateOfLastRound, IsTheLinksOrWhatIsCompressedASecond) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  const double raw = rate_of_last_round(in);
  EXPECT_NEAR(raw, in.link_rate, 0.003 * in.link_rate) << "less the headers";
  in.rate_limit = 1 * kMega;
  EXPECT_DOUBLE_EQ(rate_of_last_round(in), raw) << "the limit is lifted for it";
  in.sending.strategy = Strategy::Compressed;
  in.compressed_fraction = 0.1;
  EXPECT_DOUBLE_EQ(rate_of_last_round(in), in.link_rate);
  HypervisorCosts slow;
  slow.compress_rate = 1 * kMega;
  const double a_byte = overlapped((0.1 + 8.0 / 4096) / in.link_rate, 1 / (2 * kMega));
  EXPECT_NEAR(rate_of_last_round(in, slow), 1 / a_byte, 1e-3) << "two channels";
  in.link_rate = 0;
  EXPECT_DOUBLE_EQ(rate_of_last_round(in), 0);
}

TEST(Replay, WithoutALinkThereIsNothing) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  in.link_rate = 0;
  EXPECT_FALSE(replay(in).converges);
}

TEST(HypervisorDowntime, LeavesRoomForWhatComesOnTop) {
  HypervisorCosts costs;
  const auto told = [&costs](double goodput, std::optional<Milliseconds> stated) {
    MovePolicy policy;
    policy.downtime_limit = stated;
    LinkMeasurement link;
    link.goodput = BytesPerSecond{goodput};
    return hypervisor_downtime_limit(policy, link, costs);
  };
  // 300 ms less 30 for the switch and 40 for the devices.
  EXPECT_EQ(told(10e6, std::nullopt), Milliseconds{230});
  EXPECT_EQ(told(10e6, Milliseconds{300}), Milliseconds{230});
  EXPECT_EQ(told(10e6, Milliseconds{50}), Milliseconds{10});
  // Over a slow link half of the usual limit is left for pages, of a stated one next to nothing.
  EXPECT_EQ(told(1e6, std::nullopt), Milliseconds{150});
  EXPECT_EQ(told(1e6, Milliseconds{300}), Milliseconds{10});
  // What a slow host's switch takes is taken from what somebody insists on.
  costs.switch_s = 0.0895;
  EXPECT_EQ(told(10e6, std::nullopt), Milliseconds{230});
  EXPECT_EQ(told(10e6, Milliseconds{300}), Milliseconds{170});
}

}  // namespace
}  // namespace mare::policy
