// What forecasts are made of, from the simulation's own truth: no watching, no burst, no error.
// The caller holds the world's lock.
#pragma once

#include <string>

#include "hypervisor/sim/world.h"

namespace mare::sim {

/// How the guest writes, as VmModel has it: D(t) = min(rate * t, WWS), t of its progress.
MemoryProfile profile_of(const World& world, const Guest& guest);

/// "simlink://h2/WORD"; good for one burst within 10 s.
std::string open_sink(World& world, const HostId& id, SimHost& host);
/// What a new flow to that sink would get beside the migrations that run now. Takes no time.
Result<LinkMeasurement> send_burst(World& world, const HostId& from, const std::string& uri);

}  // namespace mare::sim
