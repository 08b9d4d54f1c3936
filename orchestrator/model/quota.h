// What the pools of one project may have together. A project is a name that pools bear: it begins
// with its first pool or its quota. Values only.
#pragma once

#include <optional>

#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"

namespace mare {

inline constexpr const char* kDefaultProject = "default";

/// None: no limit.
struct Quota {
  ProjectId project;
  std::optional<int> vms = {};       // that run or not
  std::optional<Bytes> memory = {};  // of these VMs, without what a host adds to each
  std::optional<int> hosts = {};     // on which VMs of it may be placed at the same time
};

}  // namespace mare
