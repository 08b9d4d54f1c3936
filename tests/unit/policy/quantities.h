// Quantities as the tests of policies write them: decimal megabytes, seconds as numbers; and a
// guest that several of them are about.
#pragma once

#include <cmath>

#include "orchestrator/core/units.h"
#include "orchestrator/model/forecast.h"

namespace mare::policy {

constexpr double kMega = 1e6;

inline Microseconds micro(double s) {
  return Microseconds{std::llround(s * 1e6)};
}

/// 8 MB each half second, in 20 ms of CPU time; until it strikes again the guest asks what time it
/// is, for a tenth of the CPU. The cycle began so long before the burst.
inline DirtyCycle by_the_clock(double burst) {
  DirtyCycle out;
  for (const double wall : {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0}) {
    const double bursts = wall > burst ? 1 + std::floor((wall - burst) / 0.5) : 0;
    out.points.push_back({micro(wall), micro(0.1 * wall + 0.02 * bursts),
                          Bytes{bursts > 0 ? 8'100'000U : 100'000U}});
  }
  return out;
}

}  // namespace mare::policy
