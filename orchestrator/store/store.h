// All of Maré's durable state, in one SQLite file (WAL, synchronous=FULL). Owns every line of SQL.
//
// Threads: write() may be called from any thread, one at a time runs; read() uses a second
// connection and sees the last commit. After a crash the file holds exactly the transactions that
// write() reported ok.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"
#include "orchestrator/model/autoscaler.h"
#include "orchestrator/model/entities.h"
#include "orchestrator/model/rebalancing.h"

namespace mare::store {

class Connection;

/// Memory at a destination that a running operation accounts for.
struct Reservation {
  OperationId operation;
  HostId host;
  Bytes memory;
};

struct OperationFilter {
  std::optional<std::string> target;
  std::optional<OperationKind> kind;
  std::optional<OperationId> parent;
  bool unfinished_only = false;
  std::size_t limit = 1000;  // newest first, unless unfinished_only (oldest first)
};

/// Queries; inside a transaction they see its own changes. A missing row is NotFound and names it.
class Reader {
 public:
  explicit Reader(Connection& connection) : db_(connection) {}

  Result<Host> host(const HostId& id) const;
  Result<std::vector<Host>> hosts() const;
  Result<Pool> pool(const PoolId& id) const;
  Result<std::vector<Pool>> pools() const;
  /// Of a pool that has a rule; NotFound if it has none.
  Result<Autoscaler> autoscaler(const PoolId& pool) const;
  Result<std::vector<Autoscaler>> autoscalers() const;
  /// Without a row: one without limits.
  Result<Quota> quota(const ProjectId& project) const;
  Result<std::vector<Quota>> quotas() const;
  /// The defaults while nothing was asked or seen.
  Result<Rebalancing> rebalancing() const;
  Result<Vm> vm(const VmId& id) const;
  Result<std::vector<Vm>> vms() const;
  Result<std::vector<Vm>> vms_of(const PoolId& pool) const;
  Result<std::vector<Vm>> vms_of_project(const ProjectId& project) const;
  Result<std::vector<Vm>> vms_on(const HostId& host) const;
  /// Whether this incarnation is over: its VM was deleted, or started again under another UUID.
  Result<bool> has_ended(const std::string& uuid) const;
  Result<Job> job(const JobId& id) const;
  /// Newest first.
  Result<std::vector<Job>> jobs(std::size_t limit = 1000) const;
  Result<std::vector<Job>> unfinished_jobs_of(const PoolId& pool) const;
  /// Unfinished ones whose newest checkpoint is to be in the memory of partner hosts as well.
  Result<std::vector<Job>> jobs_with_partners() const;
  /// Whether there ever was one, ended or not.
  Result<bool> had_job_with_partners() const;
  Result<Operation> operation(const OperationId& id) const;
  Result<std::vector<Operation>> operations(const OperationFilter& filter) const;
  /// The unfinished operation of a target, if there is one. `noun` is what stands before the dot in
  /// the operation's kind ("host", "pool", "vm", "job"): names are unique within one noun only.
  Result<std::optional<Operation>> unfinished(std::string_view noun,
                                              const std::string& target) const;
  Result<std::vector<OperationEvent>> history(const OperationId& id) const;
  Result<Migration> migration(const OperationId& id) const;
  /// Newest first.
  Result<std::vector<Migration>> migrations(std::size_t limit = 1000) const;
  /// Those whose file may be there.
  Result<std::vector<Migration>> migrations_with_files() const;
  /// VMs that have come to their hosts after that.
  Result<std::vector<VmId>> moved_after(WallTime time) const;
  Result<Forecast> forecast(const OperationId& id) const;
  /// Newest first; of one VM if one is named.
  Result<std::vector<Forecast>> forecasts(const std::optional<VmId>& vm = {},
                                          std::size_t limit = 1000) const;
  /// The last ones that a migration has answered, newest last.
  Result<std::vector<Forecast>> past_moves(std::size_t limit) const;
  /// Made at that time or later and answered by a migration, or with verdicts that were scored;
  /// oldest first.
  Result<std::vector<Forecast>> scored_forecasts(WallTime since = {}) const;
  /// Made at that time or later.
  Result<std::uint64_t> forecast_count(WallTime since = {}) const;
  /// Of each VM that runs, its newest one, of whichever move.
  Result<std::vector<Forecast>> newest_forecasts() const;
  Result<Checkpoint> checkpoint(const CheckpointId& id) const;
  /// Newest first, in any state.
  Result<std::vector<Checkpoint>> checkpoints_of(const JobId& job) const;
  /// Oldest first, of all jobs.
  Result<std::vector<Checkpoint>> checkpoints_in(CheckpointState state) const;
  /// In any state, with parts whose rows name a partner.
  Result<std::vector<Checkpoint>> checkpoints_with_partners() const;
  Result<std::vector<Reservation>> reservations() const;
  /// Events after `seq`, oldest first.
  Result<std::vector<Event>> events_after(std::uint64_t seq, std::size_t limit) const;
  Result<std::uint64_t> last_event() const;

 protected:
  Connection& db_;
};

/// Changes, all or none.
class Transaction : public Reader {
 public:
  using Reader::Reader;

  /// put: inserts or replaces the row of that id.
  Status put(const Host& host);
  Status put(const Pool& pool);
  Status put(const Vm& vm);
  Status put(const Job& job);
  Status put(const Migration& migration);
  Status put(const Forecast& forecast);
  Status put(const Checkpoint& checkpoint);
  Status put(const Autoscaler& autoscaler);
  Status erase_autoscaler(const PoolId& pool);
  Status put(const Quota& quota);
  Status erase_quota(const ProjectId& project);
  Status put(const Rebalancing& rebalancing);
  Status erase(const HostId& id);
  Status erase(const PoolId& id);
  Status erase(const VmId& id);
  Status erase(const CheckpointId& id);
  /// Conflict if its target has an unfinished operation (partial unique index).
  Status insert(const Operation& operation);
  Status update(const Operation& operation);
  Status append(const OperationEvent& event);  // seq is given by the store
  Status append(const Event& event);           // seq is given by the store
  Status reserve(const Reservation& reservation);
  Status release(const OperationId& operation);
  /// 1, 2, 3... for each name.
  Result<std::uint64_t> next_number(const std::string& counter);
};

class Store {
 public:
  /// Opens or creates the file and brings its schema up to date. FailedPrecondition: made by a
  /// newer version.
  static Result<std::unique_ptr<Store>> open(const std::string& path);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Runs `change` in one transaction; commits if it returns ok, else leaves everything as it was.
  Status write(const std::function<Status(Transaction&)>& change);
  /// Runs `query` on a consistent snapshot.
  Status read(const std::function<Status(const Reader&)>& query) const;

  /// Transactions committed since open().
  std::uint64_t commits() const;
  /// For tests: after that many commits every later write fails as if the process had died.
  void stop_after_commits(std::uint64_t commits);
  /// Removes events, finished operations with their histories, and forecasts that no migration
  /// followed, older than `before`. Migrations stay, and with them their forecasts.
  Status prune(WallTime before);

 private:
  Store(std::unique_ptr<Connection> writer, std::unique_ptr<Connection> reader);

  mutable std::mutex writer_mutex_;
  mutable std::mutex reader_mutex_;
  std::unique_ptr<Connection> writer_;
  std::unique_ptr<Connection> reader_;
  std::uint64_t commits_ = 0;
  std::optional<std::uint64_t> stop_after_;
};

}  // namespace mare::store
