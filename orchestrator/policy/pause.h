// How long a guest that writes in bursts was seen to write next to nothing.
//
// Each of its rounds may be as long as the one before, and still it may end at any of them: by a
// look at the log in the middle of a burst, which leaves less, and a pause that the shorter round
// after it fits into. Pure.
#pragma once

#include <vector>

#include "orchestrator/model/forecast.h"

namespace mare::policy {

/// The longest time (s, of the clock) in which it wrote at most `bytes` from the beginning of a
/// cycle on, of those that follow on one another up to the newest: those of a look anew do, and a
/// guest may pause over several. It may have begun before, or have gone on. 0: no such pause.
double longest_pause_s(const std::vector<DirtyCycle>& cycles, double bytes);

}  // namespace mare::policy
