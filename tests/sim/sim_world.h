// A whole Maré in one thread: a simulated cluster, the real engine and store, a clock that jumps.
// mared can be killed between any two steps and started again on the same database; the cluster,
// like a real one, goes on meanwhile.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hypervisor/sim/sim_cluster.h"
#include "hypervisor/sim/sim_guests.h"
#include "orchestrator/core/log.h"
#include "orchestrator/engine/engine.h"

namespace mare::test {

/// Runs the engine's calls at random virtual times, one after the other, in any order.
class SimExecutor final : public engine::Executor {
 public:
  SimExecutor(ManualClock& clock, Rng& rng) : clock_(clock), rng_(rng) {}
  void run(const std::string& lane, std::function<void()> work) override;
  /// Runs what is due; `after_each` is called after every call.
  void run_due(const std::function<void()>& after_each);
  std::optional<MonotonicTime> next_due() const;
  /// kill -9 of mared: of the calls under way some were never made, some are made now and their
  /// answers are lost.
  void crash(const std::function<void()>& after_each);
  /// From now on a call is made only if `alive` says so when it is asked for; else it is as if the
  /// process had died before.
  void die_unless(std::function<bool()> alive) { alive_ = std::move(alive); }
  /// The next call of that lane takes this long.
  void slow_next(const std::string& lane, std::chrono::nanoseconds delay) { slow_[lane] = delay; }
  /// Longest time between asking for a call and its being made, most are much shorter.
  void set_longest_delay(std::chrono::nanoseconds longest) { longest_ = longest; }

 private:
  struct Call {
    std::string lane;
    std::function<void()> work;
  };
  ManualClock& clock_;
  Rng& rng_;
  std::chrono::nanoseconds longest_ = std::chrono::milliseconds{800};
  std::multimap<MonotonicTime, Call> calls_;
  std::map<std::string, std::chrono::nanoseconds> slow_;
  std::function<bool()> alive_;
};

/// A directory of its own on a file system in memory, removed with it.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& name);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The rows that invariants are about, of one moment.
struct Snapshot {
  std::vector<Host> hosts;
  std::vector<Vm> vms;
  std::vector<Job> unfinished_jobs;
  std::vector<Operation> unfinished;
  std::vector<store::Reservation> reservations;
};

class SimWorld {
 public:
  explicit SimWorld(std::uint64_t seed);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  /// Opens the store and starts an engine on it; recovers if there was one before.
  void start_mared(engine::Engine::AfterCommit after_commit = {});
  /// kill -9: what is not committed is gone.
  void kill_mared();
  bool mared_runs() const { return engine_ != nullptr; }
  engine::Engine& engine() { return *engine_; }
  store::Store& store() { return *store_; }
  bool store_is_open() const { return store_ != nullptr; }

  /// Plays everything up to `until`, event by event.
  void play_until(MonotonicTime until);
  void play(std::chrono::nanoseconds span) { play_until(clock.now() + span); }
  /// Plays until `done` or `limit` is over; tells whether it is done.
  bool play_while_not(const std::function<bool()>& done, std::chrono::nanoseconds limit);
  /// Called after everything that happened, with mared up or down.
  void on_step(std::function<void()> callback) { on_step_ = std::move(callback); }

  /// Adds a simulated host and tells mared; plays until it is Up.
  Status add_host(const std::string& name, const sim::HostModel& model = {});
  /// Plays until that operation has ended.
  Operation wait(const OperationId& id, std::chrono::nanoseconds limit = std::chrono::hours{1});
  bool all_ended();

  // Rows, read at once; a missing one fails the process: a test asks for what must be there.
  Operation operation(const OperationId& id);
  std::vector<Operation> operations(bool unfinished_only = false);
  std::vector<Vm> vms();
  std::vector<Job> jobs();
  /// Of all jobs, in any state.
  std::vector<Checkpoint> checkpoints();
  std::vector<Host> hosts();
  std::vector<Pool> pools();
  Snapshot snapshot();
  std::string output_of(const JobId& job);
  /// The last lines of the log, for a failure's report.
  std::string log_tail(std::size_t lines) const;
  std::string database() const { return scratch_.path() + "/mare.db"; }

  /// What an engine that starts from now on computes forecasts with.
  std::function<policy::Verdict(const policy::ForecastInput&)> forecast = policy::forecast;

  /// What an engine that starts from now on asks Prometheus with.
  std::function<Result<engine::HttpAnswer>(const PrometheusQuery&)> prometheus;

  /// What an engine that starts from now on turns hosts off with, if anything.
  engine::FenceCommand* fence_command = nullptr;

  /// Settings::auto_spread of an engine that starts from now on.
  Seconds auto_spread{0};

  /// Settings::rebalance_period of an engine that starts from now on. Without it no look at the
  /// placement disturbs the order of calls.
  Milliseconds rebalance_period{0};

  /// Settings::move_caps of an engine that starts from now on.
  policy::MoveCaps move_caps{};

  /// Its machine has run for a while: what takes "never" for "at the machine's start" shows.
  ManualClock clock{WallTime{1'700'000'000'000'000}, std::chrono::hours{240}};
  SeededRng scenario;  // for what happens, so that a change in the engine does not change it

 private:
  class Drivers;
  class Images;
  /// The next time at which something of this world is due.
  MonotonicTime next_due();

  ScratchDirectory scratch_;
  SeededRng cluster_rng_;
  SeededRng engine_rng_;
  SeededRng executor_rng_;

 public:
  sim::SimCluster cluster;
  sim::SimGuests guests;
  SimExecutor executor;

 private:
  std::unique_ptr<Drivers> drivers_;
  std::unique_ptr<Images> images_;
  std::deque<std::string> log_lines_;
  Log log_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<MonotonicTime> engine_due_;
  bool started_before_ = false;
  std::function<void()> on_step_;
};

}  // namespace mare::test
