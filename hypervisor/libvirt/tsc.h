// How fast this machine's time stamp counter runs.
#pragma once

#include "orchestrator/core/clock.h"

namespace mare::libvirt {

/// Thousands of ticks a second, to 0.1%; 0 where there is no such counter, or where nobody lets
/// this thread measure for a moment. Takes 0.1 s.
unsigned long tsc_khz(Clock& clock);

}  // namespace mare::libvirt
