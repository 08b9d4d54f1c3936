#include "rest/server/accuracy.h"

#include <array>
#include <map>

#include "orchestrator/engine/past_moves.h"
#include "orchestrator/model/names.h"
#include "rest/wire/time.h"

namespace mare::rest {
namespace {

using wire::Json;

constexpr std::array kSplitNames{
    Name<AccuracySplit>{AccuracySplit::None, "none"},
    Name<AccuracySplit>{AccuracySplit::Strategy, "strategy"},
    Name<AccuracySplit>{AccuracySplit::Pair, "pair"},
    Name<AccuracySplit>{AccuracySplit::Program, "program"},
};

AccuracyKey key_of(const Forecast& forecast, Strategy strategy, AccuracySplit split) {
  AccuracyKey out;
  if (split == AccuracySplit::Strategy) out.strategy = to_string(strategy);
  if (split == AccuracySplit::Program) out.program = forecast.program;
  if (split == AccuracySplit::Pair) {
    out.source = forecast.source.value;
    out.destination = forecast.destination.value;
  }
  return out;
}

Json quantity_json(const policy::QuantityScore& score) {
  return Json{{"moves", score.moves},         {"median_error", score.median_error},
              {"p95_error", score.p95_error}, {"median_off", score.median_off},
              {"p95_off", score.p95_off},     {"bias", score.bias},
              {"coverage", score.coverage}};
}

Json group_json(const AccuracyGroup& group) {
  const auto& [key, score, verdicts] = group;
  return Json{
      {"moves", score.moves},
      {"coverage", score.coverage},
      {"total_time_s", quantity_json(score.total_time)},
      {"sent_bytes", quantity_json(score.sent_bytes)},
      {"downtime_s", quantity_json(score.downtime)},
      {"added_job_time_s", quantity_json(score.added_job_time)},
      {"verdicts",
       Json{{"right", verdicts.right}, {"wrong", verdicts.wrong}, {"open", verdicts.open}}}};
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

std::string_view to_string(AccuracySplit split) {
  return name_of(kSplitNames, split);
}
std::optional<AccuracySplit> accuracy_split_from(std::string_view text) {
  return value_of(kSplitNames, text);
}

std::vector<AccuracyGroup> accuracy_of(const std::vector<Forecast>& scored, AccuracySplit split) {
  struct Rows {
    std::vector<policy::PastMove> moves;
    std::vector<ScoredVerdict> verdicts;
  };
  std::map<AccuracyKey, Rows> groups;
  if (split == AccuracySplit::None) groups.try_emplace(AccuracyKey{});
  for (const auto& forecast : scored) {
    if (auto move = engine::past_move(forecast)) {
      const Strategy taken = move->forecast.strategy;
      groups[key_of(forecast, taken, split)].moves.push_back(std::move(*move));
    }
    for (const auto& verdict : forecast.verdicts) {
      groups[key_of(forecast, verdict.strategy, split)].verdicts.push_back(verdict);
    }
  }
  std::vector<AccuracyGroup> out;
  for (const auto& [key, rows] : groups) {
    out.push_back({key, policy::score(rows.moves), policy::count_verdicts(rows.verdicts)});
  }
  return out;
}

Json accuracy_json(std::uint64_t made, const std::vector<Forecast>& scored, AccuracySplit split,
                   WallTime since) {
  Json out = group_json(accuracy_of(scored, AccuracySplit::None).front());
  out["forecasts"] = made;
  out["since"] = wire::time_json(since);
  out["by"] = split == AccuracySplit::None ? Json(nullptr) : Json(to_string(split));
  Json groups = Json::array();
  if (split != AccuracySplit::None) {
    for (const auto& group : accuracy_of(scored, split)) {
      Json one = group_json(group);
      one["strategy"] = text_or_null(group.key.strategy);
      one["source"] = text_or_null(group.key.source);
      one["destination"] = text_or_null(group.key.destination);
      one["program"] = text_or_null(group.key.program);
      groups.push_back(std::move(one));
    }
  }
  out["groups"] = std::move(groups);
  return out;
}

}  // namespace mare::rest
