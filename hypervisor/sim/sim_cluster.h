// A cluster in one process: hosts, links, VMs that dirty pages, faults; for tests, for scale, for
// trying Maré without a hypervisor (sim:///). It models, it never measures.
//
// Time: everything is a function of the Clock and of the calls made. No threads: each call first
// plays what happened since the last one, event by event and in order, so a ManualClock may jump.
// Threads: all methods may be called from several threads at once (one mutex).
// What survives: nothing; the cluster lives as long as this object. It outlives every mared that a
// test kills.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hypervisor/driver.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/core/rng.h"

namespace mare::sim {

class World;
class Locked;

struct HostModel {
  Bytes memory = mebibytes(4096);
  int cpus = 4;
  double speed = 1;              // nu: how fast its CPUs are against the nominal one
  BytesPerSecond uplink{125e6};  // to the switch, each direction; 125e6: 1 Gbit/s
  Bytes vm_overhead = mebibytes(64);
  std::string live_migration_refused = {};  // why it can't migrate live, "" if it can
  std::string dirty_log_refused = {};       // why it can't watch memory, "" if it can
  bool migration_tls = false;               // it encrypts what it sends
  std::string cloning_refused = {};         // why VMs can't be clones, "" if they can
  bool leases = true;                       // something there can end VMs whose lease is over
  bool captures_to_leave = true;            // else its agent is an older one
  std::string machine = {};                 // what hosts on one have in common
  bool standby = true;                      // it can keep parts in its memory
};

/// How a guest behaves. Rates are per second of its own running at speed 1.
struct VmModel {
  double dirty_bytes_per_s = 8e6;
  Bytes wws = mebibytes(16);  // writable working set: what a round sends at most (Clark et al.)
  Seconds boot{4};
  Seconds shutdown{0.5};
  double compressed_fraction = 0.4;  // of its memory, by zstd -1
  Seconds clone_boot{0.5};           // from a template
  bool emulated = false;             // so its profile says; it is as quick all the same
};

struct MigrationModel {
  Milliseconds downtime_limit{300};  // when the ticket says nothing; QEMU's default
  int max_rounds = 30;               // then it switches whatever is left
  Milliseconds switch_overhead{5};   // device state and hand-shake, within the downtime
  Milliseconds handover{3};          // the destination runs, the source's copy is not gone yet
  /// A cancel that comes while it switches: chance that it still wins.
  double cancel_wins_in_switch = 0;
  /// In post-copy, while it waits for its WWS page by page: share of its speed that a guest keeps.
  double post_copy_pace = 0.25;
};

/// What a migration that breaks during its switch can leave behind, by libvirt's protocol.
/// There is none with two running copies: the hypervisor's own protocol prevents that one.
enum class BrokenSwitch : std::uint8_t {
  SourceResumed,    // source runs again, destination's copy gone
  SourcePaused,     // source paused, destination's copy gone
  BothWait,         // source paused, destination's copy received in part
  BothPaused,       // source paused, destination's copy whole but not started
  HandedOver,       // source paused, destination runs
  CompletedUnsaid,  // source gone, destination runs, and the source calls it a failure
};
constexpr int kBrokenSwitches = 6;
std::string_view to_string(BrokenSwitch outcome);

/// How captures are taken and where their files go: one store that all hosts share.
struct CaptureModel {
  bool copy_on_write = true;        // else a VM stands still until its file is written
  bool prepares = true;             // else its agents are older ones, that know no preparation
  Milliseconds prepare{40};         // of one capture; what is not over when it begins adds to take
  Milliseconds take{20};            // with it: until the state is taken
  BytesPerSecond bandwidth{400e6};  // to the store, of each capture
  bool disk_is_full = false;        // captures that begin fail while they are written
};

/// Chances of faults, each for one call or one event; drawn from the cluster's Rng.
struct FaultModel {
  double call_refused = 0;      // a driver's call: Unavailable, nothing done
  double call_unanswered = 0;   // a driver's call: done or not (even odds), OutcomeUnknown
  double guest_unanswered = 0;  // a guest's call: Unavailable; run() may have been done
  double start_fails = 0;       // start() and restore(): an error, nothing left
  double save_fails = 0;        // save(): an error, the VM runs on, no file
  double capture_fails = 0;     // a capture: fails at some point before it is Durable
  double boot_panics = 0;       // a started guest panics while it boots
  double template_fails = 0;    // a template: its guest does not come to its place
  double precopy_breaks = 0;    // a migration: breaks before the switch
  double switch_breaks = 0;     // a migration: breaks in the switch
  double post_copy_breaks = 0;  // a migration in post-copy: breaks, and can be mended
};

/// A copy as the cluster, not an agent, knows it.
struct TrueCopy {
  HostId host;
  VmKey key;
  Copy copy = Copy::Absent;
  bool sending = false;
};

/// Something that must never happen, with the time at which it did.
struct Violation {
  MonotonicTime at{0};
  std::string what;
};

/// PagesLost: its memory was in two halves, in post-copy, and one of them went.
/// LeaseOver: its host could neither hear mared nor read the storage within its lease's term, or
/// was fenced.
enum class EndCause : std::uint8_t {
  Destroyed,
  PoweredOff,
  Panicked,
  HostDied,
  PagesLost,
  LeaseOver
};
std::string_view to_string(EndCause cause);

/// The end of a guest: its last whole copy went, and no file of save() took its place.
struct Ending {
  MonotonicTime at{0};
  VmKey key;
  HostId host;
  EndCause cause = EndCause::Destroyed;
};

class SimCluster {
 public:
  /// Both must outlive the cluster; the Rng must not be shared with other threads.
  SimCluster(Clock& clock, Rng& rng);
  ~SimCluster();
  SimCluster(const SimCluster&) = delete;
  SimCluster& operator=(const SimCluster&) = delete;

  // What it is made of.
  Status add_host(const HostId& host, const HostModel& model = {});
  bool has_host(const HostId& host) const;
  std::vector<HostId> hosts() const;
  /// Limits one pair of hosts, both directions together; by default only uplinks limit.
  Status set_link(const HostId& a, const HostId& b, BytesPerSecond bandwidth);
  /// The next `bursts` that measure this link meet traffic of others: they see `share` of it.
  Status crowd_link(const HostId& a, const HostId& b, double share, int bursts);
  Status set_uplink(const HostId& host, BytesPerSecond bandwidth);
  Status set_speed(const HostId& host, double speed);
  /// For VMs that start from now on.
  void set_vm_model(const VmModel& model);
  /// For one VM, also while it runs: how it dirties memory (boot and shutdown as before its start).
  Status set_dirtying(const VmId& vm, double bytes_per_s, Bytes wws);
  void set_migration_model(const MigrationModel& model);
  void set_capture_model(const CaptureModel& model);
  void set_faults(const FaultModel& model);

  // What happens to it, now.
  /// Power failure: its copies vanish, calls answer Unavailable.
  Status kill_host(const HostId& host);
  /// After kill_host(): up again, empty.
  Status boot_host(const HostId& host);
  /// The agent answers nobody for a while; its VMs, also migrations, go on.
  Status silence_host(const HostId& host, std::chrono::nanoseconds duration);
  /// Off the network for a while: agent, guests and migrations; its VMs run on.
  Status cut_host(const HostId& host, std::chrono::nanoseconds duration);
  /// Nothing on it takes a step for a while: neither agent nor VMs; then all goes on at once.
  Status freeze_host(const HostId& host, std::chrono::nanoseconds duration);
  /// kill -9 of the agent, which is back after `duration`: forgets finished and whose migrations
  /// run, forgets arrivals' announcements. The hypervisor's own work goes on.
  Status restart_agent(const HostId& host, std::chrono::nanoseconds duration);
  /// The guest's kernel panics; its copy ends (on_crash destroy).
  Status panic_guest(const VmId& vm);
  /// The guest's kernel logs an Oops and goes on.
  Status oops_guest(const VmId& vm);
  /// Breaks a running migration: before its switch it fails, in post-copy the VM stands still until
  /// it is mended. FailedPrecondition in the switch.
  Status break_migration(const VmId& vm);
  /// The next migration of that VM that comes to its switch breaks there in this way.
  void break_next_switch(const VmId& vm, BrokenSwitch outcome);
  /// The next `count` driver calls on the host go wrong: Unavailable or OutcomeUnknown, and then
  /// `done` tells whether the work is done all the same.
  void fail_next_calls(const HostId& host, int count, Code code, bool done);

  /// Of a checkpoint: NotFound if there is no such file.
  Status damage_file(const std::string& path);

  // What is true of it.
  /// Files of captures, whole or not.
  std::vector<std::string> capture_files() const;
  /// Whole, and all that it is built on as well, damaged or not.
  bool capture_is_there(const std::string& path) const;
  /// Files whose parts the host keeps in its memory, in the order of their VMs.
  std::vector<std::string> standbys(const HostId& host) const;
  std::vector<TrueCopy> copies() const;
  std::vector<std::string> fence_notes() const;
  Copy copy_on(const HostId& host, const VmId& vm) const;
  /// Where it runs, if it runs.
  std::optional<HostId> running_on(const VmId& vm) const;
  /// Guest's seconds of running since its boot; what the guest itself would count.
  std::optional<Seconds> guest_progress(const VmId& vm) const;
  /// Is the guest booted and answering on the network now?
  bool guest_alive(const VmId& vm) const;
  /// When its guest was last asked how its program does; 0: never.
  MonotonicTime looked_at(const VmId& vm) const;
  /// Did that VM's guest start as a clone?
  bool is_clone(const VmId& vm) const;
  /// The end of the next thing that is going on by itself; nothing if all is quiet.
  std::optional<MonotonicTime> next_event() const;
  /// Everything that broke an invariant, when it did: a second running copy of a VM, above all.
  std::vector<Violation> violations() const;
  /// Guests that ended, oldest first, without the first `skip` there ever were (of the others, the
  /// last 10,000).
  std::vector<Ending> endings(std::size_t skip = 0) const;
  /// Checks that the books agree (memory of hosts, migrations and their copies); adds to
  /// violations().
  std::vector<Violation> check_invariants() const;

 private:
  friend class SimDriver;
  friend class SimGuests;
  /// Locks, and plays everything up to now.
  Locked lock() const;

  std::unique_ptr<World> world_;
};

/// The driver of one of its hosts. The host must exist by the first call, else NotFound.
std::unique_ptr<Driver> make_sim_driver(SimCluster& cluster, const HostId& host);

}  // namespace mare::sim
