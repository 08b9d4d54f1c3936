// What the quotas of control groups let threads have of the CPUs. Linux only.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "orchestrator/core/units.h"

namespace mare::dirtylog {

struct CpuQuota {
  double cpus = 0;         // CPU time a second; 0: there is no quota
  Microseconds period{0};  // it is given out anew so often
};

/// Of these threads together, by the tightest quota above each (cgroup version 1 or 2); threads
/// under the same one share it. None if one of them has none, or where it can't be read. `root` is
/// put before every path.
CpuQuota cpu_quota_of(const std::vector<pid_t>& threads, const std::string& root = "");

}  // namespace mare::dirtylog
