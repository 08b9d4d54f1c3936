// What cycles that follow one another saw together. Each tells what was written in a window of its
// own length; all of them, from the first since the log was opened, what was written in one as long
// as they are together. A guest that has just come would else be known for 10 s of its way only,
// however long it is there already, until a longer cycle is over.
//
// Between two cycles the log is armed anew, and what is written meanwhile is seen by neither: that
// time is in no window.
#pragma once

#include <vector>

#include "hypervisor/dirtylog/page_set.h"
#include "orchestrator/model/forecast.h"

namespace mare::dirtylog {

class JoinedCycles {
 public:
  /// Of no longer windows than this.
  explicit JoinedCycles(Microseconds longest) : longest_(longest) {}

  /// The log was opened, and its first cycle begins.
  void begin();
  /// The next cycle begins.
  void next_cycle();
  /// Pages written since the cycle began, so much wall time and progress ago. Ignored without
  /// pages: a log that samples has none.
  void look(const PageSet& written, Microseconds wall, Microseconds progress);
  /// Since the first cycle began, looks of the later ones only, and only where they tell of longer
  /// windows than the look before.
  const std::vector<DirtyPoint>& points() const { return points_; }

 private:
  Microseconds longest_;
  bool first_ = true;
  PageSet before_;  // by the cycles that are over,
  Microseconds wall_before_{0};
  Microseconds progress_before_{0};
  PageSet now_;  // by the last look at the running one
  Microseconds wall_{0};
  Microseconds progress_{0};
  std::vector<DirtyPoint> points_;
};

}  // namespace mare::dirtylog
