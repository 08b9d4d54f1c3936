// A stand-in for the forecasts: every strategy costs what a test says.
#pragma once

#include "orchestrator/policy/forecast.h"

namespace mare::test {

struct SaidVerdict {
  double move_s = 0.5;  // added job time of a move
  bool movable = true;
  policy::Verdict judge(const policy::ForecastInput& input) const;
};

}  // namespace mare::test
