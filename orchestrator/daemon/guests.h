// Guests of real hosts and of simulated ones behind one port.
#pragma once

#include <memory>

#include "hypervisor/guest_port.h"
#include "orchestrator/core/log.h"
#include "orchestrator/daemon/driver_directory.h"

namespace mare::daemon {

/// A guest whose VM a simulated host knows is answered by the simulator, any other over the
/// network.
std::unique_ptr<GuestPort> make_guests(Clock& clock, Log& log, Drivers& drivers);

}  // namespace mare::daemon
