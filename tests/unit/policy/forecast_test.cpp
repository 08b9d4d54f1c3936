#include "orchestrator/policy/forecast.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "orchestrator/core/rng.h"
#include "orchestrator/policy/correction.h"
#include "orchestrator/policy/replay.h"
#include "orchestrator/policy/score.h"
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
  // And what fits into 60, but not into 30.
  ForecastInput between = input(100 * kMega, 1 * kMega);
  offer_only(between, {Strategy::PreCopy});
  EXPECT_EQ(forecast(between).sending.downtime_limit, Milliseconds{60});
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
  EXPECT_DOUBLE_EQ(with_rates_of(in.profile, {}).compress_rate, 1 / (1 / 50e6 + 1 / 1.5e9));
  EXPECT_DOUBLE_EQ(with_rates_of(in.profile, {}).unpack_rate, 250e6) << "nothing is known of it";
  in.profile.unpack_rate = BytesPerSecond{400 * kMega};
  EXPECT_DOUBLE_EQ(with_rates_of(in.profile, {}).unpack_rate, 1 / (1 / 400e6 + 1 / 1.5e9));
  EXPECT_DOUBLE_EQ(with_rates_of(in.profile, {}).unpack_s,
                   0.04 / (1 / (1 / 50e6 + 1 / 1.5e9) / 150e6));
  in.profile.compress_rate = BytesPerSecond{900 * kMega};
  in.profile.unpack_rate = BytesPerSecond{300 * kMega};  // with copies the usual 250
  EXPECT_DOUBLE_EQ(with_rates_of(in.profile, {}).unpack_s, 0.04) << "by the slower of both";
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
    // In live rounds what sends waits for a CPU, too.
    return of(forecast(in), Strategy::StopAndCopy).total_time_s.value;
  };
  EXPECT_NEAR(takes(1) - takes(0), 0.06, 1e-9);
  EXPECT_NEAR(takes(2) - takes(1), 0, 1e-9) << "no more was ever seen";
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
      RC_ASSERT(estimate.low >= 0);
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

/// What the site does in truth: 12% slower than the model, with noise, a switch 40 ms longer.
PastMove moved(const ForecastInput& in, const Verdict& verdict, Strategy strategy, SeededRng& rng) {
  PastMove out;
  out.source = in.source;
  out.destination = in.destination;
  out.program = in.job->program;
  out.forecast = of(verdict, strategy);
  const auto noise = [&rng](double width) { return 1 + width * (rng.unit() + rng.unit() - 1); };
  out.total_time_s = out.forecast.total_time_s.model * 1.12 * noise(0.03);
  out.sent_bytes = out.forecast.sent_bytes.model * noise(0.02);
  out.downtime_s = out.forecast.downtime_s.model + 0.04 * noise(0.2);
  out.added_job_time_s = out.forecast.added_job_time_s.model + 0.06 * noise(0.3);
  return out;
}

TEST(Learning, ErrorsShrinkAndIntervalsHold) {
  SeededRng rng(7);
  std::vector<PastMove> past;
  for (int i = 0; i < 60; ++i) {
    ForecastInput in = input((1 + 3 * rng.unit()) * kMega, (2 + 20 * rng.unit()) * kMega);
    in.past = past;
    past.push_back(moved(in, forecast(in), Strategy::PreCopy, rng));
  }
  const Score first = score({past.begin(), past.begin() + 5});
  const Score last = score({past.begin() + 20, past.end()});
  EXPECT_GT(first.total_time.p95_error, 0.05);
  EXPECT_LT(last.total_time.median_error, 0.015);
  EXPECT_LT(last.total_time.p95_error, 0.035);
  EXPECT_LT(last.downtime.p95_off, 0.02);
  EXPECT_GE(last.coverage, 0.93);
  EXPECT_NEAR(last.total_time.bias, 0, 0.01);
}

/// That said `in`'s forecast of pre-copy, and took 10 s longer.
PastMove ten_seconds_longer(const ForecastInput& in) {
  PastMove out;
  out.source = in.source;
  out.destination = in.destination;
  out.program = "hpl";
  out.forecast = of(forecast(in), Strategy::PreCopy);
  out.total_time_s = out.forecast.total_time_s.model + 10;
  return out;
}

TEST(Learning, AMoveThatWasUnsureTeachesLittle) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  const PastMove sure = ten_seconds_longer(in);
  PastMove unsure = sure;
  unsure.forecast.total_time_s.low = 5;
  unsure.forecast.total_time_s.high = 60;
  const Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  const double model = sure.forecast.total_time_s.model;
  const auto offset = [&](int moves, const PastMove& move) {
    const std::vector<PastMove> past(static_cast<std::size_t>(moves), move);
    return learn(past, place, Quantity::TotalTime, model).offset;
  };
  EXPECT_GT(offset(10, sure), 8);
  EXPECT_LT(offset(10, unsure), 2);
  EXPECT_LT(learn({unsure}, place, Quantity::TotalTime, model).relative, 0.05);
}

TEST(Learning, OneMoveIsNotBelievedTwoThatAgreeALittleAndMoreAreBelieved) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  const PastMove longer = ten_seconds_longer(in);
  const Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  const double model = longer.forecast.total_time_s.model;
  EXPECT_DOUBLE_EQ(learn({longer}, place, Quantity::TotalTime, model).offset, 0);
  const double two = learn({longer, longer}, place, Quantity::TotalTime, model).offset;
  EXPECT_GT(two, 0.1 * model);
  EXPECT_LT(two, 0.3 * model);
  const std::vector<PastMove> twelve(12, longer);
  EXPECT_NEAR(learn(twelve, place, Quantity::TotalTime, model).offset, 10, 1);
}

TEST(Learning, WhatASlowLinkTookMoreIsNotAddedToAFastOne) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  const std::vector<PastMove> past(12, ten_seconds_longer(in));
  const Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  const double model = past.front().forecast.total_time_s.model;
  EXPECT_LT(learn(past, place, Quantity::TotalTime, model / 10).offset, 2);
}

TEST(Learning, WhatAFastLinkTookLessIsNotTakenManyTimesFromASlowOne) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  PastMove shorter = ten_seconds_longer(in);
  auto& said = shorter.forecast.total_time_s;
  said = {1.0, 0.9, 1.1, 1.0};
  shorter.total_time_s = 0.9;
  const std::vector<PastMove> past(12, shorter);
  const Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  EXPECT_NEAR(learn(past, place, Quantity::TotalTime, 1).offset, -0.1, 1e-9);
  EXPECT_NEAR(learn(past, place, Quantity::TotalTime, 20).offset, -0.1, 1e-9);
  EXPECT_GT(learn(past, place, Quantity::TotalTime, 0.1).offset, -0.1) << "scaled down";
}

TEST(Learning, OfWhatDowntimesWereOffByThreeQuartersAreTaken) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  PastMove longer = ten_seconds_longer(in);
  longer.forecast.downtime_s = {0.05, 0.04, 0.06, 0.05};
  longer.downtime_s = 0.07;
  const std::vector<PastMove> past(12, longer);
  const Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  EXPECT_NEAR(learn(past, place, Quantity::Downtime, 0.05).offset, 0.015, 1e-9);
}

TEST(Learning, MovesOfNearlyOneSizeMakeNoSlope) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  const auto move = [&](double said, double came) {
    PastMove out = ten_seconds_longer(in);
    out.forecast.total_time_s = {said, 0.9 * said, 1.1 * said, said};
    out.total_time_s = came;
    return out;
  };
  const Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  const auto factor = [&](const std::vector<PastMove>& past) {
    return learn(past, place, Quantity::TotalTime, 15).factor;
  };
  EXPECT_DOUBLE_EQ(factor({move(1.48, 1.68), move(1.78, 1.63)}), 1);
  EXPECT_GT(factor({move(1, 1.2), move(10, 12), move(20, 24)}), 1.05);
}

TEST(Learning, WhatIsOffByAConstantIsItsLinks) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  PastMove fast = ten_seconds_longer(in);
  fast.link_goodput = BytesPerSecond{117.7 * kMega};
  fast.forecast.total_time_s = {1.0, 0.9, 1.1, 1.0};
  fast.total_time_s = 0.9;
  PastMove slow = fast;
  slow.link_goodput = BytesPerSecond{11.77 * kMega};
  slow.forecast.total_time_s = {10.0, 9.9, 10.1, 10.0};
  slow.total_time_s = 10;
  std::vector<PastMove> past;
  for (int i = 0; i < 6; ++i) past.insert(past.end(), {fast, slow});
  Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  const auto said = [&](double link, double model) {
    place.link_goodput = BytesPerSecond{link};
    const Correction out = learn(past, place, Quantity::TotalTime, model);
    return out.factor * model + out.offset;
  };
  EXPECT_NEAR(said(117.7 * kMega, 1), 0.9, 0.02);
  EXPECT_NEAR(said(100 * kMega, 1), 0.9, 0.02) << "one that is little slower";
  EXPECT_NEAR(said(11.77 * kMega, 10), 10, 0.05);
}

TEST(Learning, WhatAJobLosesBesideAStopDoesNotGrowWithIt) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  PastMove stop = ten_seconds_longer(in);
  stop.forecast.strategy = Strategy::StopAndCopy;
  stop.forecast.added_job_time_s = {1.7, 1.2, 2.2, 1.7};
  stop.added_job_time_s = 2.7;
  const std::vector<PastMove> past(6, stop);
  const auto offset = [&](Strategy strategy, double model) {
    const Place place{in.source, in.destination, strategy, "hpl"};
    return learn(past, place, Quantity::AddedJobTime, model).offset;
  };
  EXPECT_NEAR(offset(Strategy::StopAndCopy, 1.7), 1, 0.01);
  EXPECT_NEAR(offset(Strategy::StopAndCopy, 15), 1, 0.01);
  EXPECT_GT(offset(Strategy::PreCopy, 1.7), 0.5) << "it is the machine's";
  std::vector<PastMove> others = past;
  for (auto& move : others) move.forecast.strategy = Strategy::PostCopy;
  const Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  EXPECT_DOUBLE_EQ(learn(others, place, Quantity::AddedJobTime, 1.7).offset, 0) << "missing pages";
}

TEST(Learning, OneMoveOfTheSameJobIsBelievedHalfWhateverItsHosts) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  PastMove one = ten_seconds_longer(in);
  one.job = JobId{"job-3"};
  one.forecast.strategy = Strategy::PostCopy;
  one.forecast.added_job_time_s = {5, 5, 5, 5};
  one.added_job_time_s = 9;
  one.forecast.sent_bytes = {1e8, 1e8, 1e8, 1e8};
  one.sent_bytes = 1.05e8;
  Place place{HostId{"h8"}, HostId{"h9"}, Strategy::PostCopy, one.program};
  place.job = one.job;
  const auto added = [&](const std::vector<PastMove>& past) {
    return learn(past, place, Quantity::AddedJobTime, 5).offset;
  };
  EXPECT_NEAR(added({one}), 2, 1e-9);
  EXPECT_NEAR(added({one, one}), 4, 1e-9) << "two agree";
  EXPECT_NEAR(learn({one}, place, Quantity::SentBytes, 1e8).factor, std::sqrt(1.05), 1e-9);
  place.job = JobId{"job-4"};
  EXPECT_DOUBLE_EQ(added({one}), 0);
  place.job = one.job;
  place.link_goodput = BytesPerSecond{117e6};
  one.link_goodput = BytesPerSecond{11.7e6};
  EXPECT_DOUBLE_EQ(added({one}), 0) << "over another link";
}

/// Whose set-up took so much longer than usual, and nothing else did.
PastMove with_set_up(const ForecastInput& in, double factor, double noise_s = 0) {
  PastMove out = ten_seconds_longer(in);
  out.usual_set_up_s = usual_set_up_s(in.profile);
  out.set_up_s = factor * out.usual_set_up_s + noise_s;
  out.total_time_s = out.forecast.total_time_s.model + (factor - 1) * out.usual_set_up_s + noise_s;
  return out;
}

TEST(Learning, ASetUpThatWasSeenIsAddedToAnyMoveAsItIs) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  const auto model = of(forecast(in), Strategy::PostCopy).total_time_s;
  for (int i = 0; i < 12; ++i) in.past.push_back(with_set_up(in, 4));
  const double usual = usual_set_up_s(in.profile);
  const auto learned = [&] { return of(forecast(in), Strategy::PostCopy).total_time_s; };
  EXPECT_NEAR(learned().value - model.value, 3 * usual, 1e-6) << "of any strategy";
  EXPECT_DOUBLE_EQ(learned().model, model.model);
  // Over a link that is ten times as fast the set-up takes as long.
  in.link.goodput = BytesPerSecond{10 * in.link.goodput.value};
  const auto fast = of(forecast(in), Strategy::PostCopy).total_time_s;
  EXPECT_NEAR(fast.value - fast.model, 3 * usual, 1e-6);
}

TEST(Learning, ASetUpIsItsHostsAndOneAloneIsNotBelieved) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  const double usual = usual_set_up_s(in.profile);
  const Place here{in.source, in.destination, Strategy::PreCopy, "hpl", usual};
  Place there = here;
  there.source = HostId{"h7"};
  std::vector<PastMove> past{with_set_up(in, 4)};
  EXPECT_DOUBLE_EQ(learn_set_up(past, here).factor, 1);
  for (const double noise_s : {-0.03, -0.03, 0.03, 0.03}) {
    past.push_back(with_set_up(in, 4, noise_s));
  }
  // The median, with the usual one as 1.5 moves before the five; from it they are 0 to 0.06 s off.
  const double factor = 4 - 0.03 / usual;
  EXPECT_NEAR(learn_set_up(past, here).factor, factor, 1e-9);
  EXPECT_NEAR(learn_set_up(past, here).deviation_s, 0.03 / kHalfWithin, 1e-9);
  // Between other hosts it is as there, once some moves tell.
  for (int i = 0; i < 3; ++i) {
    past.push_back(with_set_up(in, 2));
    past.back().source = HostId{"h7"};
  }
  EXPECT_NEAR(learn_set_up(past, here).factor, factor, 1e-9);
  EXPECT_NEAR(learn_set_up(past, there).factor, 2, 1e-9);
}

TEST(Learning, WhatThrottlingTookIsNoOthersMatter) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  std::vector<PastMove> past(12, ten_seconds_longer(in));
  const Place place{in.source, in.destination, Strategy::PostCopy, "hpl"};
  const auto offset = [&] { return learn(past, place, Quantity::TotalTime, 10).offset; };
  EXPECT_GT(offset(), 1);
  for (auto& move : past) move.forecast.strategy = Strategy::Throttled;
  EXPECT_DOUBLE_EQ(offset(), 0);
}

TEST(Learning, RoundsFewerThanSaidTeachNothingOfTheTimeBesideThem) {
  const ForecastInput in = input(1 * kMega, 4 * kMega);
  const BytesPerSecond link{12 * kMega};
  const auto said = [&](double time_s, double bytes, double rounds_fewer_s) {
    PastMove out = ten_seconds_longer(in);
    out.link_goodput = link;
    out.forecast.total_time_s = {time_s, time_s, time_s, time_s};
    out.forecast.sent_bytes = {bytes, bytes, bytes, bytes};
    out.total_time_s = time_s - rounds_fewer_s;
    out.sent_bytes = bytes - rounds_fewer_s * link.value;
    return out;
  };
  Place place{in.source, in.destination, Strategy::PreCopy, "hpl"};
  place.link_goodput = link;
  const std::vector<PastMove> past{said(15, 170 * kMega, 0), said(55, 640 * kMega, 20)};
  const Correction out = learn(past, place, Quantity::TotalTime, 15);
  EXPECT_DOUBLE_EQ(out.factor, 1);
  EXPECT_DOUBLE_EQ(out.offset, 0);
}

TEST(Learning, BytesThatWereLearnedOfTakeTheirTime) {
  const BytesPerSecond link{10 * kMega};
  const Estimate bytes{110 * kMega, 100 * kMega, 120 * kMega, 100 * kMega};
  Correction of_bytes;
  of_bytes.relative = 0.03;
  EXPECT_DOUBLE_EQ(with_bytes({}, of_bytes, bytes, link).offset, 1);
  EXPECT_DOUBLE_EQ(with_bytes({}, of_bytes, bytes, link).absolute, 0) << "as unsure as always";
  of_bytes.relative = 0.1;
  EXPECT_NEAR(with_bytes({}, of_bytes, bytes, link).absolute, 1.05, 0.01);
  EXPECT_DOUBLE_EQ(with_bytes({}, of_bytes, bytes, {}).offset, 0) << "over a link nobody measured";
}

TEST(Learning, StaysWithItsHostsAndOneOutlierDoesNotMoveIt) {
  SeededRng rng(8);
  ForecastInput in = input(2 * kMega, 8 * kMega);
  std::vector<PastMove> past;
  for (int i = 0; i < 20; ++i) past.push_back(moved(in, forecast(in), Strategy::PreCopy, rng));
  past.push_back(past.back());
  past.back().total_time_s *= 3;
  const Place here{in.source, in.destination, Strategy::PreCopy, "hpl"};
  const double model = of(forecast(in), Strategy::PreCopy).total_time_s.model;
  const auto ratio = [&](const Place& place) {
    const auto known = learn(past, place, Quantity::TotalTime, model);
    return known.factor + known.offset / model;
  };
  EXPECT_NEAR(ratio(here), 1.12, 0.02);
  Place there = here;
  there.strategy = Strategy::PostCopy;
  EXPECT_DOUBLE_EQ(learn(past, there, Quantity::SentBytes, 1e8).factor, 1);
  EXPECT_DOUBLE_EQ(learn(past, there, Quantity::Downtime, 0.1).offset, 0);
  // Another pair, which was right so far, learns less from these.
  for (int i = 0; i < 5; ++i) {
    past.push_back(moved(in, forecast(in), Strategy::PreCopy, rng));
    past.back().source = HostId{"h7"};
    past.back().total_time_s = past.back().forecast.total_time_s.model;
  }
  Place other = here;
  other.source = HostId{"h7"};
  EXPECT_LT(ratio(other), 1.05);
  EXPECT_GT(ratio(here), 1.09);
}

TEST(Score, ByHand) {
  const auto move = [](double said, double low, double high, double actual) {
    PastMove out;
    out.forecast.total_time_s = {said, low, high, said};
    out.total_time_s = actual;
    return out;
  };
  std::vector<PastMove> moves{move(11, 9, 12, 10), move(10, 9.5, 10.5, 10), move(8, 7, 9, 10)};
  moves[2].added_job_time_s = 1;
  PastMove endless = move(1, 1, 1, 100);
  endless.forecast.converges = false;
  moves.push_back(endless);
  const QuantityScore out = score(moves, Quantity::TotalTime);
  EXPECT_EQ(out.moves, 3);
  EXPECT_NEAR(out.median_error, 0.1, 1e-9);
  EXPECT_NEAR(out.p95_off, 1.9, 1e-9);
  EXPECT_NEAR(out.bias, 0, 1e-9);
  EXPECT_NEAR(out.coverage, 2.0 / 3, 1e-9);
  EXPECT_EQ(score(moves, Quantity::AddedJobTime).moves, 1);
  EXPECT_EQ(score(moves).moves, 3);
  EXPECT_EQ(score({}).moves, 0);
  EXPECT_DOUBLE_EQ(score({}).coverage, 0);
}

}  // namespace
}  // namespace mare::policy
