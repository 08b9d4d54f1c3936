// What Maré knows about: hosts, pools, VMs, jobs, operations, migrations. Values only. Checkpoints
// have a header of their own.
// The store keeps them, the engine changes them, the REST API shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/checkpoint.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/model/quota.h"
#include "orchestrator/model/states.h"

namespace mare {

struct Host {
  HostId id;
  std::string address;  // "10.77.0.11:7412", or "sim:///h1" for a simulated one
  HostAdmin admin = HostAdmin::Active;
  HostHealth health = HostHealth::Unknown;  // last heard; refreshed by heartbeats
  std::string health_reason;                // "" while Up
  Bytes memory;                             // what VMs may use
  int cpus = 0;
  Bytes vm_overhead;       // of each VM, on top of its memory
  std::string hypervisor;  // "qemu 10.0.2 (tcg), libvirt 11.3.0"
  bool live_migration = false;
  WallTime added{0};
  WallTime last_seen{0};
  std::vector<Strategy> strategies = {};  // that it can take part in, as either end
  std::string dirty_log = {};             // how it watches the memory of VMs; "" if it can't
  std::string dirty_log_why = {};         // and then why not
  bool migration_tls = false;             // it sends and takes encrypted pages only
  int failures = 0;                       // times that it went silent, since it was added
  /// Of the lease that its agent has confirmed; 0: it holds none, and only a fence command fences
  /// it.
  Milliseconds lease{0};
  HostFence fence = HostFence::None;
  int fences = 0;                      // begun since it was added: each has a note of its own
  std::string migration_address = {};  // where other hosts send VMs; "": it told none
  double cpu_speed = 0;                // of one CPU, in any unit that all share; 0: it told none
};

struct Pool {
  PoolId id;
  std::string image;          // name
  std::string image_version;  // fixed at creation
  int size = 0;               // VMs wanted
  Bytes memory;               // of each VM
  int vcpus = 1;
  std::string token;          // shared by the pool's guests; never shown by the API
  std::vector<HostId> hosts;  // placement limited to these; empty: all
  WallTime created{0};
  MovePolicy move_policy = {};         // of its VMs, unless a migration states something else
  ProjectId project{kDefaultProject};  // whose quota its VMs count against
};

struct Vm {
  VmId id;
  PoolId pool;
  int index = 0;
  std::string uuid;  // of this incarnation; a new start has a new one
  MacAddress mac;
  Ipv4Address ip;
  Bytes memory;
  int vcpus = 1;
  VmState state = VmState::Stopped;
  std::optional<HostId> host;  // where its one running copy is; none when stopped
  std::string reason;          // why it is Failed or Lost
  WallTime created{0};
  WallTime started{0};
};

struct Job {
  JobId id;
  std::string name;
  PoolId pool;
  std::vector<std::string> command;      // program and arguments
  std::vector<std::string> environment;  // "K=V"
  int ranks = 1;
  JobState state = JobState::Queued;
  std::optional<int> exit_code;  // of the program; 128+signal when it was killed
  std::string reason;
  std::vector<VmId> vms;  // rank i runs in vms[i]; the first one runs mpirun
  std::uint64_t output_bytes = 0;
  WallTime created{0};
  WallTime started{0};
  WallTime ended{0};
  CheckpointPlan checkpoints = {};
  int restarts = 0;                 // times that it went back to a checkpoint
  CheckpointId recovery_from = {};  // of the last try to bring it back by itself
  int recovery_tries = 0;           // from that checkpoint, counted before anything is done
  double tightness = 1;             // share of one rank's stall that the job feels, 0 to 1
};

/// A persisted unit of work.
struct Operation {
  OperationId id;
  OperationKind kind = OperationKind::VmStart;
  std::string target;  // the id of what it works on
  std::string state;   // of the kind's own table
  Outcome outcome = Outcome::Pending;
  std::string reason;      // in words, also after success where there is something to say
  std::string error_code;  // to_string(Code), "" while none
  std::optional<OperationId> parent;  // set for a child
  bool cancel_requested = false;
  int attempt = 0;      // times a process took it up (1 on a normal day)
  std::string request;  // JSON, as checked
  double progress = 0;  // 0 to 1; may be lost
  WallTime created{0};
  WallTime started{0};
  WallTime ended{0};
  WallTime deadline{0};  // 0: none
  bool finished() const { return outcome != Outcome::Pending; }
};

/// One line of an operation's append-only history.
struct OperationEvent {
  std::uint64_t seq = 0;
  OperationId operation;
  WallTime at{0};
  std::string from;
  std::string event;
  std::string to;
  std::string detail;
};

/// A pre-copy round; round 0 sends everything.
struct Round {
  int index = 0;
  Microseconds started{0};  // since the migration's start
  Microseconds duration{0};
  Bytes sent;
  Bytes remaining;  // at its end
  double dirty_bytes_per_s = 0;
};

/// A move through a file (checkpoint-restart): what is kept of it.
struct FileMove {
  std::string path;            // as all hosts see it; "" when it is not there, or not any more
  Bytes size;                  // of the state in it
  std::uint64_t checksum = 0;  // XXH64 of the state
  Bytes written;               // of the file
  // By the clock of mared.
  WallTime began{0};    // when hosts were first asked for it
  WallTime stopped{0};  // when the VM stood still
  // Together the downtime; empty where it is not known what took the time.
  std::optional<Microseconds> check;    // from the stop to the file that is whole on its disk
  std::optional<Microseconds> trans;    // until the destination has read and checked it
  std::optional<Microseconds> restart;  // until the VM, made from that, runs
  // The destination was, or is about to be, told to let it run: if that copy ends, the file is of
  // no more use.
  bool may_have_run = false;
};

/// A sending that went far beyond its forecast and was given up, for the same move to begin anew.
struct EarlierTry {
  Strategy strategy = Strategy::PreCopy;
  Estimate said_s;         // total time, as it was forecast
  Microseconds lasted{0};  // until it was given up
  Bytes sent;
  int rounds = 0;
  WallTime ended{0};  // the VM ran at its source alone again
};

/// The lasting record of a migration; its id is its operation's.
struct Migration {
  OperationId id;
  VmId vm;
  HostId source;
  HostId destination;
  std::optional<BytesPerSecond> bandwidth_limit;
  std::optional<Milliseconds> downtime_limit;
  Sending sending;  // the strategy taken, with its knobs
  // Measured; empty until known.
  std::vector<Round> rounds;
  Bytes memory_total;
  Bytes transferred;
  Bytes remaining;
  std::optional<Microseconds> total_time;
  std::optional<Microseconds> downtime_hypervisor;  // as the hypervisor reports
  std::optional<Microseconds> downtime_guest;       // lost by the guest's clock
  std::optional<Microseconds> downtime_peers;       // longest silence on the network
  std::optional<Microseconds> announce_delay;  // from the destination's resume to the first ARP
  int announcements = 0;                       // frames sent
  WallTime switched{0};                        // when the destination's copy ran
  std::vector<JobId> jobs;                     // running on the VM at the time
  std::optional<Microseconds> held;            // it could switch, and waited for others of its job
  int switched_with = 0;                       // so many of them
  WallTime planned{0};                         // when it was to begin; 0: at once
  FileMove file;
  std::vector<EarlierTry> earlier;  // oldest first; all else is of the last one
  std::string reconsiders;          // why the present one is given up for another; "": it is not
};

/// Anything worth telling, in order; `/events` streams these.
struct Event {
  std::uint64_t seq = 0;
  WallTime at{0};
  std::string topic;  // "host", "pool", "vm", "job", "operation", "migration", "cluster"
  std::string subject;
  std::string type;  // "vm.state", "operation.state", ...
  std::string data;  // JSON object
};

}  // namespace mare
