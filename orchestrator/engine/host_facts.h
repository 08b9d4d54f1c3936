// What a host tells of itself, as its row keeps it.
#pragma once

#include <string>

#include "hypervisor/driver.h"
#include "orchestrator/model/entities.h"

namespace mare::engine {

/// Of a host that is added, or that tells something else after a restart of its agent. With the
/// strategies that come of checkpoints in the directory `checkpoints` ("": there are none).
void take_facts(Host& host, const HostFacts& facts, const std::string& checkpoints);

}  // namespace mare::engine
