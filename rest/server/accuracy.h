// How good the forecasts were, for REST and for /metrics: of all of them, or split. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/score.h"
#include "rest/wire/json.h"

namespace mare::rest {

enum class AccuracySplit { None, Strategy, Pair, Program };
std::string_view to_string(AccuracySplit split);  // "none", "strategy", "pair", "program"
std::optional<AccuracySplit> accuracy_split_from(std::string_view text);

/// What the moves of a group have in common; "" for what the split is not by, and for the program
/// of VMs that had no job.
struct AccuracyKey {
  std::string strategy;
  std::string source;
  std::string destination;
  std::string program;
  auto operator<=>(const AccuracyKey&) const = default;
};
struct AccuracyGroup {
  AccuracyKey key;
  policy::Score score;
  policy::VerdictCounts verdicts;
};

/// In order of their keys; without a split always one. By strategy a move's figures count for the
/// one that was taken, each verdict for that of its own sending.
std::vector<AccuracyGroup> accuracy_of(const std::vector<Forecast>& scored, AccuracySplit split);

/// `made`: how many forecasts there are. `since`: 0 is all time.
wire::Json accuracy_json(std::uint64_t made, const std::vector<Forecast>& scored,
                         AccuracySplit split, WallTime since);

}  // namespace mare::rest
