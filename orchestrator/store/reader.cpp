#include <algorithm>
#include <string>
#include <string_view>

#include "orchestrator/store/connection.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store.h"

namespace mare::store {
namespace {

template <typename T>
using Read = T (*)(Statement&);

/// Every row of "SELECT columns FROM tail", with the texts bound in order.
template <typename T>
Result<std::vector<T>> all(Connection& db, const std::string& columns, const std::string& tail,
                           Read<T> read, const std::vector<std::string>& texts = {}) {
  auto query = db.prepare("SELECT " + columns + " FROM " + tail);
  if (!query) return query.error();
  for (const auto& text : texts) query->bind(text);
  std::vector<T> rows;
  while (true) {
    auto row = query->step();
    if (!row) return row.error();
    if (!*row) return rows;
    rows.push_back(read(*query));
  }
}

template <typename T>
Result<T> one(Connection& db, const std::string& columns, const std::string& table, Read<T> read,
              const std::string& kind, const std::string& id) {
  auto rows = all<T>(db, columns, table + " WHERE id = ?", read, {id});
  if (!rows) return rows.error();
  if (rows->empty()) {
    return make_error(Code::NotFound, "there is no " + kind + " '" + id + "'",
                      "'mare " + kind + " list' shows those that are there");
  }
  return std::move(rows->front());
}

OperationEvent read_operation_event(Statement& row) {
  OperationEvent event;
  event.seq = row.natural();
  event.operation = OperationId{row.text()};
  event.at = WallTime{row.integer()};
  event.from = row.text();
  event.event = row.text();
  event.to = row.text();
  event.detail = row.text();
  return event;
}

Event read_event(Statement& row) {
  Event event;
  event.seq = row.natural();
  event.at = WallTime{row.integer()};
  event.topic = row.text();
  event.subject = row.text();
  event.type = row.text();
  event.data = row.text();
  return event;
}

Reservation read_reservation(Statement& row) {
  Reservation reservation;
  reservation.operation = OperationId{row.text()};
  reservation.host = HostId{row.text()};
  reservation.memory = Bytes{row.natural()};
  return reservation;
}

}  // namespace

Result<Host> Reader::host(const HostId& id) const {
  return one<Host>(db_, kHostColumns, "host", read_host, "host", id.value);
}
Result<std::vector<Host>> Reader::hosts() const {
  return all<Host>(db_, kHostColumns, "host ORDER BY id", read_host);
}
Result<Pool> Reader::pool(const PoolId& id) const {
  return one<Pool>(db_, kPoolColumns, "pool", read_pool, "pool", id.value);
}
Result<std::vector<Pool>> Reader::pools() const {
  return all<Pool>(db_, kPoolColumns, "pool ORDER BY id", read_pool);
}

Result<Autoscaler> Reader::autoscaler(const PoolId& pool) const {
  auto rows = all<Autoscaler>(db_, kAutoscalerColumns, "autoscaler WHERE id = ?", read_autoscaler,
                              {pool.value});
  if (!rows) return rows.error();
  if (!rows->empty()) return std::move(rows->front());
  return make_error(Code::NotFound, "pool '" + pool.value + "' is not scaled by a rule",
                    "give it one with 'mare pool autoscale'");
}

Result<std::vector<Autoscaler>> Reader::autoscalers() const {
  return all<Autoscaler>(db_, kAutoscalerColumns, "autoscaler ORDER BY id", read_autoscaler);
}
Result<Quota> Reader::quota(const ProjectId& project) const {
  auto rows = all<Quota>(db_, kQuotaColumns, "quota WHERE id = ?", read_quota, {project.value});
  if (!rows) return rows.error();
  return rows->empty() ? Quota{project} : std::move(rows->front());
}

Result<std::vector<Quota>> Reader::quotas() const {
  return all<Quota>(db_, kQuotaColumns, "quota ORDER BY id", read_quota);
}
Result<Rebalancing> Reader::rebalancing() const {
  auto rows = all<Rebalancing>(db_, kRebalancingColumns, "rebalancing", read_rebalancing);
  if (!rows) return rows.error();
  return rows->empty() ? Rebalancing{} : std::move(rows->front());
}
Result<Vm> Reader::vm(const VmId& id) const {
  return one<Vm>(db_, kVmColumns, "vm", read_vm, "vm", id.value);
}
Result<std::vector<Vm>> Reader::vms() const {
  return all<Vm>(db_, kVmColumns, "vm ORDER BY pool, idx", read_vm);
}
Result<std::vector<Vm>> Reader::vms_of(const PoolId& pool) const {
  return all<Vm>(db_, kVmColumns, "vm WHERE pool = ? ORDER BY idx", read_vm, {pool.value});
}
Result<std::vector<Vm>> Reader::vms_of_project(const ProjectId& project) const {
  return all<Vm>(db_, kVmColumns,
                 "vm WHERE pool IN (SELECT id FROM pool WHERE project = ?) ORDER BY pool, idx",
                 read_vm, {project.value});
}
Result<std::vector<Vm>> Reader::vms_on(const HostId& host) const {
  return all<Vm>(db_, kVmColumns, "vm WHERE host = ? ORDER BY pool, idx", read_vm, {host.value});
}
Result<bool> Reader::has_ended(const std::string& uuid) const {
  auto query = db_.prepare("SELECT count(*) FROM ended_vm WHERE uuid = ?");
  if (!query) return query.error();
  query->bind(uuid);
  auto row = query->step();
  if (!row) return row.error();
  return query->natural() > 0;
}
Result<Job> Reader::job(const JobId& id) const {
  return one<Job>(db_, kJobColumns, "job", read_job, "job", id.value);
}
Result<std::vector<Job>> Reader::jobs(std::size_t limit) const {
  return all<Job>(db_, kJobColumns, "job ORDER BY seq DESC LIMIT " + std::to_string(limit),
                  read_job);
}
Result<std::vector<Job>> Reader::unfinished_jobs_of(const PoolId& pool) const {
  return all<Job>(db_, kJobColumns,
                  "job WHERE pool = ? AND state IN ('queued', 'starting', 'running') ORDER BY seq",
                  read_job, {pool.value});
}
Result<std::vector<Job>> Reader::jobs_with_partners() const {
  return all<Job>(db_, kJobColumns,
                  "job WHERE checkpoint_partner = 1 AND state IN ('queued', 'starting', 'running') "
                  "ORDER BY seq",
                  read_job);
}
Result<bool> Reader::had_job_with_partners() const {
  auto query = db_.prepare("SELECT EXISTS (SELECT 1 FROM job WHERE checkpoint_partner = 1)");
  if (!query) return query.error();
  auto row = query->step();
  if (!row) return row.error();
  return query->natural() > 0;
}
Result<Operation> Reader::operation(const OperationId& id) const {
  return one<Operation>(db_, kOperationColumns, "operation", read_operation, "operation", id.value);
}

Result<std::vector<Operation>> Reader::operations(const OperationFilter& filter) const {
  std::string tail = "operation WHERE 1";
  std::vector<std::string> texts;
  if (filter.target) {
    tail += " AND target = ?";
    texts.push_back(*filter.target);
  }
  if (filter.kind) {
    tail += " AND kind = ?";
    texts.emplace_back(to_string(*filter.kind));
  }
  if (filter.parent) {
    tail += " AND parent = ?";
    texts.push_back(filter.parent->value);
  }
  if (filter.unfinished_only) tail += " AND outcome = 'pending'";
  tail += filter.unfinished_only ? " ORDER BY seq" : " ORDER BY seq DESC";
  tail += " LIMIT " + std::to_string(filter.limit);
  return all<Operation>(db_, kOperationColumns, tail, read_operation, texts);
}

Result<std::optional<Operation>> Reader::unfinished(std::string_view noun,
                                                    const std::string& target) const {
  auto rows = all<Operation>(db_, kOperationColumns,
                             "operation WHERE target = ? AND outcome = 'pending' AND "
                             "substr(kind, 1, instr(kind, '.') - 1) = ?",
                             read_operation, {target, std::string(noun)});
  if (!rows) return rows.error();
  if (rows->empty()) return std::optional<Operation>{};
  return std::optional<Operation>{std::move(rows->front())};
}

Result<std::vector<OperationEvent>> Reader::history(const OperationId& id) const {
  return all<OperationEvent>(db_, "seq, operation, at_us, from_state, event, to_state, detail",
                             "operation_event WHERE operation = ? ORDER BY seq",
                             read_operation_event, {id.value});
}
Result<Migration> Reader::migration(const OperationId& id) const {
  return one<Migration>(db_, kMigrationColumns, "migration", read_migration, "migration", id.value);
}
Result<std::vector<Migration>> Reader::migrations(std::size_t limit) const {
  return all<Migration>(db_, kMigrationColumns,
                        "migration ORDER BY seq DESC LIMIT " + std::to_string(limit),
                        read_migration);
}
Result<std::vector<Migration>> Reader::migrations_with_files() const {
  return all<Migration>(db_, kMigrationColumns, "migration WHERE file_path <> ''", read_migration);
}
Result<Forecast> Reader::forecast(const OperationId& id) const {
  return one<Forecast>(db_, kForecastColumns, "forecast", read_forecast, "forecast", id.value);
}
Result<std::vector<Forecast>> Reader::forecasts(const std::optional<VmId>& vm,
                                                std::size_t limit) const {
  const std::string tail = " ORDER BY seq DESC LIMIT " + std::to_string(limit);
  if (!vm) return all<Forecast>(db_, kForecastColumns, "forecast" + tail, read_forecast);
  return all<Forecast>(db_, kForecastColumns, "forecast WHERE vm = ?" + tail, read_forecast,
                       {vm->value});
}
Result<std::vector<Forecast>> Reader::past_moves(std::size_t limit) const {
  auto rows = all<Forecast>(
      db_, kForecastColumns,
      "forecast WHERE outcome IS NOT NULL ORDER BY seq DESC LIMIT " + std::to_string(limit),
      read_forecast);
  if (rows) std::reverse(rows->begin(), rows->end());
  return rows;
}
Result<std::vector<VmId>> Reader::moved_after(WallTime time) const {
  auto query = db_.prepare("SELECT DISTINCT vm FROM migration WHERE switched_us > ? ORDER BY vm");
  if (!query) return query.error();
  query->bind(time.count());
  std::vector<VmId> out;
  while (true) {
    auto row = query->step();
    if (!row) return row.error();
    if (!*row) return out;
    out.push_back(VmId{query->text()});
  }
}
Result<std::vector<Forecast>> Reader::scored_forecasts(WallTime since) const {
  // Nothing is asked of their profiles, which are much longer than all the rest.
  std::string columns = kForecastColumns;
  constexpr std::string_view kProfile = "profile";
  columns.replace(columns.find(kProfile), kProfile.size(), "'{}'");
  // Both have an index of few rows; by OR neither would be used.
  return all<Forecast>(db_, columns,
                       "forecast WHERE made_us >= " + std::to_string(since.count()) +
                           " AND seq IN (SELECT seq FROM forecast WHERE outcome IS NOT NULL"
                           " UNION SELECT seq FROM forecast WHERE verdicts <> '[]') ORDER BY seq",
                       read_forecast);
}
Result<std::vector<Forecast>> Reader::newest_forecasts() const {
  // The newest of each by the index; and of this incarnation, as an earlier one of that name wrote
  // as another.
  return all<Forecast>(
      db_, kForecastColumns,
      "forecast WHERE seq IN (SELECT (SELECT max(f.seq) FROM forecast f WHERE f.vm = vm.id)"
      " FROM vm WHERE vm.state IN ('running', 'migrating'))"
      " AND made_us >= (SELECT started_us FROM vm WHERE vm.id = forecast.vm) ORDER BY vm",
      read_forecast);
}
Result<std::uint64_t> Reader::forecast_count(WallTime since) const {
  // All of them an index counts.
  const bool all_of_them = since.count() == 0;
  auto query = db_.prepare(std::string("SELECT count(*) FROM forecast") +
                           (all_of_them ? "" : " WHERE made_us >= ?"));
  if (!query) return query.error();
  if (!all_of_them) query->bind(since.count());
  auto row = query->step();
  if (!row) return row.error();
  return query->natural();
}
Result<Checkpoint> Reader::checkpoint(const CheckpointId& id) const {
  auto row = one<Checkpoint>(db_, kCheckpointColumns, "checkpoint", read_checkpoint, "checkpoint",
                             id.value);
  if (row || row.error().code != Code::NotFound) return row;
  return make_error(Code::NotFound, row.error().message,
                    "'mare job checkpoints JOB' shows those that are there");
}
Result<std::vector<Checkpoint>> Reader::checkpoints_of(const JobId& job) const {
  return all<Checkpoint>(db_, kCheckpointColumns, "checkpoint WHERE job = ? ORDER BY seq DESC",
                         read_checkpoint, {job.value});
}
Result<std::vector<Checkpoint>> Reader::checkpoints_in(CheckpointState state) const {
  return all<Checkpoint>(db_, kCheckpointColumns, "checkpoint WHERE state = ? ORDER BY seq",
                         read_checkpoint, {std::string(to_string(state))});
}
Result<std::vector<Checkpoint>> Reader::checkpoints_with_partners() const {
  return all<Checkpoint>(db_, kCheckpointColumns,
                         "checkpoint WHERE EXISTS (SELECT 1 FROM json_each(parts) WHERE "
                         "json_extract(value, '$.partner') <> '') ORDER BY seq",
                         read_checkpoint);
}
Result<std::vector<Reservation>> Reader::reservations() const {
  return all<Reservation>(db_, "operation, host, memory_bytes", "reservation ORDER BY operation",
                          read_reservation);
}
Result<std::vector<Event>> Reader::events_after(std::uint64_t seq, std::size_t limit) const {
  return all<Event>(
      db_, "seq, at_us, topic, subject, type, data",
      "event WHERE seq > " + std::to_string(seq) + " ORDER BY seq LIMIT " + std::to_string(limit),
      read_event);
}

Result<std::uint64_t> Reader::last_event() const {
  auto query = db_.prepare("SELECT coalesce(max(seq), 0) FROM event");
  if (!query) return query.error();
  auto row = query->step();
  if (!row) return row.error();
  return query->natural();
}

}  // namespace mare::store
