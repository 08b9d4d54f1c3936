#include "orchestrator/policy/hard_rules.h"

#include <algorithm>

namespace mare::policy {

bool overfull(const ClusterState& state, HostIndex h) {
  if (!state.usable(h)) return false;
  const double most = state.policy().max_vcpus_per_cpu;
  return state.free_memory(h) < 0 || (most > 0 && state.vcpu_ratio(h) > most + 1e-9);
}

bool in_conflict(const ClusterState& state, VmIndex v) {
  const int group = state.anti_group(v);
  const HostIndex h = state.host_of(v);
  return group != kNowhere && h != kNowhere && state.anti_members_on(group, h) > 1;
}

BrokenRules broken_rules(const ClusterState& state, const NPlusOne& n_plus_one) {
  BrokenRules out;
  out.exposed = n_plus_one.exposed_hosts();
  out.bytes = static_cast<double>(n_plus_one.stranded_bytes());
  for (int h = 0; h < state.hosts(); ++h) {
    if (!overfull(state, h)) continue;
    ++out.overfull;
    out.bytes += static_cast<double>(std::max<std::int64_t>(0, -state.free_memory(h)));
  }
  int others = 0;  // each pair is seen from both sides
  for (int v = 0; v < state.vms(); ++v) {
    if (in_conflict(state, v)) {
      others += state.anti_members_on(state.anti_group(v), state.host_of(v)) - 1;
    }
  }
  out.conflicts = others / 2;
  return out;
}

}  // namespace mare::policy
