// The forwarding table of a Linux bridge.
//
// Why it is here: a frame that the host sends through its own bridge is flooded to every port, and
// the switches behind them learn the VM's MAC from it; but the bridge itself does not learn from
// what its own host sends (br_dev_xmit() looks up, only br_handle_frame_finish() learns). The
// destination's bridge often holds an entry from the days when the VM ran elsewhere: MAC is behind
// the uplink. A frame for the VM that comes in by the uplink would then be dropped, for it is never
// sent back out of the port it came by, until the entry ages (300 s) or the guest speaks. So the
// old entry is forgotten with the first frame; from then on such frames are flooded and reach the
// VM's tap.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"

namespace mare::netarp {

/// Removes what the bridge has learned of `mac` (VLAN-unaware bridges; entries made by hand stay).
/// True if there was something to remove. An interface that is no bridge has nothing to forget.
Result<bool> forget_learned(const std::string& bridge, const MacAddress& mac);

}  // namespace mare::netarp
