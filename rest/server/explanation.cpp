#include "rest/server/explanation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "orchestrator/engine/past_moves.h"
#include "orchestrator/policy/choice.h"
#include "orchestrator/policy/correction.h"
#include "orchestrator/policy/strategy_estimate.h"
#include "rest/wire/entities.h"
#include "rest/wire/forecasts.h"
#include "rest/wire/time.h"

namespace mare::rest {
namespace {

using wire::Json;

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.1f%%", share * 100);
  return text.data();
}

}  // namespace

Json figure_json(const Figure& figure, const Estimate& said, const std::optional<double>& actual) {
  Json out{{"name", figure.name}, {"forecast", said.value}, {"low", said.low}, {"high", said.high},
           {"actual", nullptr},   {"error", nullptr},       {"held", nullptr}};
  if (!actual) return out;
  out["actual"] = *actual;
  if (*actual > 0) out["error"] = (said.value - *actual) / *actual;
  out["held"] = said.low <= *actual && *actual <= said.high;
  return out;
}

std::string clause(const Figure& figure, const Estimate& said, double actual) {
  std::string out = std::string(figure.verb) + " " + figure.say(actual) + " where " +
                    figure.say(said.value) + " (" + figure.say(said.low) + " to " +
                    figure.say(said.high) + ") was forecast";
  if (actual > 0) out += ", " + percent((said.value - actual) / actual);
  return out;
}

namespace {

/// What the replay said of each round, uncorrected: the same arithmetic on the same stored input.
std::vector<policy::ReplayRound> replayed(const Forecast& forecast, Strategy strategy) {
  const policy::ForecastInput input = engine::input_of(forecast);
  const policy::Situation situation(input);
  return policy::estimate(situation, strategy).replay.rounds;
}

Json rounds_json(const std::vector<policy::ReplayRound>& said, const std::vector<Round>& came) {
  Json out = Json::array();
  for (std::size_t i = 0; i < std::max(said.size(), came.size()); ++i) {
    Json row{{"index", i}, {"forecast", nullptr}, {"actual", nullptr}};
    if (i < said.size()) {
      row["forecast"] =
          Json{{"duration_ms", said[i].duration_s * 1000}, {"sent_bytes", said[i].sent_bytes}};
    }
    if (i < came.size()) {
      row["actual"] =
          Json{{"duration_ms", wire::to_ms(came[i].duration)}, {"sent_bytes", came[i].sent.count}};
    }
    out.push_back(std::move(row));
  }
  return out;
}

/// "" of a move that did not go through a file.
std::string three_times(const FileMove& file) {
  if (!file.check || !file.trans || !file.restart) return "";
  const auto said = [](Microseconds span) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2f s", Seconds{span}.count());
    return std::string(text.data());
  };
  return " Check took " + said(*file.check) + ", Trans " + said(*file.trans) + ", Restart " +
         said(*file.restart) + ".";
}

std::string sentence(const Migration& migration, const policy::PastMove& move) {
  std::string out = std::string(to_string(migration.sending.strategy));
  int measured = 0;
  int held = 0;
  for (const auto& figure : kFigures) {
    const auto actual = policy::outcome_of(move, figure.quantity);
    if (!actual) continue;
    const Estimate& said = policy::estimate_of(move.forecast, figure.quantity);
    out += (measured == 0 ? " " : "; ") + clause(figure, said, *actual);
    ++measured;
    if (said.low <= *actual && *actual <= said.high) ++held;
  }
  return out + "; " + std::to_string(held) + " of " + std::to_string(measured) +
         " figures lay in their intervals." + three_times(migration.file);
}

/// Where there is nothing to compare.
std::string why_nothing(const std::optional<Operation>& operation,
                        const std::optional<Forecast>& forecast) {
  if (!forecast) return "It began without a forecast.";
  if (operation && !operation->finished()) return "It has not ended: " + forecast->reason;
  return "It did not move its VM" +
         (operation && !operation->reason.empty() ? ": " + operation->reason : std::string()) + ".";
}

}  // namespace

wire::Json explanation(const Migration& migration, const std::optional<Operation>& operation,
                       const std::optional<Forecast>& forecast) {
  Json figures = Json::array();
  std::vector<policy::ReplayRound> said;
  const Strategy strategy = migration.sending.strategy;
  const auto* taken = forecast ? engine::forecast_of(*forecast, strategy) : nullptr;
  const auto move = forecast ? engine::past_move(*forecast) : std::nullopt;
  if (taken != nullptr) {
    said = replayed(*forecast, strategy);
    for (const auto& figure : kFigures) {
      figures.push_back(
          figure_json(figure, policy::estimate_of(*taken, figure.quantity),
                      move ? policy::outcome_of(*move, figure.quantity) : std::nullopt));
    }
  }
  return Json{{"migration", migration.id.value},
              {"vm", migration.vm.value},
              {"source", migration.source.value},
              {"destination", migration.destination.value},
              {"strategy", to_string(strategy)},
              {"outcome", operation ? Json(to_string(operation->outcome)) : Json(nullptr)},
              {"sentence", move ? sentence(migration, *move) : why_nothing(operation, forecast)},
              {"reason", forecast ? Json(forecast->reason) : Json(nullptr)},
              {"figures", std::move(figures)},
              {"rounds", rounds_json(said, migration.rounds)},
              {"earlier", wire::to_json(migration.earlier)},
              {"forecast", forecast ? wire::to_json(*forecast) : Json(nullptr)}};
}

}  // namespace mare::rest
