#include "orchestrator/engine/past_moves.h"

#include <gtest/gtest.h>

namespace mare::engine {
namespace {

Migration moved() {
  Migration out;
  out.sending.strategy = Strategy::Compressed;
  out.total_time = Microseconds{2'500'000};
  out.transferred = Bytes{41'000'000};
  out.downtime_guest = Microseconds{90'000};
  return out;
}

Forecast said() {
  Forecast out;
  out.source = HostId{"h1"};
  out.destination = HostId{"h2"};
  out.program = "migtest";
  out.job = JobId{"job-7"};
  for (const auto strategy : {Strategy::PreCopy, Strategy::Compressed}) {
    StrategyForecast one;
    one.strategy = strategy;
    one.offered = true;
    one.total_time_s = {strategy == Strategy::PreCopy ? 9.0 : 2.0, 1, 3, 2};
    out.strategies.push_back(one);
  }
  return out;
}

TEST(PastMoves, WhatCameIsInSecondsAndBytes) {
  const auto outcome = measured_outcome(moved());
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->strategy, Strategy::Compressed);
  EXPECT_DOUBLE_EQ(outcome->total_time_s, 2.5);
  EXPECT_DOUBLE_EQ(outcome->sent_bytes, 41e6);
  EXPECT_EQ(outcome->downtime_s, 0.09);
  EXPECT_EQ(outcome->added_job_time_s, std::nullopt);
}

TEST(PastMoves, TheHypervisorsDowntimeComesFirstAndMayBeUnknown) {
  Migration migration = moved();
  migration.downtime_hypervisor = Microseconds{50'000};
  EXPECT_EQ(measured_outcome(migration)->downtime_s, 0.05);
  migration.downtime_hypervisor.reset();
  migration.downtime_guest.reset();
  EXPECT_EQ(measured_outcome(migration)->downtime_s, std::nullopt);
  migration.total_time.reset();
  EXPECT_FALSE(measured_outcome(migration));
}

TEST(PastMoves, TheSetUpIsWhatWentBeforeTheFirstRoundThatWasSeenToBegin) {
  Migration migration = moved();
  EXPECT_EQ(measured_outcome(migration)->set_up_s, std::nullopt);
  migration.rounds.resize(2);
  migration.rounds[1].started = Microseconds{900'000};
  EXPECT_EQ(measured_outcome(migration)->set_up_s, std::nullopt) << "nobody saw it begin";
  migration.rounds[0].started = Microseconds{250'000};
  EXPECT_EQ(measured_outcome(migration)->set_up_s, 0.25);
  migration.sending.strategy = Strategy::CheckpointRestart;
  EXPECT_EQ(measured_outcome(migration)->set_up_s, std::nullopt) << "that was the file's";
}

TEST(PastMoves, AFirstRoundIsKeptIfItWasSeenToBegin) {
  Migration migration = moved();
  migration.sending.strategy = Strategy::PreCopy;
  EXPECT_EQ(measured_outcome(migration)->first_round, std::nullopt);
  migration.rounds.resize(2);
  migration.rounds[0].duration = Microseconds{1'500'000};
  migration.rounds[0].sent = Bytes{90'000'000};
  EXPECT_EQ(measured_outcome(migration)->first_round, std::nullopt);
  migration.rounds[0].started = Microseconds{250'000};
  EXPECT_EQ(measured_outcome(migration)->first_round, (FirstRound{1.5, 90e6}));

  Forecast forecast = said();
  forecast.outcome = measured_outcome(migration);
  EXPECT_EQ(past_move(forecast)->unfilled, std::nullopt) << "of a link that was not measured";
  forecast.link.goodput = BytesPerSecond{120e6};
  EXPECT_DOUBLE_EQ(past_move(forecast)->unfilled.value_or(-1), 0.5);
  EXPECT_DOUBLE_EQ(past_move(forecast)->usual_unfilled, 0);
  forecast.profile.host_cpus = 2;
  forecast.profile.busy_cpus = 1.5;
  EXPECT_GT(past_move(forecast)->usual_unfilled, 0.1);
}

TEST(PastMoves, AMoveIsHeldAgainstTheStrategyThatItTook) {
  Forecast forecast = said();
  EXPECT_FALSE(past_move(forecast)) << "nothing came of it yet";
  forecast.choice = Strategy::PreCopy;
  forecast.outcome = measured_outcome(moved());
  const auto move = past_move(forecast);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->forecast.strategy, Strategy::Compressed);
  EXPECT_DOUBLE_EQ(move->forecast.total_time_s.value, 2);
  EXPECT_EQ(move->program, "migtest");
  EXPECT_EQ(move->job, JobId{"job-7"});
  EXPECT_EQ(move->source, HostId{"h1"});
  EXPECT_EQ(move->downtime_s, 0.09);
  EXPECT_EQ(move->set_up_s, std::nullopt);
  forecast.outcome->set_up_s = 0.25;
  forecast.profile.busy_cpus = 0;
  const auto idle = past_move(forecast);
  forecast.profile.busy_cpus = 1;
  forecast.profile.host_cpus = 2;
  EXPECT_EQ(past_move(forecast)->set_up_s, 0.25);
  EXPECT_GT(past_move(forecast)->usual_set_up_s, idle->usual_set_up_s);
  EXPECT_FALSE(past_move(forecast)->start_timed);
  forecast.profile.emulator_start = Microseconds{100'000};
  EXPECT_TRUE(past_move(forecast)->start_timed);
}

TEST(PastMoves, AStrategyThatNobodyForecastTeachesNothing) {
  Forecast forecast = said();
  forecast.strategies.pop_back();
  forecast.outcome = measured_outcome(moved());
  EXPECT_TRUE(past_moves({forecast, said()}).empty());
}

}  // namespace
}  // namespace mare::engine
