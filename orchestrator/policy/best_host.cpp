#include "orchestrator/policy/best_host.h"

#include <algorithm>
#include <vector>

namespace mare::policy {

bool try_move(ClusterState& state, NPlusOne& n_plus_one, VmIndex v, HostIndex to) {
  const HostIndex from = state.host_of(v);
  state.move(v, to);
  if (n_plus_one.admit(v, from, to)) return true;
  state.move(v, from);
  return false;
}

Settled settle(ClusterState& state, NPlusOne& n_plus_one, VmIndex v, HostIndex except,
               Prefer prefer) {
  std::vector<std::pair<double, HostIndex>> wanted;  // the most wanted is the smallest
  for (int h = 0; h < state.hosts(); ++h) {
    if (h == except || h == state.host_of(v) || state.obstacle(v, h) != Obstacle::None) continue;
    const double rank = prefer == Prefer::Score ? state.terms_after(v, h).sum()
                                                : static_cast<double>(state.free_memory(h));
    wanted.emplace_back(rank, h);
  }
  std::sort(wanted.begin(), wanted.end());
  Settled out;
  for (const auto& [rank, h] : wanted) {
    if (try_move(state, n_plus_one, v, h)) {
      out.host = h;
      return out;
    }
    ++out.refused_by_n_plus_one;
  }
  return out;
}

}  // namespace mare::policy
