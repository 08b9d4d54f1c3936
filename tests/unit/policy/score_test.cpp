#include "orchestrator/policy/score.h"

#include <gtest/gtest.h>

namespace mare::policy {
namespace {

StrategyForecast said(bool converges, Strategy strategy = Strategy::PreCopy) {
  StrategyForecast out;
  out.strategy = strategy;
  out.converges = converges;
  out.total_time_s = {20, 16, 24, 20};
  return out;
}

constexpr auto kNone = std::nullopt;
constexpr Seconds kTook{21};

TEST(Verdicts, WithoutALimitItEndsOrIsStopped) {
  EXPECT_EQ(score_verdict(said(true), kTook, kNone), VerdictScore::Right);
  EXPECT_EQ(score_verdict(said(false), kTook, kNone), VerdictScore::Wrong);
  EXPECT_EQ(score_verdict(said(true), kNone, Seconds{60}), VerdictScore::Wrong);
  EXPECT_EQ(score_verdict(said(false), kNone, Seconds{60}), VerdictScore::Right);
}

TEST(Verdicts, OneThatWasStoppedBeforeItWasToEndIsNoWrongOne) {
  EXPECT_EQ(score_verdict(said(true), kNone, Seconds{10}), VerdictScore::Right);
}

TEST(Verdicts, WithALimitItIsToEndWithinThat) {
  EXPECT_EQ(score_verdict(said(true), kTook, Seconds{60}), VerdictScore::Right);
  // Forced to its end: that took longer than the limit.
  EXPECT_EQ(score_verdict(said(true), Seconds{61}, Seconds{60}), VerdictScore::Wrong);
  EXPECT_EQ(score_verdict(said(false), Seconds{61}, Seconds{60}), VerdictScore::Right);
  EXPECT_EQ(score_verdict(said(true), Seconds{9}, Seconds{10}), VerdictScore::Wrong)
      << "20 s were said";
  EXPECT_EQ(score_verdict(said(true), Seconds{11}, Seconds{10}), VerdictScore::Right);
}

TEST(Verdicts, WhatTheForecastLeftOpenIsNeither) {
  for (const double limit : {16.0, 20.0, 24.0}) {
    EXPECT_EQ(score_verdict(said(true), kTook, Seconds{limit}), VerdictScore::Open) << limit;
    EXPECT_EQ(score_verdict(said(true), kNone, Seconds{limit}), VerdictScore::Open) << limit;
    // Its figures are of a forced end: they don't matter.
    EXPECT_EQ(score_verdict(said(false), kNone, Seconds{limit}), VerdictScore::Right) << limit;
  }
  for (const bool converges : {true, false}) {
    StrategyForecast unsure = said(converges);
    unsure.end_unsure = true;
    EXPECT_EQ(score_verdict(unsure, kTook, kNone), VerdictScore::Open);
    EXPECT_EQ(score_verdict(unsure, kNone, Seconds{60}), VerdictScore::Open);
  }
}

TEST(Verdicts, OnlyWhatMustConvergeHasOne) {
  for (const auto strategy :
       {Strategy::PostCopy, Strategy::Hybrid, Strategy::StopAndCopy, Strategy::CheckpointRestart}) {
    EXPECT_EQ(score_verdict(said(true, strategy), kTook, kNone), kNone) << to_string(strategy);
  }
  for (const auto strategy :
       {Strategy::PreCopy, Strategy::RateControlled, Strategy::Throttled, Strategy::Compressed}) {
    EXPECT_NE(score_verdict(said(true, strategy), kTook, kNone), kNone) << to_string(strategy);
  }
  EXPECT_EQ(score_verdict(said(true), kNone, kNone), kNone) << "nothing is known of its end";
}

TEST(Verdicts, AreCountedAlsoOfOneStrategy) {
  const std::vector<ScoredVerdict> all{{1, Strategy::PreCopy, VerdictScore::Wrong},
                                       {2, Strategy::Compressed, VerdictScore::Right},
                                       {1, Strategy::PreCopy, VerdictScore::Right},
                                       {1, Strategy::PreCopy, VerdictScore::Open}};
  const VerdictCounts of_all = count_verdicts(all);
  EXPECT_EQ(of_all.right, 2);
  EXPECT_EQ(of_all.wrong, 1);
  EXPECT_EQ(of_all.open, 1);
  const VerdictCounts compressed = count_verdicts(all, Strategy::Compressed);
  EXPECT_EQ(compressed.right, 1);
  EXPECT_EQ(compressed.wrong, 0);
  EXPECT_EQ(compressed.open, 0);
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
