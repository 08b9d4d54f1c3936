// The best host for one VM, by the score, with N+1 kept.
#pragma once

#include "orchestrator/policy/cluster_state.h"
#include "orchestrator/policy/n_plus_one.h"

namespace mare::policy {

enum class Prefer { Score, Tightest };

struct Settled {
  HostIndex host = kNowhere;
  int refused_by_n_plus_one = 0;
};

/// Moves the VM to the best host that may take it; nothing moves when there is none.
Settled settle(ClusterState& state, NPlusOne& n_plus_one, VmIndex v, HostIndex except,
               Prefer prefer = Prefer::Score);

/// Moves it if N+1 allows; answers whether.
bool try_move(ClusterState& state, NPlusOne& n_plus_one, VmIndex v, HostIndex to);

}  // namespace mare::policy
