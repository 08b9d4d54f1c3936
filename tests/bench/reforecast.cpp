// mare-reforecast DATABASE: today's models on the moves of another day.
//
// Every move that mared forecast is in its database with what was known before it and what came of
// it. Each is forecast anew, oldest first, by the knobs that it was made with, and learned from
// before the next. Prints one JSON object: for each quantity the errors of what was said then, of
// the new forecast, and of the model without what was learned; the rounds that the model plays
// through; what would be said of moves that did not end; what would be chosen today for each
// forecast that was made there, with a move or without, and how long that takes to compute.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/engine/past_moves.h"
#include "orchestrator/policy/forecast.h"
#include "orchestrator/policy/score.h"
#include "orchestrator/policy/strategy_estimate.h"
#include "orchestrator/store/store.h"

namespace mare::bench {
namespace {

constexpr std::size_t kMostMoves = 10'000;

struct Moved {
  Forecast then;
  policy::PastMove said;   // on that day
  policy::PastMove anew;   // by today's models, corrected by those before it
  policy::PastMove alone;  // by today's models, uncorrected
  policy::Replay replay;   // the middle one
};

void drop_correction(StrategyForecast& forecast) {
  for (auto* one : {&forecast.total_time_s, &forecast.sent_bytes, &forecast.downtime_s,
                    &forecast.added_job_time_s}) {
    one->value = one->model;
  }
}

std::vector<Moved> forecast_anew(const std::vector<Forecast>& moves) {
  std::vector<Moved> out;
  std::vector<policy::PastMove> past;
  for (const auto& then : moves) {
    auto said = engine::past_move(then);
    if (!said) continue;
    Moved row{then, *said, *said, *said, {}};
    Sending sending = then.sending;
    sending.strategy = then.outcome->strategy;
    policy::ForecastInput input = engine::input_of(then);
    input.past = past;
    auto estimate = policy::estimate(policy::Situation(input), sending);
    row.anew.forecast = estimate.forecast;
    row.replay = std::move(estimate.replay);
    row.alone.forecast = row.anew.forecast;
    drop_correction(row.alone.forecast);
    past.push_back(row.anew);
    out.push_back(std::move(row));
  }
  return out;
}

nlohmann::json json_of(const policy::QuantityScore& score) {
  return {{"moves", score.moves},         {"median_error", score.median_error},
          {"p95_error", score.p95_error}, {"median_off", score.median_off},
          {"p95_off", score.p95_off},     {"bias", score.bias},
          {"coverage", score.coverage}};
}

nlohmann::json scores_of(const std::vector<Moved>& rows, policy::PastMove Moved::*which) {
  std::vector<policy::PastMove> moves;
  for (const auto& row : rows) moves.push_back(row.*which);
  const policy::Score score = policy::score(moves);
  return {{"total_time", json_of(score.total_time)},
          {"sent_bytes", json_of(score.sent_bytes)},
          {"downtime", json_of(score.downtime)},
          {"added_job_time", json_of(score.added_job_time)},
          {"coverage", score.coverage}};
}

nlohmann::json values_of(const Moved& row, policy::Quantity quantity) {
  const auto actual = policy::outcome_of(row.said, quantity);
  const Estimate& anew = policy::estimate_of(row.anew.forecast, quantity);
  return {{"actual", actual ? nlohmann::json(*actual) : nlohmann::json()},
          {"then", policy::estimate_of(row.said.forecast, quantity).value},
          {"now", anew.value},
          {"low", anew.low},
          {"high", anew.high},
          {"model", anew.model}};
}

nlohmann::json rounds_of(const policy::Replay& replay) {
  auto out = nlohmann::json::array();
  for (const auto& round : replay.rounds) {
    out.push_back({{"began_s", round.began_s},
                   {"duration_s", round.duration_s},
                   {"sent_bytes", round.sent_bytes},
                   {"left_bytes", round.left_bytes},
                   {"throttle", round.throttle}});
  }
  return out;
}

nlohmann::json row_of(const Moved& row) {
  return {{"operation", row.then.id.value},
          {"vm", row.then.vm.value},
          {"strategy", std::string(to_string(row.said.forecast.strategy))},
          {"program", row.then.program},
          {"link_bytes_per_s", row.then.link.goodput.value},
          {"converges", row.anew.forecast.converges},
          {"end_unsure", row.anew.forecast.end_unsure},
          {"total_time_s", values_of(row, policy::Quantity::TotalTime)},
          {"sent_bytes", values_of(row, policy::Quantity::SentBytes)},
          {"downtime_s", values_of(row, policy::Quantity::Downtime)},
          {"added_job_time_s", values_of(row, policy::Quantity::AddedJobTime)},
          {"rounds", rounds_of(row.replay)}};
}

/// Moves that did not end by themselves, and whether that would be said today.
nlohmann::json without_end(const std::vector<Forecast>& made) {
  auto out = nlohmann::json::array();
  for (const auto& one : made) {
    if (one.outcome || one.verdicts.empty()) continue;
    Sending sending = one.sending;
    sending.strategy = one.verdicts.front().strategy;
    const auto now = policy::estimate(policy::Situation(engine::input_of(one)), sending).forecast;
    out.push_back(
        {{"operation", one.id.value},
         {"program", one.program},
         {"strategy", std::string(to_string(sending.strategy))},
         {"said_then", std::string(to_string(one.verdicts.front().score))},
         {"converges", now.converges},
         {"end_unsure", now.end_unsure},
         {"total_time_s", {now.total_time_s.low, now.total_time_s.value, now.total_time_s.high}}});
  }
  return out;
}

/// What was chosen and what would be, with the seconds that each strategy is said to cost the job.
nlohmann::json choice_of(const Forecast& then, const policy::Verdict& now) {
  const auto name = [](const std::optional<Strategy>& choice) {
    return choice ? nlohmann::json(std::string(to_string(*choice))) : nlohmann::json();
  };
  auto added = nlohmann::json::object();
  for (const auto& one : now.strategies) {
    if (one.offered) added[std::string(to_string(one.strategy))] = one.added_job_time_s.value;
  }
  return {{"operation", then.id.value}, {"program", then.program},
          {"then", name(then.choice)},  {"now", name(now.choice)},
          {"reason", now.reason},       {"added_job_time_s", std::move(added)}};
}

/// The whole table, as before any move: what it says, and milliseconds.
void forecast_all(const std::vector<Forecast>& made, nlohmann::json& result) {
  SystemClock clock;
  std::vector<double> out;
  auto choices = nlohmann::json::array();
  for (const auto& one : made) {
    policy::ForecastInput input = engine::input_of(one);
    for (const auto& strategy : one.strategies) {
      input.offers.push_back({strategy.strategy, strategy.offered, strategy.why_not});
    }
    const auto began = clock.now();
    const auto verdict = policy::forecast(input);
    const auto took = clock.now() - began;
    if (verdict.strategies.empty()) continue;
    out.push_back(std::chrono::duration<double, std::milli>(took).count());
    choices.push_back(choice_of(one, verdict));
  }
  std::sort(out.begin(), out.end());
  result["choices"] = std::move(choices);
  result["forecast_ms"] = {{"count", out.size()}};
  if (out.empty()) return;
  result["forecast_ms"]["median"] = out[out.size() / 2];
  result["forecast_ms"]["max"] = out.back();
}

int run(const std::string& database, bool emulated) {
  auto store = store::Store::open(database);
  if (!store) {
    std::cerr << "mare-reforecast: " << store.error().text() << '\n';
    return 1;
  }
  std::vector<Forecast> moves;
  std::vector<Forecast> made;
  auto read = (*store)->read([&](const store::Reader& reader) -> Status {
    auto found = reader.past_moves(kMostMoves);
    if (!found) return found.error();
    moves = std::move(*found);
    auto vms = reader.vms();
    if (!vms) return vms.error();
    // A VM that is no more, or was not packed, has its moves still.
    std::set<std::string> ids;
    for (const auto& vm : *vms) ids.insert(vm.id.value);
    for (const auto& move : moves) ids.insert(move.vm.value);
    for (const auto& id : ids) {
      auto some = reader.forecasts(VmId{id}, kMostMoves);
      if (!some) return some.error();
      made.insert(made.end(), some->begin(), some->end());
    }
    for (auto& move : moves) {
      move.profile.emulated = move.profile.emulated || emulated;
      // Older databases have it in the migration alone.
      const auto migration = reader.migration(move.id);
      const auto measured = migration ? engine::measured_outcome(*migration) : std::nullopt;
      if (move.outcome && !move.outcome->first_round && measured)
        move.outcome->first_round = measured->first_round;
    }
    return ok_status();
  });
  if (!read) {
    std::cerr << "mare-reforecast: " << read.error().text() << '\n';
    return 1;
  }
  const auto rows = forecast_anew(moves);
  nlohmann::json out{{"moves", rows.size()},
                     {"said_then", scores_of(rows, &Moved::said)},
                     {"now", scores_of(rows, &Moved::anew)},
                     {"model_alone", scores_of(rows, &Moved::alone)},
                     {"without_end", without_end(made)},
                     {"rows", nlohmann::json::array()}};
  forecast_all(made, out);
  for (const auto& row : rows) out["rows"].push_back(row_of(row));
  std::cout << out.dump(2) << '\n';
  return 0;
}

}  // namespace
}  // namespace mare::bench

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool emulated = !words.empty() && words.front() == "--emulated";
  if (emulated) words.erase(words.begin());
  const bool help = !words.empty() && (words.front() == "--help" || words.front() == "-h");
  if (words.size() != 1 || help) {
    (help ? std::cout : std::cerr)
        << "usage: mare-reforecast [--emulated] DATABASE\nToday's forecasts of the moves that a "
           "copy "
           "of a mared's database (mare.db) tells of, beside what was said\nthen and what came. "
           "Prints one JSON object. A database of an older version is brought up to date; "
           "--emulated: its\nhosts emulated their guests (newer databases say so themselves).\n";
    return help ? 0 : 2;
  }
  return mare::bench::run(words.front(), emulated);
}
