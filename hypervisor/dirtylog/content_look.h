// How a guest writes, by what some of its pages hold: within seconds and at no cost for it, where
// to arm its log anew would be felt, and where faults would make it look slower than it is. Not
// thread-safe; without a clock of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hypervisor/dirtylog/page_log.h"
#include "hypervisor/dirtylog/page_set.h"
#include "hypervisor/dirtylog/sweep_finder.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/model/forecast.h"

namespace mare::dirtylog {

class ContentLook {
 public:
  /// What its pages hold `at` that time, as many of them at each look.
  void look(ContentReading reading, MonotonicTime at);

  /// Written since the first look, at each one after it, as the samples tell.
  std::vector<DirtyPoint> points() const;
  /// Pages that were, at the last look: of each sample that changed, all that it stands for.
  PageSet written() const;
  /// As a share of each of kHeatRegions.
  std::vector<double> heat() const;
  struct Verdict {
    bool sure = false;  // not: too few steps were seen to tell
    std::optional<SweepSpeed> speed;
  };
  /// Whether it sweeps; `known`: all that it writes, or wrote lately. Looks are to be so near each
  /// other that it does not come half round between two. One that goes all over, or on and off, or
  /// through less than kLeastSwept does not.
  Verdict sweep(const PageSet& known) const;

 private:
  struct Look {
    std::vector<std::uint64_t> sums;
    Microseconds progress{0};
    MonotonicTime at{0};
  };
  struct Chunk;
  std::vector<Chunk> chunks(const std::vector<std::size_t>& which) const;

  std::size_t pages_each_ = 1;
  std::vector<Look> looks_;
};

}  // namespace mare::dirtylog
