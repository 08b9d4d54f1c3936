// What the planner reads: a cluster as plain values, and what is wished of it. No rows, no I/O: the
// engine makes it of its rows, `mare plan` of a file, tests by hand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"

namespace mare::policy {

struct ClusterHost {
  HostId id;
  Bytes memory;       // for VMs
  Bytes vm_overhead;  // added to each VM's memory on this host
  double cpus = 1;
  bool usable = true;  // may take VMs: active and up
  std::vector<std::string> tags;
};

/// The forecast of moving one VM.
struct MoveCost {
  double added_job_time_s = 0;
  double bytes = 0;
};

struct ClusterVm {
  VmId id;
  Bytes memory;
  double vcpus = 1;
  std::optional<HostId> host;  // none: it is to be placed
  std::optional<JobId> job;
  std::vector<std::string> needs;  // tags that its host must have
  std::string affinity;            // VMs of one group like to share a host; "" none
  std::string anti_affinity;       // VMs of one group must not share a host; "" none
  bool locked = false;             // may not move now
  bool by_rule_only = false;       // moves where a hard rule is broken, not to even out
  /// cpus that it uses or waits for (used + stolen), measured. Without a figure a VM with a rank
  /// counts with all its vcpus, since a waiting rank polls, and one without counts with none.
  std::optional<double> cpu_demand;
  MoveCost cost;
};

struct VmTraffic {
  VmId a;
  VmId b;
  double bytes_per_s = 0;  // both directions together
};

struct Cluster {
  std::vector<ClusterHost> hosts;
  std::vector<ClusterVm> vms;
  std::vector<VmTraffic> traffic;
};

/// Of the terms of the score, each of which is about 0 to 1.
struct ScoreWeights {
  double memory = 1;       // standard deviation over hosts: share of memory in use
  double vcpus = 1;        // the same: vcpus for each cpu
  double demand = 1;       // the same: cpu demand for each cpu
  double stall = 2;        // mean over hosts: cpu demand above what the host has, in its cpus
  double traffic = 0.5;    // share of the bytes that go between hosts
  double affinity = 2;     // share of the pairs that should share a host and do not
  double conflict = 4;     // share of the pairs that should not share a host and do
  double n_plus_one = 10;  // share of the hosts whose failure would leave a VM without a place
};

struct PlanPolicy {
  bool n_plus_one = true;        // any one host may fail and its VMs fit on the others
  double max_vcpus_per_cpu = 0;  // 0: no limit
  ScoreWeights weights;
  double threshold = 0.01;  // below this score nothing is worth computing
  double margin = 0.05;     // a plan must take away this share of the score
  /// What a move must take from the score, times the number of hosts (the gain of one move shrinks
  /// as the cluster grows). To it comes the move's cost: added job time as a share of `horizon_s`.
  double min_gain = 0.01;
  double horizon_s = 3600;  // how long the new balance is expected to last
  int max_moves = 0;        // 0: no cap
  /// Two moves that only together help. Without them every prefix of a plan is an improvement, and
  /// no VM moves twice.
  bool exchanges = true;
};

}  // namespace mare::policy
