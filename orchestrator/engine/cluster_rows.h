// The cluster as the planner reads it, from the rows.
#pragma once

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/cluster_model.h"

namespace mare::engine {

/// Every host, and every VM that has one. Locked are VMs that do not run, that an operation holds,
/// or whose host does not answer; hosts are as full as running operations will make them. Pools
/// that are limited to some hosts, and hosts that encrypt migrations, are told by tags.
Result<policy::Cluster> read_cluster(const store::Reader& reader);

}  // namespace mare::engine
