// What a cycle of the log would have seen of the same guest if nobody had watched it.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "orchestrator/model/forecast.h"

namespace mare::dirtylog {

/// Takes out of each point what the faults until then took: `first_write` for each page, of the
/// vCPUs' time, and of the wall time as far as the guest had none to spare. Without that a guest
/// that writes 65,000 pages a second, where a fault takes 15 us, looks half as quick as it is.
/// `granted`: of the CPU time that its `vcpus` wanted, 0 to 1. Pure.
std::vector<DirtyPoint> without_faults(std::vector<DirtyPoint> points,
                                       std::chrono::nanoseconds first_write, double granted,
                                       std::size_t vcpus);

}  // namespace mare::dirtylog
