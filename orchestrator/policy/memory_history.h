// How a VM wrote its memory, cycle by cycle of its dirty-page log. Pure.
#pragma once

#include <vector>

#include "orchestrator/core/units.h"
#include "orchestrator/model/forecast.h"

namespace mare::policy {

/// What one cycle of the log saw.
struct MemoryMoment {
  WallTime began{0};
  Seconds seen_for{0};  // wall time, at least kShortestSeen
  double wws_bytes = 0;
  bool flattens = false;         // else its WWS still grew at the cycle's end
  double dirty_bytes_per_s = 0;  // in its first second
};

/// Shorter cycles (the glances before a forecast, one that has just begun) tell of no WWS.
inline constexpr Seconds kShortestSeen{5};

/// Of each cycle that lasted that long, oldest first.
std::vector<MemoryMoment> memory_history(const MemoryProfile& profile);

}  // namespace mare::policy
