// How much of a CPU a piece of work takes, whatever else runs.
#pragma once

#include <chrono>

namespace mare {

/// CPU time of the calling thread since it began, exact to the microsecond or so. (getrusage()
/// tells it as of the last tick, milliseconds ago.)
std::chrono::nanoseconds thread_cpu_time();

}  // namespace mare
