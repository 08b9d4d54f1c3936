#include "orchestrator/policy/correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "orchestrator/core/rng.h"
#include "orchestrator/policy/forecast.h"
#include "orchestrator/policy/score.h"
#include "orchestrator/policy/statistics.h"
#include "orchestrator/policy/strategy_estimate.h"
#include "tests/unit/policy/forecast_input.h"
#include "tests/unit/policy/quantities.h"

namespace mare::policy {
namespace {

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

TEST(Learning, ASetUpThatWasHeldAgainstAnotherGuessTeachesNothing) {
  ForecastInput in = input(1 * kMega, 4 * kMega);
  for (int i = 0; i < 12; ++i) in.past.push_back(with_set_up(in, 4));
  in.profile.emulator_start = Microseconds{150'000};
  const auto said = of(forecast(in), Strategy::PostCopy).total_time_s;
  EXPECT_NEAR(said.value, said.model, 1e-6) << "of moves before emulators were timed";
  for (int i = 0; i < 12; ++i) {
    in.past.push_back(with_set_up(in, 2));
    in.past.back().start_timed = true;
  }
  const auto learned = of(forecast(in), Strategy::PostCopy).total_time_s;
  EXPECT_NEAR(learned.value - learned.model, usual_set_up_s(in.profile), 1e-6);
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
  // What a switch costs beside its pages is much the same for all that are live; not more is
  // believed of it than of itself.
  const double of_itself = learn(past, here, Quantity::Downtime, 0.1).offset;
  const double of_others = learn(past, there, Quantity::Downtime, 0.1).offset;
  EXPECT_GT(of_itself, 0);
  EXPECT_GT(of_others, 0);
  EXPECT_LE(of_others, of_itself);
  there.strategy = Strategy::StopAndCopy;
  EXPECT_DOUBLE_EQ(learn(past, there, Quantity::Downtime, 0.1).factor, 1);
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

TEST(Learning, ANoisyMachineWidensWhatIsSaidOfEveryStrategy) {
  // Off by 3 deviations of the table each, up and down: sqrt(0.4^2 + 0.05^2) s of 10.
  const double three = 3 * std::hypot(0.4, 0.05);
  PastMove stop = ten_seconds_longer(input(1 * kMega, 4 * kMega));
  stop.forecast.strategy = Strategy::StopAndCopy;
  stop.forecast.total_time_s = {10, 9, 11, 10};
  stop.total_time_s = 10 + three;
  std::vector<PastMove> past;
  const Place place{HostId{"h8"}, HostId{"h9"}, Strategy::PreCopy, "lu"};
  const auto deviation = [&] { return learn(past, place, Quantity::TotalTime, 10).relative; };
  for (int i = 0; i < 4; ++i) {
    past.push_back(stop);
    stop.total_time_s = 20 - stop.total_time_s;
  }
  EXPECT_DOUBLE_EQ(deviation(), 0.04) << "too few of them to tell";
  past.insert(past.end(), past.begin(), past.begin() + 4);
  // (8 * (3 / 0.6745)^2 + 8 * 1) / (8 + 8) = 10.39
  EXPECT_NEAR(deviation(), 0.04 * std::sqrt(10.391), 1e-5);
  auto tailed = past;
  tailed.insert(tailed.end(), past.begin(), past.end());
  tailed.insert(tailed.end(), past.begin(), past.begin() + 4);
  for (auto& move : tailed) move.total_time_s = 10 + three / 6;
  tailed[3].total_time_s = tailed[13].total_time_s = 10 - 2 * three;
  auto quiet = past;
  for (auto& move : quiet) move.total_time_s = 10.01;
  auto unsure = past;
  for (auto& move : unsure) move.forecast.total_time_s = {10, 5, 15, 10};
  past = tailed;
  // Two of twenty by 6 deviations, (20 * (6 / 1.96)^2 + 8 * 1) / (20 + 8) = 6.979
  EXPECT_NEAR(deviation(), 0.04 * std::sqrt(6.979), 1e-5) << "it has to hold 95 of 100";
  past = quiet;
  EXPECT_DOUBLE_EQ(deviation(), 0.04) << "a quiet one narrows none but its own";
  past = unsure;
  EXPECT_DOUBLE_EQ(deviation(), 0.04) << "what was said to be unsure was no noise";
}

TEST(Learning, OnlyWhatAJobLosesMayBeSaidToBeLessThanNothing) {
  const Place place{HostId{"h8"}, HostId{"h9"}, Strategy::PreCopy, "lu"};
  const auto said = [&](Quantity quantity, double model) {
    return apply(learn({}, place, quantity, model), model, model, model);
  };
  // 1.96 * sqrt((0.3 * 0.1)^2 + 0.15^2) = 0.300
  const Estimate added = said(Quantity::AddedJobTime, 0.1);
  EXPECT_DOUBLE_EQ(added.value, 0.1);
  EXPECT_NEAR(added.low, 0.1 - 0.300, 5e-4);
  EXPECT_NEAR(added.high, 0.1 + 0.300, 5e-4);
  EXPECT_EQ(said(Quantity::Downtime, 0.02).low, 0);
}

}  // namespace
}  // namespace mare::policy
