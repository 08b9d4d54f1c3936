#include "orchestrator/policy/forecast.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "orchestrator/core/rng.h"
#include "orchestrator/policy/correction.h"
#include "orchestrator/policy/replay.h"
#include "orchestrator/policy/statistics.h"
#include "orchestrator/policy/strategy_estimate.h"
#include "tests/unit/policy/forecast_input.h"
#include "tests/unit/policy/quantities.h"

namespace mare::policy {
namespace {

TEST(Forecast, PreCopyWaitsForLessToBeLeftWhereThatIsSureToCome) {
  ForecastInput calm = input(1 * kMega, 4 * kMega);
  offer_only(calm, {Strategy::PreCopy});
  const Verdict waits = forecast(calm);
  EXPECT_EQ(waits.sending.downtime_limit, Milliseconds{30});
  EXPECT_LT(of(waits, Strategy::PreCopy).downtime_s.value, 0.15);
  // What it writes in a moment, again and again, is more than fits into 30 ms.
  ForecastInput busy = input(100 * kMega, 1.5 * kMega);
  offer_only(busy, {Strategy::PreCopy});
  EXPECT_NE(forecast(busy).sending.downtime_limit, Milliseconds{30});
  // And what fits into 100, but not into 60.
  ForecastInput between = input(100 * kMega, 1 * kMega);
  offer_only(between, {Strategy::PreCopy});
  EXPECT_EQ(forecast(between).sending.downtime_limit, Milliseconds{100});
  // Never more than the policy allows: 25 ms less device state and switch.
  calm.policy.downtime_limit = Milliseconds{90};
  EXPECT_LE(forecast(calm).sending.downtime_limit, Milliseconds{30});
}

TEST(Forecast, AChosenLimitGivesWayToTheUsualOne) {
  ForecastInput calm = input(1 * kMega, 4 * kMega);
  offer_only(calm, {Strategy::PreCopy});
  EXPECT_EQ(forecast(calm).sending.later_downtime_limit,
            hypervisor_downtime_limit(calm.policy, calm.link));
  calm.policy.downtime_limit = Milliseconds{500};
  const Verdict stated = forecast(calm);
  EXPECT_EQ(stated.sending.later_downtime_limit, hypervisor_downtime_limit(calm.policy, calm.link));
}

/// Each cycle of its log has seen a fifth more than the one before.
ForecastInput uneven(double rate) {
  ForecastInput out = input(rate, 64 * kMega);
  double more = 1;
  for (auto& cycle : out.profile.cycles) {
    for (auto& point : cycle.points) {
      point.unique.count =
          static_cast<std::uint64_t>(static_cast<double>(point.unique.count) * more);
    }
    more += 0.2;
  }
  return out;
}

TEST(Forecast, ALimitThatGivesWayByLittleNeedNotBeSureToBeMet) {
  // At 6.25 MB/s it may write more than the link carries: no limit is sure to be met.
  ForecastInput busy = uneven(6.25 * kMega);
  busy.job = JobCoupling{};  // others would wait as long for TCP after 0.2 s as after 0.3
  offer_only(busy, {Strategy::PreCopy});
  const Verdict out = forecast(busy);
  EXPECT_EQ(out.sending.downtime_limit, Milliseconds{200});
  EXPECT_EQ(out.sending.later_downtime_limit, Milliseconds{236});
}

TEST(Forecast, AnEndByOneLuckyCycleIsNotSure) {
  // 9 MB every half second, of which 3 fit; once nothing for a while.
  ForecastInput in = input(90 * kMega, 9 * kMega);
  in.policy.time_limit = Seconds{60};
  in.profile.cycles.resize(4, in.profile.cycles.front());
  offer_only(in, {Strategy::PreCopy});
  EXPECT_FALSE(of(forecast(in), Strategy::PreCopy).converges);
  const auto quiet_in = [&in](std::size_t cycle) {
    for (auto& point : in.profile.cycles[cycle].points) {
      if (point.wall <= micro(1.0)) point.unique = Bytes{100'000};
    }
  };
  quiet_in(1);
  const StrategyForecast lucky = of(forecast(in), Strategy::PreCopy);
  ASSERT_TRUE(lucky.converges);
  EXPECT_TRUE(lucky.end_unsure);
  EXPECT_LT(lucky.total_time_s.value, 60);
  EXPECT_GE(lucky.total_time_s.high, 60) << "that cycle may never come again";
  quiet_in(2);
  EXPECT_LT(of(forecast(in), Strategy::PreCopy).total_time_s.high, 60);
  EXPECT_FALSE(of(forecast(in), Strategy::PreCopy).end_unsure);
}

/// It goes through so many bytes in 1.9 s and rests for 0.1, again and again.
ForecastInput in_laps(double bytes) {
  ForecastInput in = input(0, 0);
  in.policy.time_limit = Seconds{60};
  offer_only(in, {Strategy::PreCopy});
  in.profile.cycles.clear();
  const auto active_s = [](double until) {
    return 1.9 * std::floor(until / 2) + std::min(1.9, std::fmod(until, 2));
  };
  for (int i = 0; i < 8; ++i) {
    DirtyCycle cycle;
    const double begun = i / 4.0;
    for (const double at : {0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0}) {
      const double part = std::min(1.0, (active_s(begun + at) - active_s(begun)) / 1.9);
      const auto unique = static_cast<std::uint64_t>(part * bytes);
      cycle.points.push_back({micro(at), micro(at), Bytes{unique}});
    }
    in.profile.cycles.push_back(cycle);
  }
  return in;
}

/// Of guests that write so many MB in 2 s, in which the link carries 23.5.
void expect_open_only_near_the_link(const std::function<StrategyForecast(double)>& said) {
  EXPECT_TRUE(said(10).converges);
  EXPECT_FALSE(said(10).end_unsure);
  const StrategyForecast above = said(25);
  EXPECT_FALSE(above.converges);
  EXPECT_TRUE(above.end_unsure);
  EXPECT_LT(above.total_time_s.low, 40) << "how long it takes if it ends";
  EXPECT_FALSE(said(40).converges);
  EXPECT_FALSE(said(40).end_unsure);
}

TEST(Forecast, WhetherAGuestEndsThatWritesAboutWhatTheLinkCarriesIsLeftOpen) {
  const auto said = [](double mega) {
    return of(forecast(in_laps(mega * kMega)), Strategy::PreCopy);
  };
  EXPECT_TRUE(said(22).end_unsure);
  expect_open_only_near_the_link(said);
}

TEST(Forecast, SoIsOneThatWritesInJerks) {
  // Half of what it writes in 2 s comes in the first moment, or nothing does.
  const auto said = [](double mega) {
    ForecastInput in = in_laps(mega * kMega);
    for (std::size_t i = 0; i < in.profile.cycles.size(); ++i) {
      for (auto& point : in.profile.cycles[i].points) {
        if (point.wall > micro(0.6)) continue;
        point.unique = Bytes{i % 2 == 0 ? 100'000 : static_cast<std::uint64_t>(mega * kMega / 2)};
      }
    }
    return of(forecast(in), Strategy::PreCopy);
  };
  expect_open_only_near_the_link(said);
}

TEST(Forecast, WhereAnEmulatorStartsSlowlyASwitchIsSlow) {
  const auto downtime = [](Strategy strategy, Microseconds start) {
    ForecastInput in = input(1 * kMega, 4 * kMega);
    in.policy.downtime_limit.reset();
    in.profile.emulator_start = start;
    offer_only(in, {strategy});
    return of(forecast(in), strategy).downtime_s.model;
  };
  for (const auto& [strategy, starts] :
       {std::pair{Strategy::StopAndCopy, 0.4}, std::pair{Strategy::PostCopy, 0.5}}) {
    const double untimed = downtime(strategy, Microseconds{0});
    EXPECT_DOUBLE_EQ(downtime(strategy, Microseconds{40'000}), untimed) << "as quick as any";
    const double slow = downtime(strategy, Microseconds{160'000});
    const HypervisorCosts costs;
    const double usual = strategy == Strategy::PostCopy ? costs.post_copy_switch_s : costs.switch_s;
    EXPECT_NEAR(slow - untimed, starts * 0.16 - usual, 1e-9);
  }
}

TEST(Forecast, AShorterLimitThanThePolicysRisesEarly) {
  ForecastInput calm = input(1 * kMega, 4 * kMega);
  offer_only(calm, {Strategy::PreCopy});
  const Verdict shorter = forecast(calm);
  ASSERT_TRUE(shorter.sending.later_downtime_limit);
  EXPECT_TRUE(shorter.sending.limit_rises_early);
  offer_only(calm, {Strategy::PostCopy});
  EXPECT_FALSE(forecast(calm).sending.limit_rises_early) << "it has none";
}

TEST(Forecast, TellsHowFastTheLastRoundWillGoWhereThatIsTaken) {
  ForecastInput calm = input(1 * kMega, 4 * kMega);
  offer_only(calm, {Strategy::PreCopy});
  EXPECT_EQ(forecast(calm).sending.switchover_bandwidth, std::nullopt);
  calm.profile.takes_switchover_bandwidth = true;
  const double mib = 1048576;
  const double whole = std::floor(calm.link.goodput.value / mib) * mib;
  EXPECT_EQ(forecast(calm).sending.switchover_bandwidth, BytesPerSecond{whole});
  offer_only(calm, {Strategy::Compressed});
  EXPECT_EQ(forecast(calm).sending.switchover_bandwidth, BytesPerSecond{whole})
      << "as if the last pages could not be compressed";
  offer_only(calm, {Strategy::PostCopy});
  EXPECT_EQ(forecast(calm).sending.switchover_bandwidth, std::nullopt);
  // libvirt has nothing below 1 MiB/s.
  offer_only(calm, {Strategy::PreCopy});
  calm.link.goodput = BytesPerSecond{0.9 * mib};
  EXPECT_EQ(forecast(calm).sending.switchover_bandwidth, std::nullopt);
}

TEST(Forecast, CompressesAsFastAsItsHostWasSeenTo) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.link.goodput = BytesPerSecond{1177 * kMega};
  in.profile.host_cpus = 8;
  offer_only(in, {Strategy::Compressed});
  const auto takes = [&in](double rate) {
    in.profile.compress_rate = BytesPerSecond{rate};
    return of(forecast(in), Strategy::Compressed);
  };
  const auto unknown = takes(0);
  const auto quick = takes(600 * kMega);
  EXPECT_LT(quick.total_time_s.value, 0.7 * unknown.total_time_s.value);
  EXPECT_LT(quick.downtime_s.value, unknown.downtime_s.value - 0.02) << "unpacking, too";
  EXPECT_GT(takes(50 * kMega).total_time_s.value, unknown.total_time_s.value);
  EXPECT_DOUBLE_EQ(with_host_of(in.profile, {}).compress_rate, 1 / (1 / 50e6 + 1 / 1.5e9));
  EXPECT_DOUBLE_EQ(with_host_of(in.profile, {}).unpack_rate, 250e6) << "nothing is known of it";
  in.profile.unpack_rate = BytesPerSecond{400 * kMega};
  EXPECT_DOUBLE_EQ(with_host_of(in.profile, {}).unpack_rate, 1 / (1 / 400e6 + 1 / 1.5e9));
  EXPECT_DOUBLE_EQ(with_host_of(in.profile, {}).unpack_s,
                   0.04 / (1 / (1 / 50e6 + 1 / 1.5e9) / 150e6));
  in.profile.compress_rate = BytesPerSecond{900 * kMega};
  in.profile.unpack_rate = BytesPerSecond{300 * kMega};  // with copies the usual 250
  EXPECT_DOUBLE_EQ(with_host_of(in.profile, {}).unpack_s, 0.04) << "by the slower of both";
  in.link.one_machine = true;
  in.profile.host_cpus = 1;
  const double shorter = takes(300 * kMega).total_time_s.value;
  in.profile.unpack_rate = BytesPerSecond{100 * kMega};
  EXPECT_GT(takes(300 * kMega).total_time_s.value, 1.5 * shorter) << "by the same CPU";
}

TEST(Forecast, OneChannelWhereAPacketIsLongOnTheWire) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  offer_only(in, {Strategy::Compressed});
  const auto channels = [&in](double goodput, double packs) {
    in.link.goodput = BytesPerSecond{goodput};
    in.profile.compress_rate = BytesPerSecond{packs};
    return forecast(in).sending.channels;
  };
  // Half of 512 KiB takes 22 ms, and 5 ms over ten times as much.
  EXPECT_EQ(channels(11.77e6, 600e6), 1);
  EXPECT_EQ(channels(58e6, 600e6), 2);
  // One that packs hardly quicker than the link takes it in, 23.5e6 a second, leaves gaps.
  EXPECT_EQ(channels(11.77e6, 60e6), 2);
  // Over less of the link a packet is longer.
  in.policy.bandwidth_limit = BytesPerSecond{11.77e6};
  EXPECT_EQ(channels(117.7e6, 600e6), 1);
}

TEST(Forecast, ABusyHostBeginsLater) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.profile.host_cpus = 2;
  const auto takes = [&in](double busy) {
    in.profile.busy_cpus = busy;
    // What sends waits for a CPU, too.
    const Replay replay = estimate(Situation(in, HypervisorCosts{}), Strategy::StopAndCopy).replay;
    return of(forecast(in), Strategy::StopAndCopy).total_time_s.value - replay.downtime_s;
  };
  // It could use one and a half.
  EXPECT_NEAR(takes(0.5) - takes(0), 0, 1e-9);
  EXPECT_NEAR(takes(1) - takes(0), 0.07 * 0.5, 1e-9);
  EXPECT_NEAR(takes(1.25) - takes(0), 0.07, 1e-9);
  EXPECT_NEAR(takes(2) - takes(0), 0.07 * 6.5, 1e-9) << "a fifth of a CPU is its part";
}

TEST(Forecast, ASlowEmulatorBeginsLaterBeforeAnythingWasMoved) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.profile.host_cpus = 2;
  const auto begins = [&in](Microseconds start, Strategy strategy = Strategy::StopAndCopy) {
    in.profile.emulator_start = start;
    const Verdict verdict = forecast(in);
    const StrategyForecast& said = of(verdict, strategy);
    return said.total_time_s.value - said.downtime_s.value;
  };
  const double unknown = begins(Microseconds{0});
  const double hundred = begins(Microseconds{100'000});
  EXPECT_NEAR(hundred - unknown, 0.35 - 0.07, 1e-9);
  EXPECT_NEAR(begins(Microseconds{300'000}) - hundred, 0.7, 1e-9);
  EXPECT_NEAR(begins(Microseconds{300'000}, Strategy::PostCopy) -
                  begins(Microseconds{100'000}, Strategy::PostCopy),
              0.7, 1e-9);
  in.profile.busy_cpus = 1.25;
  EXPECT_NEAR(begins(Microseconds{300'000}) - begins(Microseconds{100'000}), 2 * 0.7, 1e-9);
}

TEST(Forecast, AnEmulatedGuestWarmsUpAndItsFirstWritesTakeLonger) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  const StrategyEstimate real = estimate(Situation(in, HypervisorCosts{}), Strategy::PreCopy);
  in.profile.emulated = true;
  const StrategyEstimate emulated = estimate(Situation(in, HypervisorCosts{}), Strategy::PreCopy);
  const double written = emulated.replay.first_writes_s;
  EXPECT_GT(written, 0);
  EXPECT_NEAR(emulated.forecast.added_job_time_s.value,
              real.forecast.added_job_time_s.value + 0.16 + written, 1e-9);
  // With half of a core all of that takes it twice as long.
  in.profile.cpu_quota = 0.5;
  const StrategyEstimate capped = estimate(Situation(in, HypervisorCosts{}), Strategy::PreCopy);
  EXPECT_NEAR(capped.forecast.added_job_time_s.value,
              real.forecast.added_job_time_s.value + 2 * (0.16 + written), 1e-9);
}

TEST(Forecast, ASmallWriterIsMovedAlive) {
  const Verdict out = forecast(input(1 * kMega, 4 * kMega));
  ASSERT_EQ(out.strategies.size(), static_cast<std::size_t>(kStrategies));
  ASSERT_TRUE(out.choice);
  EXPECT_EQ(out.sending.strategy, *out.choice);
  EXPECT_LT(of(out, *out.choice).added_job_time_s.value, 1);
  EXPECT_NE(*out.choice, Strategy::StopAndCopy);
  EXPECT_NE(*out.choice, Strategy::CheckpointRestart);
  EXPECT_NE(out.reason.find("added job time"), std::string::npos) << out.reason;
}

TEST(Forecast, ASaturatedWriterIsNotPreCopied) {
  const Verdict out = forecast(input(40 * kMega, 100 * kMega));
  EXPECT_FALSE(of(out, Strategy::PreCopy).converges);
  EXPECT_NE(of(out, Strategy::PreCopy).why_not.find("would not end"), std::string::npos);
  ASSERT_TRUE(out.choice);
  EXPECT_NE(*out.choice, Strategy::PreCopy);
  // No worse than to stop it and send it.
  EXPECT_LE(of(out, *out.choice).added_job_time_s.value,
            of(out, Strategy::StopAndCopy).added_job_time_s.value * 1.03 + 0.05);
}

TEST(Forecast, LeastTrafficTakesTheFewestBytes) {
  ForecastInput in = input(1 * kMega, 30 * kMega);
  in.policy.priority = Priority::LeastTraffic;
  const Verdict out = forecast(in);
  ASSERT_TRUE(out.choice);
  EXPECT_EQ(*out.choice, Strategy::Compressed) << out.reason;
  for (const auto& one : out.strategies) {
    if (one.why_not.empty()) {
      EXPECT_LE(of(out, *out.choice).sent_bytes.value, one.sent_bytes.value * 1.03);
    }
  }
}

/// It writes 9 MB at once, once in a second, and the log began to look at any time between.
TEST(Forecast, AGuestThatWritesInBurstsEndsBetweenTwoOfThem) {
  ForecastInput in = input(0, 0);
  offer_only(in, {Strategy::PreCopy});
  in.profile.cycles.clear();
  for (int i = 0; i < 8; ++i) {
    DirtyCycle cycle;
    for (const double at : {0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 64.0}) {
      const double bytes = at > i / 8.0 ? 9e6 : 0.1e6;
      cycle.points.push_back({micro(at), micro(at), Bytes{static_cast<std::uint64_t>(bytes)}});
    }
    in.profile.cycles.push_back(cycle);
  }
  const auto said = of(forecast(in), Strategy::PreCopy);
  EXPECT_TRUE(said.converges);
  // 150 MB, and mostly some bursts more.
  const double wire_s = 150.0 / 11.77;
  EXPECT_GT(said.total_time_s.low, wire_s);
  EXPECT_LT(said.total_time_s.value, wire_s + 6);
  EXPECT_GT(said.total_time_s.high, wire_s + 3) << "now and then it takes many";
  // Half of the bursts at once: more than fits between any two of them.
  for (auto& cycle : in.profile.cycles) {
    for (auto& point : cycle.points) point.unique = Bytes{90'000'000};
  }
  EXPECT_FALSE(of(forecast(in), Strategy::PreCopy).converges);
}

TEST(Forecast, ByDeadlineCountsTheUpperEnd) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.policy.priority = Priority::ByDeadline;
  offer_only(in, {Strategy::PreCopy, Strategy::Compressed});
  const Verdict free = forecast(in);
  const Estimate plain = of(free, Strategy::PreCopy).total_time_s;
  in.policy.time_limit = Seconds{(plain.value + plain.high) / 2};
  const Verdict tight = forecast(in);
  EXPECT_EQ(*tight.choice, Strategy::Compressed);
  EXPECT_NE(of(tight, Strategy::PreCopy).why_not.find("time limit"), std::string::npos);
  in.policy.time_limit = Seconds{3};
  const Verdict none = forecast(in);
  EXPECT_FALSE(none.choice);
  EXPECT_EQ(none.reason.rfind("Do not move: ", 0), 0U) << none.reason;
}

TEST(Forecast, TheDowntimeLimitIsKept) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.policy.downtime_limit = Milliseconds{200};
  const Verdict out = forecast(in);
  ASSERT_TRUE(out.choice);
  EXPECT_LE(of(out, *out.choice).downtime_s.value, 0.2);
  EXPECT_NE(of(out, Strategy::StopAndCopy).why_not.find("downtime"), std::string::npos);
  in.policy.downtime_limit = Milliseconds{20};
  const Verdict none = forecast(in);
  EXPECT_FALSE(none.choice);
  EXPECT_NE(none.reason.find("20.0 ms"), std::string::npos) << none.reason;
}

TEST(Forecast, AJobsMessagesLeaveTheLinkToAVmThatStandsStill) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.link = {BytesPerSecond{9 * kMega}, Microseconds{400}, Bytes{}, BytesPerSecond{12 * kMega}};
  in.job = JobCoupling{"matmul", 2};
  const auto downtime = [&](Strategy strategy) {
    return of(forecast(in), strategy).downtime_s.model;
  };
  const double stopped = downtime(Strategy::StopAndCopy);
  const double live = of(forecast(in), Strategy::PreCopy).total_time_s.model;
  in.job->ranks = 1;
  EXPECT_NEAR(stopped, downtime(Strategy::StopAndCopy) * 9 / 12, 0.1);
  EXPECT_NEAR(live, of(forecast(in), Strategy::PreCopy).total_time_s.model, 0.1);
}

TEST(Forecast, NothingOfferedIsSaid) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  offer_only(in, {});
  const Verdict out = forecast(in);
  EXPECT_FALSE(out.choice);
  EXPECT_NE(out.reason.find("too old"), std::string::npos) << out.reason;
  in.offers.clear();
  EXPECT_FALSE(forecast(in).choice);
  EXPECT_FALSE(forecast(in).reason.empty());
}

TEST(Forecast, NothingConvergesIsSaid) {
  ForecastInput in = input(40 * kMega, 100 * kMega);
  offer_only(in, {Strategy::PreCopy});
  const Verdict out = forecast(in);
  EXPECT_FALSE(out.choice);
  EXPECT_NE(out.reason.find("would not end"), std::string::npos) << out.reason;
  // With an action at its limit it does end.
  in.policy.time_limit = Seconds{60};
  in.policy.at_limit = LimitAction::StopAndCopy;
  EXPECT_TRUE(forecast(in).choice);
  in.policy.at_limit = LimitAction::Cancel;
  EXPECT_FALSE(forecast(in).choice);
}

TEST(Forecast, ManualTakesWhatWasNamed) {
  ForecastInput in = input(40 * kMega, 100 * kMega);
  in.policy.priority = Priority::Manual;
  EXPECT_FALSE(forecast(in).choice);
  in.policy.strategy = Strategy::PreCopy;
  const Verdict out = forecast(in);
  EXPECT_EQ(out.choice, Strategy::PreCopy);
  EXPECT_NE(out.reason.find("would not end"), std::string::npos) << out.reason;
  offer_only(in, {Strategy::PostCopy});
  EXPECT_FALSE(forecast(in).choice);
}

TEST(Forecast, WithoutALinkNothingMoves) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.link.goodput = BytesPerSecond{0};
  const Verdict out = forecast(in);
  EXPECT_FALSE(out.choice);
  EXPECT_NE(out.reason.find("not measured"), std::string::npos) << out.reason;
}

TEST(Forecast, AnUnwatchedVmIsCalledAGuess) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.profile.cycles.clear();
  const Verdict out = forecast(in);
  EXPECT_NE(out.reason.find("guess"), std::string::npos) << out.reason;
  const Estimate& time = of(out, Strategy::PreCopy).total_time_s;
  EXPECT_GT(time.high - time.low, 0.3 * time.value);
}

TEST(Forecast, AJobThatMayWaitForAClockMayLoseLessByItsLongestWait) {
  ForecastInput in = input(8 * kMega, 20 * kMega);
  const Estimate busy = of(forecast(in), Strategy::StopAndCopy).added_job_time_s;
  for (auto& point : in.profile.cycles.back().points) {
    if (point.wall <= micro(2.0)) point.unique = Bytes{200'000};
  }
  const Estimate still = of(forecast(in), Strategy::StopAndCopy).added_job_time_s;
  EXPECT_DOUBLE_EQ(still.value, busy.value) << "nobody knows whether it waits";
  EXPECT_DOUBLE_EQ(still.high, busy.high);
  // Two seconds less at the low end, beside 1.96 deviations of 30% and 0.15 s.
  const double noise = kTwoSided95 * std::hypot(0.3 * busy.value, 0.15);
  const double below = std::sqrt(std::pow(busy.value - busy.low, 2) - noise * noise);
  EXPECT_NEAR(still.value - still.low, std::hypot(below + 2, noise), 1e-6);
}

RC_GTEST_PROP(Forecast, IntervalsHoldTheirValue, (std::uint64_t seed)) {
  SeededRng rng(seed);
  ForecastInput in = input(50 * kMega * rng.unit(), 1 + 120 * kMega * rng.unit());
  in.link.goodput = BytesPerSecond{(2 + 130 * rng.unit()) * kMega};
  in.policy.priority = static_cast<Priority>(rng.below(4));
  in.policy.strategy = static_cast<Strategy>(rng.below(kStrategies));
  if (rng.chance(0.3)) in.policy.time_limit = Seconds{1 + 100 * rng.unit()};
  if (rng.chance(0.3)) in.policy.bandwidth_limit = BytesPerSecond{(1 + 50 * rng.unit()) * kMega};
  in.policy.at_limit = static_cast<LimitAction>(rng.below(3));
  const Verdict out = forecast(in);
  for (const auto& one : out.strategies) {
    for (const Quantity quantity : kQuantities) {
      const Estimate& estimate = estimate_of(one, quantity);
      RC_ASSERT(std::isfinite(estimate.value));
      RC_ASSERT(std::isfinite(estimate.low) && std::isfinite(estimate.high));
      RC_ASSERT(estimate.value >= 0);
      // What a job lost may be measured as a little less than nothing.
      RC_ASSERT(estimate.low >= 0 || quantity == Quantity::AddedJobTime);
      RC_ASSERT(estimate.low <= estimate.value);
      RC_ASSERT(estimate.value <= estimate.high);
    }
  }
  RC_ASSERT(!out.reason.empty());
  RC_ASSERT(out.choice.has_value() == (out.reason.rfind("Do not move", 0) != 0));
  if (out.choice) {
    RC_ASSERT(of(out, *out.choice).offered);
    RC_ASSERT(out.sending.strategy == *out.choice);
  }
}

}  // namespace
}  // namespace mare::policy
