// A stand-in for the forecasts: every strategy costs what a test says.
#pragma once

#include <optional>

#include "orchestrator/policy/forecast.h"

namespace mare::test {

/// Every strategy on offer with these figures; none is chosen yet.
policy::Verdict same_for_all(const policy::ForecastInput& input, const StrategyForecast& figures);
/// Chooses; none: "Do not move".
void choose(policy::Verdict& verdict, std::optional<Strategy> choice);

struct SaidVerdict {
  double move_s = 0.5;  // added job time of a move
  bool movable = true;
  policy::Verdict judge(const policy::ForecastInput& input) const;
};

}  // namespace mare::test
