#include "orchestrator/policy/crowding.h"

#include <gtest/gtest.h>

#include <vector>

#include "orchestrator/policy/strategy_estimate.h"
#include "tests/unit/policy/forecast_input.h"
#include "tests/unit/policy/quantities.h"

namespace mare::policy {
namespace {

constexpr BytesPerSecond kGigabit{110e6};

/// Of two CPUs.
MemoryProfile busy(double cpus) {
  MemoryProfile out;
  out.total = Bytes{200'000'000};
  out.host_cpus = 2;
  out.busy_cpus = cpus;
  return out;
}

/// A first round of 100 MB that took so long.
ForecastOutcome outcome(double duration_s, Strategy strategy = Strategy::PreCopy) {
  ForecastOutcome out;
  out.strategy = strategy;
  out.first_round = {duration_s, 100e6};
  return out;
}

PastMove move(double usual, std::optional<double> seen, const char* source = "h1") {
  PastMove out;
  out.source = HostId{source};
  out.destination = HostId{"h2"};
  out.usual_unfilled = usual;
  out.unfilled = seen;
  return out;
}

double learned(const std::vector<PastMove>& past, const char* source = "h1") {
  return learn_crowding(past, HostId{source}, HostId{"h2"});
}

TEST(Crowding, ALinkIsLeftWhileAllCpusAreBusyWithOthers) {
  HypervisorCosts costs;
  costs.mover_rate = 220e6;
  // Both are busy in a quarter of the time, and it wants one for half of that, squared.
  EXPECT_DOUBLE_EQ(unfilled_share(1, 2, 110e6, costs), 0.25 * 0.25);
  EXPECT_DOUBLE_EQ(unfilled_share(0, 2, 110e6, costs), 0);
  EXPECT_DOUBLE_EQ(unfilled_share(-0.1, 2, 110e6, costs), 0);
  EXPECT_DOUBLE_EQ(unfilled_share(2, 2, 10e9, costs), 0.9);
  EXPECT_DOUBLE_EQ(unfilled_share(1, 0, 110e6, costs), 0) << "nobody knows of how many";
  EXPECT_LT(unfilled_share(32, 64, 110e6, costs), 1e-9) << "one of many is idle";
}

TEST(Crowding, AGuestThatStandsStillWantsNoCpu) {
  MemoryProfile profile = busy(1);
  profile.cycles = {{WallTime{0}, {{Microseconds{1'000'000}, Microseconds{500'000}, Bytes{0}}}},
                    {WallTime{0}, {}}};
  const HypervisorCosts costs;
  EXPECT_DOUBLE_EQ(usual_unfilled_share(profile, kGigabit, Strategy::Hybrid),
                   unfilled_share(1, 2, kGigabit.value, costs));
  EXPECT_DOUBLE_EQ(usual_unfilled_share(profile, kGigabit, Strategy::StopAndCopy),
                   unfilled_share(0.5, 2, kGigabit.value, costs));
}

TEST(Crowding, AFirstRoundTellsWhatItLeft) {
  const auto seen = [](const ForecastOutcome& outcome, const MovePolicy& policy = {}) {
    return seen_unfilled_share(busy(1), kGigabit, policy, outcome);
  };
  EXPECT_NEAR(*seen(outcome(100 / 55.0)), 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(*seen(outcome(0.5)), 0) << "a link that was measured a little too slow";
  MemoryProfile zeros = busy(1);
  zeros.zero = Bytes{100'000'000};
  const HypervisorCosts costs;
  const double looking_s = 100e6 / costs.zero_scan_rate;
  EXPECT_NEAR(*seen_unfilled_share(zeros, kGigabit, {}, outcome(100 / 55.0 + looking_s)), 0.5,
              1e-9);
}

TEST(Crowding, ARoundThatWasSlowForAnotherReasonTellsNothing) {
  const auto seen = [](const ForecastOutcome& outcome, const MovePolicy& policy = {}) {
    return seen_unfilled_share(busy(1), kGigabit, policy, outcome);
  };
  for (const auto strategy : {Strategy::Compressed, Strategy::RateControlled, Strategy::PostCopy,
                              Strategy::CheckpointRestart}) {
    EXPECT_FALSE(seen(outcome(2, strategy))) << to_string(strategy);
  }
  EXPECT_FALSE(seen(outcome(0.2))) << "short";
  EXPECT_FALSE(seen(ForecastOutcome{})) << "not seen";
  MovePolicy slow;
  slow.bandwidth_limit = BytesPerSecond{50e6};
  EXPECT_FALSE(seen(outcome(2), slow));
  EXPECT_FALSE(seen_unfilled_share(busy(1), BytesPerSecond{0}, {}, outcome(2)));
}

TEST(Crowding, IsLearnedFromCrowdedMoves) {
  EXPECT_DOUBLE_EQ(learned({}), 1);
  EXPECT_DOUBLE_EQ(learned({move(0.1, std::nullopt)}), 1);
  // One of a tenth counts as much as what was known before.
  EXPECT_NEAR(learned({move(0.1, 0.3)}, "h9"), 2, 1e-9);
  // A link that a quiet host does not fill is no matter of its CPUs.
  EXPECT_NEAR(learned({move(0.001, 0.1)}), 1, 0.03);
  const std::vector<PastMove> many(20, move(0.1, 0.25));
  EXPECT_NEAR(learned(many), 2.5, 0.02) << "they outweigh it";
  const std::vector<PastMove> much(20, move(0.1, 0.9));
  EXPECT_DOUBLE_EQ(learned(much), 4) << "something else is wrong";
  const std::vector<PastMove> none(20, move(0.1, 0));
  EXPECT_DOUBLE_EQ(learned(none), 0.25);
}

TEST(Crowding, IsItsHosts) {
  std::vector<PastMove> past(10, move(0.1, 0.1));
  past.insert(past.end(), 10, move(0.1, 0.3, "h7"));
  EXPECT_NEAR(learned(past), 1, 0.15);
  EXPECT_NEAR(learned(past, "h7"), 3, 0.15);
  EXPECT_NEAR(learned(past, "h9"), 2, 0.1) << "of one that nobody knows yet, the mean";
  // Forty newer ones have taken their place.
  past.insert(past.end(), 40, move(0.1, 0.1, "h9"));
  EXPECT_NEAR(learned(past, "h7"), 1, 0.01);
}

TEST(Crowding, AJobsOwnShareOfALinkIsLearnedFromItsMoves) {
  const auto of_job = [](double unfilled, const char* job, double link = 11.77e6) {
    PastMove out = move(0, unfilled);
    out.job = JobId{job};
    out.link_goodput = BytesPerSecond{link};
    return out;
  };
  const JobId job{"job-1"};
  const BytesPerSecond link{11.77e6};
  EXPECT_DOUBLE_EQ(learn_filled_by_job({}, job, link, 1), 1);
  // One move is believed half, three by three quarters.
  EXPECT_NEAR(learn_filled_by_job({of_job(0.2, "job-1")}, job, link, 1), 0.9, 1e-9);
  const std::vector<PastMove> three(3, of_job(0.2, "job-1"));
  EXPECT_NEAR(learn_filled_by_job(three, job, link, 1), 0.85, 1e-9);
  // Nor another job's nor another link's; and who is in none has none.
  EXPECT_DOUBLE_EQ(learn_filled_by_job(three, JobId{"job-2"}, link, 1), 1);
  EXPECT_DOUBLE_EQ(learn_filled_by_job(three, job, kGigabit, 1), 1);
  EXPECT_DOUBLE_EQ(learn_filled_by_job(three, JobId{}, link, 1), 1);
  // What busy CPUs explain is not the job's.
  PastMove crowded = of_job(0.2, "job-1");
  crowded.usual_unfilled = 0.1;
  EXPECT_NEAR(learn_filled_by_job({crowded}, job, link, 2), 1, 1e-9);
}

TEST(Crowding, AJobThatSharesItsLinkIsSaidToTakeLonger) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.job->id = JobId{"job-1"};
  const auto takes = [&in](Strategy strategy) {
    return estimate(Situation(in, HypervisorCosts{}), strategy).replay.total_time_s;
  };
  const double live = takes(Strategy::PreCopy);
  const double lazy = takes(Strategy::PostCopy);
  PastMove before = move(0, 0.2);
  before.job = in.job->id;
  before.link_goodput = in.link.goodput;
  in.past = {before};
  EXPECT_NEAR(takes(Strategy::PreCopy) / live, 1 / 0.9, 0.02);
  EXPECT_NEAR(takes(Strategy::PostCopy) / lazy, 1 / 0.93, 0.02);
}

TEST(Crowding, WhatWasLearnedMakesMovesOnBusyHostsLonger) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  in.link.goodput = kGigabit;
  in.profile.host_cpus = 2;
  const auto first_round_s = [&in](double busy_cpus) {
    in.profile.busy_cpus = busy_cpus;
    const Situation situation(in, HypervisorCosts{});
    return estimate(situation, Strategy::PreCopy).replay.rounds.front().duration_s;
  };
  const double before_s = first_round_s(1);
  const double idle_s = first_round_s(0);
  in.past.assign(20, move(0.1, 0.3));
  for (auto& one : in.past) one.source = in.source, one.destination = in.destination;
  EXPECT_DOUBLE_EQ(first_round_s(0), idle_s);
  EXPECT_GT(first_round_s(1) - idle_s, 2 * (before_s - idle_s));
}

}  // namespace
}  // namespace mare::policy
