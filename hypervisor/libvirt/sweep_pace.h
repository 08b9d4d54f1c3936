// How fast a guest sweeps over its memory while it is sent. Its log, which told the period, is
// closed by then, and was not exact (2.1 to 2.8 s of one guest); and who is sent may be slower.
#pragma once

#include <chrono>
#include <optional>

#include "orchestrator/core/clock.h"
#include "orchestrator/model/forecast.h"

namespace mare::libvirt {

/// Where it was, and when.
struct Sighting {
  double place = 0;  // share of what it sweeps, in the order of addresses; 0 to 1
  MonotonicTime at{0};
};

/// Not thread-safe.
class SweepPace {
 public:
  void saw(const Sighting& one, const Sweep& sweep);
  /// As it was told, for a guest that goes at the pace that was seen: with its period, and waits
  /// that take it just as far. Unchanged before it was seen to go an eighth of the way.
  SweepSwitch seen(const SweepSwitch& told) const;

 private:
  std::optional<Sighting> first_;
  Sighting last_;
  double gone_ = 0;  // from the first to the last, times through
};

}  // namespace mare::libvirt
