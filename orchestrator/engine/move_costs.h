// What forecasts, children of an operation that plans moves, have said so far about single moves.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/context.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/cluster_model.h"

namespace mare::engine {

using MoveRoute = std::pair<VmId, HostId>;  // of a VM, to a host

struct MoveCosts {
  std::map<MoveRoute, StrategyForecast> costs;
  std::map<VmId, std::string> stay;  // had better not move, and why
  std::set<VmId> pending;            // are being forecast
};

Result<MoveCosts> read_move_costs(const store::Reader& reader,
                                  const std::vector<Operation>& children);

/// Tells the cluster: VMs that had better stay are locked, each other costs what the worst forecast
/// of it says.
void apply(const MoveCosts& known, policy::Cluster& cluster);

}  // namespace mare::engine
