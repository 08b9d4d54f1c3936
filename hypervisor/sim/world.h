// The state behind SimCluster and its rules. Internal to this room; the caller holds the lock.
// world.cpp: hosts, copies, guests, time. moves.cpp, post_copy.cpp: migrations. jobs.cpp: what runs
// in guests. captures.cpp: checkpoints. leases.cpp: leases, frozen hosts.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "hypervisor/guest_port.h"
#include "hypervisor/rate_control.h"
#include "hypervisor/sim/sim_cluster.h"
#include "orchestrator/model/hovering_rounds.h"

namespace mare::sim {

using Time = MonotonicTime;

inline double seconds(Time span) {
  return std::chrono::duration<double>(span).count();
}
/// Rounded up, so that an event is never a hair before its cause is complete.
Time nanoseconds_up(double span_s);

/// Something that grows at a rate that changes now and then.
struct Accrual {
  double value = 0;
  Time since{0};
  double rate = 0;  // a second
  double at(Time now) const { return value + rate * seconds(now - since); }
  void set_rate(Time now, double new_rate) {
    value = at(now);
    since = now;
    rate = new_rate;
  }
};

/// What runs inside a VM; it moves with the memory from copy to copy.
struct Guest {
  VmSpec spec;
  VmModel model;
  /// How it wrote before, oldest first: a watcher has seen that.
  struct Writing {
    Time until{0};
    double dirty_bytes_per_s = 0;
    Bytes wws;
  };
  std::vector<Writing> past_writing;
  Time log_began{0};  // of its writing, when a migration that it stayed from had ended
  std::string boot_id;
  Accrual uptime;      // s of running
  Accrual work;        // s of running at speed 1
  int whole = 0;       // copies Running or Paused, on all hosts
  bool saved = false;  // its state is in a file and nowhere else
  HostId left;         // where its last copy was then, and how that ended
  EndCause left_by = EndCause::Destroyed;
  bool gone = false;
  bool clone = false;
  bool powering_off = false;  // as soon as it runs
  bool doomed = false;        // half of its memory was lost: no copy of it can run any more
  double pace = 1;            // share of its speed that a migration leaves it
  int kernel_faults = 0;
  std::string first_fault;
  WallTime clock_set{0};
  Time looked_at{0};
  struct Stop {
    Time from{0};
    Time to{0};
  };
  std::deque<Stop> stops;  // the last ones, for probes
  std::optional<Time> stopped;
};

/// One host's copy of a VM.
struct LocalCopy {
  std::shared_ptr<Guest> guest;
  Copy copy = Copy::Absent;
  bool has_run = false;     // here
  CheckpointId loaded;      // from that checkpoint
  bool mapped = false;      // and from the host's memory
  int faults_on_entry = 0;  // of the guest's kernel, before it came here
};

/// What a destination's agent keeps of a migration to it.
struct Arrival {
  OperationId operation;
  std::string uuid;
  bool announces = true;  // the agent will announce by itself when the copy runs
  std::optional<Time> resumed;
  std::optional<Time> announced;
  Time downtime{0};
  Time total{0};
  double transferred = 0;
};

struct EndedMove {
  std::string uuid;
  OutgoingStatus status;
  Time ended{0};
};

struct Capture {
  std::uint64_t serial = 0;
  CaptureTicket ticket;
  CaptureStatus status;
  Time ready{0};      // when all was prepared
  bool held = false;  // its VM was stopped for it
  bool released = false;
  bool written = false;
  /// Its VM leaves, and stands still for that.
  bool waits_to_leave() const {
    return ticket.leaves && status.phase == CapturePhase::Durable && !released;
  }
  bool active() const {
    return status.phase == CapturePhase::Ready || status.phase == CapturePhase::Holding ||
           status.phase == CapturePhase::Taken || waits_to_leave();
  }
};

/// A part that a host keeps in its memory; it outlives the agent.
struct Standby {
  std::string path;
  std::uint64_t checksum = 0;
  Bytes size;
  bool is_of(const CheckpointPart& part) const {
    return path == part.path && checksum == part.checksum && size == part.size;
  }
};

/// A template of a host: a file, so it outlives the agent, and the host's death.
struct SimTemplate {
  Time ready{0};
  bool fails = false;
};

struct PlannedFailure {
  int calls = 0;
  Code code = Code::Unavailable;
  bool done = false;
};

struct HostLease {
  bool enforced = false;
  Time term{0};
  Time said_until{0};  // by mared
  std::string note;
  std::optional<Time> storage_lost;  // since when the storage does not say that all is well
};

struct SimHost {
  HostModel model;
  bool up = true;
  Time silent_until{0};  // its agent
  Time cut_until{0};     // all its network
  bool frozen = false;   // nothing on it takes a step
  std::set<VmId> thaws;  // what ran when it froze
  int boots = 0;
  HostLease lease;
  std::map<VmId, LocalCopy> copies;
  std::map<VmId, Arrival> arrivals;
  std::map<VmId, EndedMove> ended;
  std::map<VmId, Capture> captures;
  std::map<VmId, Standby> standbys;
  std::set<std::pair<VmId, CheckpointId>> dropped;  // no late capture of those
  std::map<std::string, SimTemplate> templates;     // by what they are of
  std::map<std::string, Time> link_sinks;           // by their word, with the end of each
  PlannedFailure planned;
};

enum class MoveStage : std::uint8_t {
  Rounds,
  Holding,  // the rest would fit: waits to be released, and looks again and again
  LastRound,
  Closing,
  HandingOver,
  Fetching,   // post-copy: the guest waits for pages of its WWS
  Following,  // post-copy: the rest comes in the background
};

struct Move {
  std::uint64_t serial = 0;
  MigrationTicket ticket;
  HostId source;
  HostId destination;
  std::shared_ptr<Guest> guest;
  Time began{0};
  Time round_began{0};
  Time since{0};    // `left` was true then
  double left = 0;  // bytes of this round
  double rate = 0;  // bytes/s
  double transferred = 0;
  double round_size = 0;
  double dirty_rate = 0;
  std::optional<RateController> rates;  // RateControlled
  HoveringRounds hovering;
  double pages = 0;                 // post-copy: what comes after this stage
  std::string trouble;              // why it is broken
  Time hold_until{0};               // Holding, Closing, HandingOver: until then
  std::optional<Time> holds_since;  // the first time
  std::optional<Time> breaks_at;
  std::optional<BrokenSwitch> switch_breaks;
  std::optional<Time> paused;
  std::vector<Round> rounds;
  int throttle = 0;  // percent
  MoveStage stage = MoveStage::Rounds;
  bool operation_known = true;  // to the source's agent
  bool post_copy = false;       // it switches, or has switched, to post-copy
  bool broken = false;          // post-copy: no page comes
  bool released = false;        // from its hold, or begun without
};

struct SavedVm {
  std::shared_ptr<Guest> guest;  // as it was; goes on if nothing else became of it
  Guest snapshot;
};

/// A program started through the guest port: an mpirun over some guests.
struct Run {
  GuestRun program;
  std::shared_ptr<Guest> launcher;
  std::vector<std::shared_ptr<Guest>> ranks;  // the launcher's guest is one of them
  Accrual progress;                           // s of work done
  double work_s = 0;
  int wanted_exit = 0;
  double collective_every_s = 0;  // of work; 0: it has none
  bool announces = false;
  std::optional<int> exit_code;
  bool lost = false;
  std::string complaint;  // last line of its output, when it ended badly
  bool ended() const { return exit_code.has_value() || lost; }
};

/// The file of a capture.
struct PartFile {
  CheckpointId checkpoint;
  Guest snapshot;
  std::map<std::string, Run> runs;  // that the guest had ranks of, as they stood at the cut
  bool whole = false;
  Bytes size;
  std::uint64_t checksum = 0;
  std::string base;  // its path, "" for a full one
  std::uint64_t base_checksum = 0;
  Bytes written;
  Time begun{0};
  bool leaves = false;           // of a VM that is to go on from it, and nowhere else
  std::shared_ptr<Guest> guest;  // that one, until it goes on
};

/// Of a link: so many bursts see this share of it.
struct Crowd {
  double share = 1;
  int bursts = 0;
};

class World {
 public:
  World(Clock& clock, Rng& rng);

  Clock& clock;
  Rng& rng;
  mutable std::mutex mutex;
  Time now{0};
  VmModel vm_model;
  MigrationModel migration;
  FaultModel faults;
  std::map<HostId, SimHost> hosts;
  std::map<std::pair<HostId, HostId>, double> links;  // bytes/s, the smaller id first
  std::map<std::pair<HostId, HostId>, Crowd> crowded_links;
  std::map<VmId, BrokenSwitch> next_switch;
  CaptureModel capturing;
  std::set<std::string> fence_notes;  // on the shared storage
  std::map<std::string, SavedVm> files;
  std::map<std::string, PartFile> parts;
  /// Guests that were loaded and have not run; the others of their job may be still to come.
  std::map<CheckpointId, std::map<VmId, std::shared_ptr<Guest>>> loaded;
  std::map<std::string, Run> runs;  // by directory, on the shared file system
  std::map<std::uint64_t, Move> moves;
  std::vector<Violation> violations;
  std::deque<Ending> endings;
  std::size_t endings_ever = 0;

  // Time (world.cpp).
  /// Plays everything up to the clock's present.
  void catch_up();
  std::optional<Time> next_event() const;
  void at(Time when, std::function<void()> what);
  WallTime wall(Time when) const;

  // Hosts and calls (world.cpp).
  SimHost* find_host(const HostId& id);
  Result<SimHost*> host(const HostId& id);
  bool agent_answers(const SimHost& host) const;
  bool on_network(const SimHost& host) const;
  Bytes used(const SimHost& host) const;
  Bytes free_memory(const SimHost& host) const;
  void kill(const HostId& id);
  void cut(const HostId& id, Time until);

  // Copies (world.cpp): the only places where a copy changes, so that the monitor sees all.
  LocalCopy* find_copy(const HostId& host, const VmId& vm);
  /// The copy of that incarnation; nothing if it is absent or another incarnation.
  LocalCopy* find_copy(const HostId& host, const VmKey& key);
  void put_copy(const HostId& host, const std::shared_ptr<Guest>& guest, Copy copy);
  void change_copy(const HostId& host, const VmId& vm, Copy copy);
  void remove_copy(const HostId& host, const VmId& vm, EndCause cause, bool saved = false);
  VmObservation observe(const HostId& host, const VmKey& key);
  std::shared_ptr<Guest> new_guest(const VmSpec& spec, bool clone = false);
  /// The host where a guest of that name, or this very guest, runs.
  std::optional<HostId> runs_on(const VmId& vm) const;
  std::optional<HostId> runs_on(const Guest& guest) const;
  bool answers(const Guest& guest) const;
  void panic(const std::shared_ptr<Guest>& guest);
  /// Ends the guest by itself; one that is paused ends when it goes on.
  void power_off(const std::shared_ptr<Guest>& guest);
  /// After anything that changes how fast guests of that host run.
  void refresh_speed(const HostId& host);
  void violate(const std::string& what);
  void check_books();

  // Migrations (moves.cpp).
  Move* find_move(const HostId& source, const VmId& vm);
  Status begin_move(const MigrationTicket& ticket, const HostId& source, const HostId& to);
  void cancel_move(const HostId& source, const VmId& vm);
  OutgoingStatus move_status(const Move& move) const;
  /// Ends whatever migration uses that copy, because the copy is about to go.
  void copy_goes(const HostId& host, const VmId& vm);
  void break_before_switch(Move& move, const std::string& why);
  void break_in_switch(Move& move, BrokenSwitch outcome, const std::string& why);
  /// Migrations from or to a host whose network went.
  void break_moves_of(const HostId& host, const std::string& why);
  void share_links();
  // Post-copy and force (post_copy.cpp).
  static bool in_post_copy(const Move& move) {
    return move.stage == MoveStage::Fetching || move.stage == MoveStage::Following;
  }
  /// Does the VM run at the source, and can it stay there?
  static bool in_rounds(const Move& move) {
    return move.stage == MoveStage::Rounds || move.stage == MoveStage::Holding;
  }
  void release_move(const HostId& source, const VmId& vm);
  void starve(Move& move, const std::string& why);
  void mend(Move& move);
  Status force_move(const HostId& source, const VmId& vm, LimitAction how);
  /// Is this the destination of a post-copy that has not ended?
  bool is_halved(const HostId& host, const VmId& vm) const;

  // Checkpoints (captures.cpp).
  /// A capture that is not over, on that host.
  Capture* find_capture(const HostId& host, const VmId& vm);
  Capture& prepare_capture(const HostId& host, const CaptureTicket& ticket);
  void begin_capture(const HostId& host, Capture& capture);
  void release_capture(const HostId& host, Capture& capture);
  /// Removes a file; a VM that was nowhere else is lost with it.
  void remove_part(const std::string& path);
  /// It fails; the VM goes on if it still stands for it.
  void fail_capture(const HostId& host, Capture& capture, const std::string& why);
  /// With all that it is built on. `checked`: and those are what it was built on.
  bool is_whole(const std::string& path, bool checked = true) const;
  /// "" if a part can be built on that.
  std::string why_not_on(const CaptureBase& base) const;
  /// Is the file, with all that it is built on, of the size and the checksum that the part says?
  bool is_what_it_says(const CheckpointPart& part) const;
  void load_part(const HostId& host, const PartFile& file);
  std::vector<StandbyAnswer> keep_standby(SimHost& host, const std::vector<CheckpointPart>& wanted);
  static Bytes standby_memory(const SimHost& host);
  /// What its copies leave no room for goes, that of this VM last.
  void give_way(SimHost& host, const VmId& to);
  /// A loaded guest is about to run for the first time.
  /// Whether every rank of that run has a part in the checkpoint.
  bool holds_all(const CheckpointId& checkpoint, const Run& stopped) const;
  void leave_loaded(const LocalCopy& copy);
  /// Files that it left in are worth nothing from now on.
  void outlive_parts(const Guest& guest);
  bool is_in_a_part(const Guest& guest) const;

  // Leases (leases.cpp).
  LeaseAnswer renew_lease(const HostId& id, const LeaseTicket& ticket);
  /// Whether a VM may be made or resumed there.
  bool may_run(const SimHost& host) const;
  /// After anything that a lease depends on: ends the host's copies when it is over.
  void review_lease(const HostId& id);
  void freeze(const HostId& id, Time until);
  void thaw(const HostId& id);
  /// A VM begins to come back here: no other copy of it may be able to take a step.
  void check_no_other(const HostId& here, const VmId& vm);

  // Jobs (jobs.cpp).
  Run& start_run(const GuestRun& program, const std::shared_ptr<Guest>& launcher);
  void settle(Run& run);
  void end_run(Run& run, int exit_code, const std::string& complaint);
  void guest_ended(const std::shared_ptr<Guest>& guest);
  std::string output_of(const Run& run) const;
  SafePointStatus safe_points_of(const Guest& guest, const JobId& job) const;
  void refresh_runs();

 private:
  void guest_stops(Guest& guest);
  void guest_goes(const std::shared_ptr<Guest>& guest);
  void note_running(const VmId& vm, const HostId& host, bool runs_now);

  bool storage_confirms(const SimHost& host) const;
  static Time lease_end(const SimHost& host);
  void lease_is_over(const HostId& id);

  Capture* capture_of(const HostId& host, const VmId& vm, std::uint64_t serial);
  /// Does that to a capture after so long, unless it is over by then.
  void later_to(const HostId& host, const Capture& capture, double after_s,
                std::function<void(Capture&)> what);
  void take_state(const HostId& host, Capture& capture);
  void state_is_written(const HostId& host, Capture& capture);
  void make_durable(Capture& capture);
  void reunite(const CheckpointId& checkpoint, const PartFile& file);
  void lose(const std::shared_ptr<Guest>& guest, const HostId& host, EndCause cause);
  StandbyAnswer keep(SimHost& host, const CheckpointPart& part);

  std::optional<Time> due(const Move& move) const;
  void settle(Move& move) const;
  void step(Move& move);
  void end_round(Move& move);
  void begin_switch(Move& move, double size);
  void hand_over(Move& move);
  void end_move(std::uint64_t serial, OutgoingPhase phase, const std::string& error);
  void draw_faults(Move& move);
  void start_strategy(Move& move);
  void next_round(Move& move, double dirtied, Time length);
  void go_on_holding(Move& move);
  void add_round(Move& move, double left);
  double dirtied_in(const Move& move) const;
  /// Bytes on the wire for one of memory.
  static double wire_share(const Move& move);
  void begin_post_copy(Move& move, double pages);
  void begin_fetching(Move& move);
  void begin_following(Move& move);
  void end_post_copy(Move& move);
  void lose_pages(Move& move, const HostId& gone);
  void set_pace(Guest& guest, double pace);

  std::multimap<Time, std::function<void()>> scheduled_;
  std::map<VmId, std::set<HostId>> running_;  // the monitor's own books
  std::uint64_t last_serial_ = 0;
};

/// The world, locked and played up to the present.
class Locked {
 public:
  explicit Locked(World& world) : lock_(world.mutex), world_(world) { world_.catch_up(); }
  World* operator->() { return &world_; }
  World& operator*() { return world_; }

 private:
  std::unique_lock<std::mutex> lock_;
  World& world_;
};

}  // namespace mare::sim
