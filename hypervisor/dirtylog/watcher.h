// Watches how VMs write their memory, all the time and all of one host: the dirty-page log is armed
// once a cycle and read some times without being armed anew, so a page costs its guest one fault a
// cycle.
//
// Threads: Watcher has none, step() does what is due; WatcherThread is the one that calls it. All
// methods may be called from several threads at once; those on one VM wait for a reading of it
// under way (milliseconds). Nothing survives a restart: the history begins anew.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hypervisor/dirtylog/content_look.h"
#include "hypervisor/dirtylog/joined_cycles.h"
#include "hypervisor/dirtylog/page_log.h"
#include "hypervisor/dirtylog/sweep_finder.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/core/log.h"
#include "orchestrator/model/forecast.h"

namespace mare::dirtylog {

inline constexpr std::size_t kCyclesKept = 24;
/// The first write to a page after the log was armed, on a real machine (0.8 to 1.2 us were seen).
inline constexpr std::chrono::nanoseconds kUsualFirstWrite{1200};

struct WatchReport {
  // Oldest first; the last one may be unfinished. The first one after each opening of the log goes
  // on with what it and the next ones saw together, beyond the longest other one. Without what the
  // log itself took (undisturbed.h); among them what was seen by content, which takes nothing.
  std::vector<DirtyCycle> cycles;
  std::vector<double> heat;  // of the last long cycle, and of what came after it
  PageSet written;           // lately, or else as heat; empty where the log samples
  double cost_fraction = 0;  // of the guest's time, over these cycles, as estimated
  double cpu_granted = 1;    // of the CPU time that the vCPUs wanted lately
  double sequential = 0;     // of what was written in a moment and not in the one before: in order
  Sweep sweep;
  PageSet swept;            // of a guest that sweeps, what it goes through
  std::string not_watched;  // why not, at this moment; "" if it is
  bool hopeless = false;    // and it will hardly change by itself
};

class Watcher {
 public:
  /// Clock and log must outlive it; `open` is called by step() alone, and may take its time.
  /// `first_write`: what that costs a guest here (measure_first_write()).
  Watcher(OpenLog open, Clock& clock, Log& log,
          std::chrono::nanoseconds first_write = kUsualFirstWrite);

  /// A VM that runs here, or is about to: its log is opened at the next step, and again each second
  /// until it can be. Where a first write is dear it is looked at by content for 10 s and armed
  /// when that has been paid for, by what it wrote meanwhile. A known one goes on, also where it
  /// was gone for no longer than until its last cycle was paid for.
  void watch(const std::string& uuid);
  /// It has just come to run here, in a new process: as watch(), and a log that is open still is of
  /// another process, which would be noticed at its next point only. What was seen stays. It is
  /// opened 2 s later, or when somebody asks by look_anew().
  void arrived(const std::string& uuid);
  /// It is about to be sent: its log is closed when this returns, and tried again a second later;
  /// `open` refuses while it is being sent, and from before this is called. What was seen stays.
  /// False: none was open.
  bool back_off(const std::string& uuid);
  void forget(const std::string& uuid);
  /// It does not run here any more: its log is closed when this returns. What it paid for is kept
  /// until its last cycle is paid for, as it may come back.
  void left(const std::string& uuid);
  /// As the constructor's, measured again: the least of all counts, as a busy machine makes faults
  /// look dear.
  void saw_first_write(std::chrono::nanoseconds takes);
  /// Somebody wants to know how it writes now: begins some short cycles (a guest that writes in
  /// bursts looks another way at each) and then a new one, unless that was a moment ago; as many of
  /// them as cost the guest no more than a cycle may that lasted since the last one began. Where it
  /// would feel them its content is looked at instead, at no cost for it, and they begin only if it
  /// writes less than when it was armed last. Returns when that will tell something; 0 if the VM's
  /// log is not open, or nothing was begun. The next step is due then.
  Milliseconds look_anew(const std::string& uuid);
  /// Nothing if it was never watched here.
  std::optional<WatchReport> report(const std::string& uuid) const;

  /// Does what is due; the time of the next step.
  MonotonicTime step();

 private:
  struct Cycle {
    DirtyCycle seen;
    MonotonicTime began{0};
    Microseconds progress_then{0};
    // By its first and its last reading; a cycle of one has seen nothing of it.
    Microseconds wanted{0};
    Microseconds granted{0};
    std::optional<LogReading> first = {};
    Microseconds length{0};  // as planned; at its end, until the next one began
    Bytes written;           // by the last reading, kept as a point or not
    std::size_t vcpus = 1;
    std::size_t first_pages = 0;  // by the first reading, and not by that of the cycle before,
    std::size_t first_runs = 0;   // in so many runs
    std::chrono::nanoseconds arming{0};
    std::chrono::nanoseconds scanning{0};  // the arming included
    std::chrono::nanoseconds owed{0};      // by the short cycles before it
    bool glance = false;                   // a short one
    bool whole = false;
    bool first_of_log = false;             // since it was opened;
    std::vector<DirtyPoint> onwards = {};  // then with those after it
  };
  struct SeenByContent {
    DirtyCycle cycle;
    PageSet written;
    std::vector<double> heat;
    Microseconds lasted() const { return cycle.points.back().wall; }
  };
  struct Vm {
    Vm();
    std::mutex busy;  // held while its log works; never taken under mutex_
    std::unique_ptr<PageLog> log;
    bool just_opened = false;  // no cycle of it has seen anything yet
    MonotonicTime opened{0};
    // The rest under mutex_.
    std::deque<Cycle> cycles;
    JoinedCycles joined;
    std::vector<double> heat;
    PageSet written;
    PageSet first_look;               // of the last cycle
    PageSet lately;                   // since the running cycle began, or the glances before it
    std::vector<double> lately_heat;  // the same
    PageSet gathered;                 // in cycles that were cut short, since the last long one,
    std::vector<double> gathered_heat;
    Microseconds gathered_for{0};  // in so much time
    SweepFinder sweep;
    MonotonicTime looked{0};  // at the log, last
    std::string why = "its log is not open yet";
    bool hopeless = false;
    bool settles = false;         // it has just come, and its log is not open yet
    bool gone = false;            // from here, and what it paid for is kept for a while
    Microseconds next_length{0};  // of a cycle that is no glance
    MonotonicTime due{0};
    std::optional<MonotonicTime> glanced;  // when somebody wanted to know, last,
    MonotonicTime tells_at{0};             // and when that tells
    int glances = 0;                       // to come
    std::optional<ContentLook> content;    // a cycle that is seen by it,
    WallTime content_began{0};
    MonotonicTime content_from{0};
    Microseconds content_length{0};       // as planned
    Microseconds next_content_length{0};  // 0: none was begun yet
    MonotonicTime content_due{0};
    bool content_told = false;  // whether it sweeps, or not
    MonotonicTime content_not_before{0};
    std::size_t content_usual = 0;         // pages that changed in kUsualFor, if that matters
    std::optional<SweepSpeed> speed;       // by the last such looks,
    MonotonicTime speed_seen{0};           // which were then
    std::deque<SeenByContent> by_content;  // cycles that are over
    std::chrono::nanoseconds owed{0};
  };
  using VmPtr = std::shared_ptr<Vm>;

  VmPtr find(const std::string& uuid) const;
  std::chrono::nanoseconds faults(Bytes written) const;
  std::chrono::nanoseconds cost(const Cycle& cycle) const;
  struct LookAnew {
    std::optional<int> glances;  // that may be made; none: not even a cycle
    bool felt = false;           // by the guest
    std::size_t usual_pages = 0;
  };
  LookAnew what_a_look_may_cost(const Vm& vm) const;
  Status glance(Vm& vm, int glances);
  void begin_content(Vm& vm) const;
  void goes_on_by_content(Vm& vm) const;
  bool looks_first(Vm& vm) const;
  void look_at_content(const std::string& uuid, Vm& vm);
  static void tell_by_content(Vm& vm, MonotonicTime now);
  Status take_content(Vm& vm) const;
  static void end_content(Vm& vm);
  static PageSet all_written(const Vm& vm);
  SweepFinder::Found sweep_of(const Vm& vm) const;
  std::vector<DirtyPoint> seen_by(const Vm& vm, const Cycle& cycle) const;
  static MonotonicTime next_due(const Vm& vm);
  MonotonicTime paid_for_at(const Vm& vm) const;
  bool put_off_until(Vm& vm, MonotonicTime then) const;
  bool puts_off_its_next_cycle(Vm& vm) const;
  void gone(const std::string& uuid, Vm& vm, const std::string& why);
  void work(const std::string& uuid, Vm& vm);
  void work_on_log(const std::string& uuid, Vm& vm);
  Status begin_cycle(Vm& vm);
  Status begin_next_cycle(Vm& vm);
  Status look_once_more(Vm& vm);
  Status take_point(Vm& vm);
  void add_point(Vm& vm, const LogReading& reading, MonotonicTime before, MonotonicTime after);
  static void join(Vm& vm, const LogReading& seen, const DirtyPoint& point);
  static std::vector<DirtyPoint> beyond_others(const Vm& vm, const Cycle& cycle);
  static void keep_heat(Vm& vm, const LogReading& seen);
  static void keep_lately(Vm& vm, const LogReading& seen);
  static void gather(Vm& vm, Microseconds length);
  static void forget_gathered(Vm& vm);
  static const PageSet& written_now(const Vm& vm);
  static double sequential_now(const Vm& vm);
  void cut_short(Vm& vm);
  void close_log(Vm& vm, const std::string& why, std::chrono::nanoseconds again);
  void failed(const std::string& uuid, Vm& vm, const Error& error);

  const OpenLog open_;
  Clock& clock_;
  Log& log_;
  mutable std::mutex mutex_;
  std::chrono::nanoseconds first_write_;
  std::map<std::string, VmPtr> vms_;  // by uuid
};

/// Calls a watcher's step() when it is due, from its making to its end.
class WatcherThread {
 public:
  WatcherThread(Watcher& watcher, Clock& clock);
  ~WatcherThread();
  WatcherThread(const WatcherThread&) = delete;
  WatcherThread& operator=(const WatcherThread&) = delete;
  /// Something is due earlier than the watcher said.
  void wake();

 private:
  void run();
  Watcher& watcher_;
  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace mare::dirtylog
