// Rules that are not weighed against anything: any one host may fail (N+1), no host gives out more
// than it has, VMs of an anti-affinity group do not share a host.
#pragma once

#include "orchestrator/policy/cluster_state.h"
#include "orchestrator/policy/n_plus_one.h"

namespace mare::policy {

struct BrokenRules {
  int exposed = 0;    // hosts whose failure would leave VMs without a place
  int overfull = 0;   // hosts that give out more memory or vcpus than they may
  int conflicts = 0;  // pairs of an anti-affinity group on one host
  /// How far they are broken: bytes that would be stranded or that hosts lack.
  double bytes = 0;

  int count() const { return exposed + overfull + conflicts; }
};

bool overfull(const ClusterState& state, HostIndex h);
bool in_conflict(const ClusterState& state, VmIndex v);
BrokenRules broken_rules(const ClusterState& state, const NPlusOne& n_plus_one);

}  // namespace mare::policy
