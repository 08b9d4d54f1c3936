// What can be asked of the engine, as values. REST makes them, submit checks them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/checkpoint.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/model/quota.h"
#include "orchestrator/model/rebalancing.h"
#include "orchestrator/policy/job_layout.h"

namespace mare::engine {

struct HostAddRequest {
  HostId id;
  std::string address;  // "10.77.0.11:7412" or "sim:///h1?memory_mib=4096"
};
struct HostRemoveRequest {
  HostId id;
};
/// Moves every VM away and takes no new ones.
struct HostDrainRequest {
  HostId id;
  PolicyChange policy = {};  // of its moves, against their pools'
};
/// The host fails so long from now: VMs move away, jobs that can't are saved by checkpoints.
struct EvacuateRequest {
  HostId id;
  Seconds within{60};       // 1 s to a day
  std::string reason = {};  // kept with it: who says so
};
/// What of that would be done.
struct EvacuationForecastRequest {
  HostId id;
  Seconds within{60};
};
struct PoolCreateRequest {
  PoolId id;
  std::string image = "base";
  int size = 1;
  Bytes memory = mebibytes(192);
  int vcpus = 1;
  std::vector<HostId> hosts;      // placement limited to these; empty: all
  PolicyChange move_policy = {};  // against the default
  ProjectId project{kDefaultProject};
};
/// Makes it larger or smaller. VMs that run ranks are never taken.
struct PoolScaleRequest {
  PoolId id;
  int size = 1;
  bool best_effort = false;  // as near as can be; otherwise all or nothing
  std::string cause = {};    // kept with it: why a rule asked for it
};
struct PoolDeleteRequest {
  PoolId id;
  bool force = false;  // cancel its jobs first; otherwise refuse while jobs run
};
struct VmStartRequest {
  VmId id;
  std::optional<HostId> host;  // none: placement decides
};
struct VmStopRequest {
  VmId id;
  bool force = false;  // do not ask the guest first; also while a job runs on it
};
struct MigrateRequest {
  VmId vm;
  std::optional<HostId> destination;  // none: placement decides
  PolicyChange policy;                // against the pool's
  Seconds timeout{600};               // then it is cancelled and the VM stays at the source
  bool force = false;                 // also when the forecast says that it had better not move
  Timing timing = {};
};
/// What a migration would cost.
struct ForecastRequest {
  VmId vm;
  std::optional<HostId> destination;  // none: placement decides
  PolicyChange policy;                // against the pool's
  Timing timing = {};                 // a trough: what it would cost then
};
/// What a drain would cost.
struct DrainForecastRequest {
  HostId id;
  PolicyChange policy = {};  // of its moves, against their pools'
};
/// Where the VMs of a running job had better be.
struct LayoutWish {
  policy::Layout layout = policy::Layout::Spread;
  int hosts = 0;                          // on how many at most; 0: as is best
  std::optional<Seconds> remaining = {};  // of the job, if the user knows it
  bool force = false;                     // also when the job loses by it
  std::string cause = {};                 // kept with it: why nobody had to ask for it
};
/// What that would cost, and whether it is worth it. Nothing moves.
struct LayoutForecastRequest {
  JobId job;
  LayoutWish wish = {};
};
/// Moves them there, if it is worth it.
struct LayoutChangeRequest {
  JobId job;
  LayoutWish wish = {};
};
/// What a rebalancing goes by: of the setting, when it was asked for.
struct RebalanceWish {
  bool by_rule_only = false;  // only what hard rules need
  double margin = 0.05;
  int max_moves = 4;
  Seconds rest{600};
  std::map<PoolId, RebalanceMode> pools = {};
  std::string cause = {};  // kept with it: why nobody had to ask for it
};
/// Which moves make the cluster better, and what they would cost. Nothing moves.
struct RebalanceForecastRequest {
  std::optional<RebalanceWish> wish = {};  // none: by the setting
};
/// Makes them, as far as they are worth it.
struct RebalanceRequest {
  std::string cause = {};
};
/// What a client knows better than mared.
struct MigrationReport {
  double added_job_time_s = 0;
};
struct JobSubmitRequest {
  PoolId pool;
  std::string name;  // "" : the program's name
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "K=V"
  int ranks = 1;
  CheckpointPlan checkpoints = {};
  double tightness = 1;  // Job::tightness
};
/// Of a running job.
struct CheckpointRequest {
  JobId job;
};
/// One try to bring a running job back from its newest checkpoint, when it has lost VMs.
struct RecoveryRequest {
  JobId job;
};
/// The whole job goes on from a checkpoint, also one that has ended; what it did since is undone.
struct RestartRequest {
  JobId job;
  std::optional<CheckpointId> checkpoint;  // none: the newest
  std::vector<HostId> hosts;               // limited to these; empty: those of its pool
  bool eager = false;  // from the files, though a host may have it in its memory
};

}  // namespace mare::engine
