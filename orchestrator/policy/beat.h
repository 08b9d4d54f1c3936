// Guests that write in bursts of seconds, one each period: what a round finds written depends on
// where in its beat the guest is then, and the newest cycles of the dirty-page log tell that.
#pragma once

#include <cstddef>
#include <vector>

#include "orchestrator/model/forecast.h"

namespace mare::policy {

struct Beat {
  double period_s = 1;  // wall time from the beginning of a burst to that of the next one
  double burst_s = 0;   // how long one lasts, less than the period
  double fill_s = 0;    // time of bursts in which all that they write is written once
  double bytes = 0;     // that: the same pages in each
  double since_s = 0;   // from the last beginning until the profile was taken, 0 to the period

  /// Unique bytes that bursts write between two moments, in s after the profile was taken (before:
  /// negative).
  double written(double from_s, double to_s) const;
};

/// Beats that the cycles speak for, so many, drawn by how well each explains what was seen: they
/// differ by as much as that leaves open. Empty where no beat tells clearly more of the cycles than
/// their middle does, where fewer than four are new enough, and where the last one ended more than
/// a second before the profile was taken. The same profile gives the same beats.
std::vector<Beat> plausible_beats(const MemoryProfile& profile, std::size_t count);

}  // namespace mare::policy
