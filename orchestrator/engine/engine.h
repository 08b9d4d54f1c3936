// The engine: takes requests, keeps operations going until they end, and picks them up after a
// crash.
//
// Threads: submit_*() and cancel() may be called from any thread; they check, commit the operation
// and wake the engine. step() belongs to one thread, which owns all operations. Blocking calls
// (drivers, guests) run through the Executor and come back as messages to that thread. What
// survives a crash: everything. State is committed before it is acted on; a new Engine on the same
// store goes on with every unfinished operation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hypervisor/driver.h"
#include "hypervisor/guest_port.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/rng.h"
#include "orchestrator/engine/requests.h"
#include "orchestrator/engine/silences.h"
#include "orchestrator/policy/forecast.h"
#include "orchestrator/policy/move_plan.h"
#include "orchestrator/store/store.h"

namespace mare::engine {

/// Where blocking calls run. The real one is a bounded pool of threads, the simulated one a queue.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Runs `work` later, off the engine's thread. Calls of one lane (a host, a guest) may be
  /// limited.
  virtual void run(const std::string& lane, std::function<void()> work) = 0;
};

/// Lanes on which it depends whether a host is taken for dead, and whether it is.
inline constexpr std::string_view kBeatLane = "beat/";
inline constexpr std::string_view kListLane = "list/";
inline constexpr std::string_view kFenceLane = "fence/";
inline bool is_urgent(std::string_view lane) {
  return lane.starts_with(kBeatLane) || lane.starts_with(kListLane) || lane.starts_with(kFenceLane);
}

/// Finds the driver of a host; makes it from the address at first use.
class DriverDirectory {
 public:
  virtual ~DriverDirectory() = default;
  /// InvalidArgument (field "address") when the address is not one that this build can reach.
  virtual Result<std::shared_ptr<Driver>> driver(const HostId& host,
                                                 const std::string& address) = 0;
  virtual void forget(const HostId& host) = 0;
};

/// An image as hosts and guests see it.
struct ImageFacts {
  std::string name;
  std::string version;
  std::string kernel;       // path on the hosts
  std::string initrd;       // path on the hosts
  std::string root;         // path on the NFS server
  std::string kernel_args;  // base kernel line
  Bytes min_memory;
  WallTime created{0};
  std::uint64_t size_bytes = 0;
  std::vector<std::string> packages;
};

class ImageCatalog {
 public:
  virtual ~ImageCatalog() = default;
  /// NotFound names the image and how to build it. version "": the current one.
  virtual Result<ImageFacts> find(const std::string& name, const std::string& version) = 0;
  virtual Result<std::vector<ImageFacts>> list() = 0;
};

struct Settings {
  Ipv4Subnet vm_subnet;       // VMs get addresses from here
  int vm_prefix_length = 24;  // of the network that they are on
  std::string nfs_server;     // as guests reach it
  std::string nfs_jobs = "/jobs";
  std::string jobs_directory;  // where this process keeps jobs' outputs
  Milliseconds poll{100};      // of a running migration
  Milliseconds job_poll{500};  // faster costs an emulated guest noticeable CPU time
  Milliseconds heartbeat{1000};
  int heartbeat_misses = 3;  // then the host is Down
  Seconds boot_timeout{180};
  Seconds shutdown_timeout{15};
  Seconds unreachable_timeout{
      60};  // how long an operation waits for a silent host before it gives up
  Microseconds probe_period{5000};
  Seconds forecast_timeout{8};  // then a move begins without one
  Seconds link_age{60};         // a dry run is content with a measurement of a link as old as that
  Milliseconds rebalance_period{10'000};  // between looks at the placement; 0: none
  Seconds auto_spread{0};      // after hosts came, running jobs are spread to them; 0: never
  bool clones = true;          // VMs start from templates where hosts have them
  Seconds clone_timeout{20};   // a clone that does not answer by then is booted instead
  policy::MoveCaps move_caps;  // beyond these, migrations wait for their turn
  /// As all hosts see it: storage that they share.
  std::string checkpoints_directory = "/var/lib/mare/checkpoints";
  Milliseconds safe_point_poll{20};     // of guests, before a checkpoint
  Milliseconds safe_point_window{100};  // out of a collective for so long is just past it
  bool compress_checkpoints = true;     // by zstd
  Milliseconds capture_poll{5};         // while VMs stand still
  Milliseconds capture_patience{5000};  // for the slowest host to prepare, and to stop its VMs
  Milliseconds capture_answer{50};      // hosts answer that a VM's state is taken, up to this late
  Milliseconds hold_limit{60'000};      // then a VM goes on by itself, and the checkpoint fails
  Seconds checkpoint_timeout{600};
  Milliseconds lease{2000};          // a host's VMs are ended so long after both voices fell silent
  Milliseconds lease_margin{1000};   // for clocks that run apart, and for the ending itself
  int recovery_tries = 3;            // of a job from one checkpoint
  Seconds host_mtbf{180.0 * 86400};  // believed of a host before any has failed
};

/// What a server said to one HTTP request.
struct HttpAnswer {
  long status = 0;
  std::string body;
};

/// Whom to turn off.
struct FenceOrder {
  HostId host;
  std::string address;  // of its agent, as the host was added
  int number = 1;       // of its fences; the same again when a try is made once more
};

/// A way to turn a host off past its agent: power management. Called on the executor.
class FenceCommand {
 public:
  virtual ~FenceCommand() = default;
  /// Ok only when the host is off and stays so until a person turns it on: its VMs are restarted
  /// elsewhere at once. Comes back within a limit of its own. Asked again after any error, and
  /// after a crash of mared, also for a host that is off. Answers the last words of whoever did it,
  /// one line, "" when there were none; Unavailable, with these words, when nothing is known.
  virtual Result<std::string> turn_off(const FenceOrder& order) = 0;
};

struct Ports {
  store::Store& store;
  DriverDirectory& drivers;
  GuestPort& guests;
  ImageCatalog& images;
  Executor& executor;
  Clock& clock;
  Rng& rng;
  Log& log;
  /// Pure, called on the executor. Tests give another.
  std::function<policy::Verdict(const policy::ForecastInput&)> forecast = policy::forecast;
  /// Called on the executor; comes back within the query's timeout, with an error if nothing did.
  std::function<Result<HttpAnswer>(const PrometheusQuery&)> prometheus = {};
  /// None: hosts are fenced by their leases alone. Outlives the executor's calls.
  FenceCommand* fence_command = nullptr;
};

class Engine {
 public:
  /// `after_commit`, for tests of crashes: called after each committed state of an operation.
  using AfterCommit = std::function<void(const Operation&)>;

  Engine(Ports ports, Settings settings, AfterCommit after_commit = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Each answers the accepted operation (state as committed), or an error that changed nothing.
  Result<Operation> submit(const HostAddRequest& request);
  Result<Operation> submit(const HostRemoveRequest& request);
  Result<Operation> submit(const HostDrainRequest& request);
  /// Asked for again while it goes on: answers the one that goes on, with the earlier deadline.
  Result<Operation> submit(const EvacuateRequest& request);
  Result<Operation> submit(const EvacuationForecastRequest& request);
  Result<Operation> submit(const PoolCreateRequest& request);
  /// Asked for again while it goes on: answers the operation that goes on.
  Result<Operation> submit(const PoolScaleRequest& request);
  Result<Operation> submit(const PoolDeleteRequest& request);
  Result<Operation> submit(const VmStartRequest& request);
  Result<Operation> submit(const VmStopRequest& request);
  Result<Operation> submit(const MigrateRequest& request);
  /// Nothing moves. The forecast has the operation's id.
  Result<Operation> submit(const ForecastRequest& request);
  Result<Operation> submit(const DrainForecastRequest& request);
  Result<Operation> submit(const LayoutForecastRequest& request);
  Result<Operation> submit(const LayoutChangeRequest& request);
  Result<Operation> submit(const RebalanceForecastRequest& request);
  Result<Operation> submit(const RebalanceRequest& request);
  /// The operation's target is the new job's id.
  Result<Operation> submit(const JobSubmitRequest& request);
  Result<Operation> submit(const CheckpointRequest& request);
  Result<Operation> submit(const RestartRequest& request);
  /// FailedPrecondition when it is too late (a migration that switches) or it has ended.
  Result<Operation> cancel(const OperationId& id);
  /// Takes a drained host into use again. At once, no operation.
  Result<Host> activate(const HostId& id);
  /// From now on the pool's size follows a figure. At once, no operation; what was remembered of
  /// an earlier rule but its cooldowns is forgotten.
  Result<Autoscaler> set_autoscale(const PoolId& id, const AutoscaleSetting& setting);
  /// The pool stays as it is.
  Status clear_autoscale(const PoolId& id);
  /// A figure for the pool's rule; it is looked at at once.
  Result<Autoscaler> post_metric(const PoolId& id, double value);
  /// How running VMs are kept well placed, from now on. At once, no operation; a round that goes on
  /// keeps to what it began with.
  Result<Rebalancing> set_rebalancing(const RebalanceSetting& setting);
  /// For moves of the pool's VMs that are asked for from now on. At once, no operation.
  Result<Pool> set_move_policy(const PoolId& id, const PolicyChange& change);

  /// What the pools of a project may have together, from now on; what there is stays. At once.
  Result<Quota> set_quota(const Quota& quota);
  /// NotFound if it has none.
  Status clear_quota(const ProjectId& project);

  /// Keeps what a client measured of a migration that has ended, for the forecasts to come.
  Result<Forecast> report(const OperationId& migration, const MigrationReport& report);
  /// How a running VM writes its memory, asked of its host now. `then` is called on any thread.
  void memory_profile(const VmId& vm, std::function<void(Result<MemoryProfile>)> then);

  /// Picks up what an earlier process left unfinished. Call once, before the first step().
  Status recover();
  /// Handles every message and timer that is due; answers when the next timer is due.
  MonotonicTime step();
  /// Blocks the engine's thread in step() and waits until stop().
  void run();
  void stop();

  /// Is the store writable and the engine's thread alive? For /readyz.
  Status ready() const;
  /// Called (on any thread) whenever something was committed, so that followers of events can look.
  void on_change(std::function<void()> callback);
  const Settings& settings() const;
  /// Of all hosts, since this process began.
  Silences::Counts silences() const;
  /// File with the output of a job so far.
  std::string output_file(const JobId& job) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mare::engine
