// What a series of echoes says: the longest silence and how much of its clock the guest lost. Pure.
#pragma once

#include <optional>
#include <vector>

#include "hypervisor/guest_port.h"

namespace mare::guestlink {

/// One echo; our monotonic clock, the guest's own (nanoseconds since their own origins).
struct Sample {
  MonotonicTime sent{0};
  MonotonicTime received{0};
  std::chrono::nanoseconds guest{0};
  WallTime received_wall{0};
};

/// Samples in the order of their arrival, and when those were sent that no answer came to, in that
/// order.
///
/// Silence: the longest time until an answer, from the one before it on, or from four periods
/// before the first that was sent since then: while nothing is asked nobody is silent. Clock lost:
/// our elapsed time minus the guest's between two samples, one near each end and on its side of the
/// silence. A sample's two clocks were read at about the middle of its round trip, so each end uses
/// the sample with the least round trip among its 20: the error is half of that trip at most
/// (Cristian, Distributed Computing 3, 1989). Small negative results are noise and given as 0.
ProbeReport evaluate(const std::vector<Sample>& samples,
                     const std::vector<MonotonicTime>& unanswered, int sent, Microseconds period);

}  // namespace mare::guestlink
