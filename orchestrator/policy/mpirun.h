// The command that starts a job: mpirun in the first VM, one rank a VM.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/core/net.h"

namespace mare::policy {

/// Open MPI's mpirun for one rank on each of `guests`, in their order. Addresses, not names, so
/// that no resolver is needed; TCP only, over the guests' one interface, because a rank must
/// survive a move. `announces`: the job whose ranks announce safe points (docs/checkpoints.md), by
/// a library that comes before what the environment has in LD_PRELOAD; empty: they don't.
std::vector<std::string> mpirun_command(const std::vector<Ipv4Address>& guests,
                                        const std::vector<std::string>& program,
                                        const std::vector<std::string>& environment,
                                        const JobId& announces = {});

}  // namespace mare::policy
