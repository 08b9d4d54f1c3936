// Bodies of requests: what a client writes and the server reads, strictly. Names of objects that
// stand in the path are not repeated here. Only shape and range are checked; whether a host exists
// or has room is the engine's to say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/checkpoint.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/model/quota.h"
#include "rest/wire/reader.h"

namespace mare::wire {

struct HostBody {
  HostId id;
  std::string address;
};
struct PoolBody {
  PoolId id;
  std::string image = "base";
  int size = 1;
  Bytes memory = mebibytes(192);
  int vcpus = 1;
  std::vector<HostId> hosts;
  PolicyChange move_policy = {};
  ProjectId project{kDefaultProject};
};
/// RFC 7396: what is absent stays, a null in the policy is the default. One of size and
/// move_policy: a policy is changed at once, a size by an operation.
struct PoolPatchBody {
  std::optional<PolicyChange> move_policy = {};
  std::optional<int> size = {};
  bool best_effort = false;
};
struct VmStartBody {
  std::optional<HostId> host;
};
struct VmStopBody {
  bool force = false;
};
struct MigrationBody {
  std::optional<HostId> destination;
  PolicyChange policy;
  Seconds timeout{600};
  bool force = false;
  Timing timing = {};
};
struct ReportBody {
  double added_job_time_s = 0;
};
struct JobBody {
  PoolId pool;
  std::string name;
  std::vector<std::string> command;
  std::vector<std::string> environment;
  int ranks = 1;
  CheckpointPlan checkpoints = {};
  double tightness = 1;  // 0 to 1
};
struct RestartBody {
  std::optional<CheckpointId> checkpoint;  // none: the newest
  std::vector<HostId> hosts;
  bool eager = false;
};
/// For ":spread" and ":pack".
struct LayoutBody {
  std::optional<int> hosts = {};  // none: as is best
  std::optional<Seconds> remaining = {};
  bool force = false;
};
/// For ":evacuate".
struct EvacuationBody {
  Seconds within{0};  // 1 to 86400
  std::string reason;
};
/// What Prometheus' Alertmanager posts to a webhook (version 4); read leniently, since it says much
/// more. Alerts that are resolved or name no host (label "mare_host") are left out.
struct AlertsBody {
  struct Alert {
    HostId host;
    std::string says;  // annotation "summary", else label "alertname", else ""
  };
  std::vector<Alert> alerts;
  std::size_t ignored = 0;
};
/// For ":drain": of its moves, against their pools'.
struct DrainBody {
  PolicyChange policy;
};
/// For requests that need no words: ":activate", ":cancel". Only {} is right.
struct EmptyBody {};

Json to_json(const HostBody& body);
Json to_json(const PoolBody& body);
Json to_json(const PoolPatchBody& body);
Json to_json(const VmStartBody& body);
Json to_json(const VmStopBody& body);
Json to_json(const MigrationBody& body);
Json to_json(const ReportBody& body);
Json to_json(const JobBody& body);
Json to_json(const RestartBody& body);
Json to_json(const LayoutBody& body);
Json to_json(const EvacuationBody& body);
Json to_json(const DrainBody& body);

/// Each reads `json` into `body` and adds what is wrong to `faults`; use `body` only without
/// faults.
void read(const Json& json, HostBody& body, Faults& faults);
void read(const Json& json, PoolBody& body, Faults& faults);
void read(const Json& json, PoolPatchBody& body, Faults& faults);
void read(const Json& json, VmStartBody& body, Faults& faults);
void read(const Json& json, VmStopBody& body, Faults& faults);
void read(const Json& json, MigrationBody& body, Faults& faults);
void read(const Json& json, ReportBody& body, Faults& faults);
void read(const Json& json, JobBody& body, Faults& faults);
void read(const Json& json, RestartBody& body, Faults& faults);
void read(const Json& json, LayoutBody& body, Faults& faults);
void read(const Json& json, EvacuationBody& body, Faults& faults);
void read(const Json& json, DrainBody& body, Faults& faults);
void read(const Json& json, AlertsBody& body, Faults& faults);
void read(const Json& json, EmptyBody& body, Faults& faults);

}  // namespace mare::wire
