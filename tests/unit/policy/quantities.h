// Quantities as the tests of policies write them: decimal megabytes, seconds as numbers.
#pragma once

#include <cmath>

#include "orchestrator/core/units.h"

namespace mare::policy {

constexpr double kMega = 1e6;

inline Microseconds micro(double s) {
  return Microseconds{std::llround(s * 1e6)};
}

}  // namespace mare::policy
