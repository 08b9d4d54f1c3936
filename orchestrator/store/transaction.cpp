#include <algorithm>
#include <string>

#include "orchestrator/store/connection.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store.h"

namespace mare::store {
namespace {

/// "INSERT INTO table (a, b) VALUES (?, ?) ON CONFLICT(id) DO UPDATE SET a = excluded.a, ..."
std::string upsert(const std::string& table, const std::string& columns) {
  std::string marks = "?";
  std::string updates;
  std::size_t begin = 0;
  while (true) {
    const auto comma = columns.find(", ", begin);
    const std::string column = columns.substr(begin, comma - begin);
    if (column != "id") updates += (updates.empty() ? "" : ", ") + column + " = excluded." + column;
    if (comma == std::string::npos) break;
    marks += ", ?";
    begin = comma + 2;
  }
  return "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks +
         ") ON CONFLICT(id) DO UPDATE SET " + updates;
}

std::string insert_only(const std::string& table, const std::string& columns) {
  const auto count = std::count(columns.begin(), columns.end(), ',');
  std::string marks = "?";
  for (std::ptrdiff_t i = 0; i < count; ++i) marks += ", ?";
  return "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks + ")";
}

template <typename T>
Status run_with_row(Connection& db, const std::string& sql, const T& row) {
  auto statement = db.prepare(sql);
  if (!statement) return statement.error();
  bind_row(*statement, row);
  return statement->run();
}

Status run_with_text(Connection& db, const std::string& sql, const std::string& text) {
  auto statement = db.prepare(sql);
  if (!statement) return statement.error();
  statement->bind(text);
  return statement->run();
}

}  // namespace

Status Transaction::put(const Host& host) {
  return run_with_row(db_, upsert("host", kHostColumns), host);
}
Status Transaction::put(const Pool& pool) {
  return run_with_row(db_, upsert("pool", kPoolColumns), pool);
}
Status Transaction::put(const Vm& vm) {
  return run_with_row(db_, upsert("vm", kVmColumns), vm);
}
Status Transaction::put(const Job& job) {
  return run_with_row(db_, upsert("job", kJobColumns), job);
}
Status Transaction::put(const Migration& migration) {
  return run_with_row(db_, upsert("migration", kMigrationColumns), migration);
}
Status Transaction::put(const Forecast& forecast) {
  return run_with_row(db_, upsert("forecast", kForecastColumns), forecast);
}
Status Transaction::put(const Checkpoint& checkpoint) {
  return run_with_row(db_, upsert("checkpoint", kCheckpointColumns), checkpoint);
}
Status Transaction::erase(const CheckpointId& id) {
  return run_with_text(db_, "DELETE FROM checkpoint WHERE id = ?", id.value);
}
Status Transaction::put(const Autoscaler& autoscaler) {
  return run_with_row(db_, upsert("autoscaler", kAutoscalerColumns), autoscaler);
}
Status Transaction::erase_autoscaler(const PoolId& pool) {
  return run_with_text(db_, "DELETE FROM autoscaler WHERE id = ?", pool.value);
}
Status Transaction::put(const Quota& quota) {
  return run_with_row(db_, upsert("quota", kQuotaColumns), quota);
}
Status Transaction::erase_quota(const ProjectId& project) {
  return run_with_text(db_, "DELETE FROM quota WHERE id = ?", project.value);
}
Status Transaction::put(const Rebalancing& rebalancing) {
  return run_with_row(db_, upsert("rebalancing", kRebalancingColumns), rebalancing);
}
Status Transaction::erase(const HostId& id) {
  return run_with_text(db_, "DELETE FROM host WHERE id = ?", id.value);
}
Status Transaction::erase(const PoolId& id) {
  return run_with_text(db_, "DELETE FROM pool WHERE id = ?", id.value);
}
Status Transaction::erase(const VmId& id) {
  return run_with_text(db_, "DELETE FROM vm WHERE id = ?", id.value);
}

Status Transaction::insert(const Operation& operation) {
  const std::string_view kind = to_string(operation.kind);
  auto busy = unfinished(kind.substr(0, kind.find('.')), operation.target);
  if (!busy) return busy.error();
  if (*busy) {
    const Operation& other = **busy;
    return make_error(Code::Conflict,
                      "'" + operation.target + "' is held by " + other.id.value + " (" +
                          std::string(to_string(other.kind)) + ", " + other.state + ")",
                      "wait for it with 'mare operation wait " + other.id.value +
                          "' or cancel it with 'mare operation cancel " + other.id.value + "'");
  }
  return run_with_row(db_, insert_only("operation", kOperationColumns), operation);
}

Status Transaction::update(const Operation& operation) {
  auto there = this->operation(operation.id);
  if (!there) return there.error();
  return run_with_row(db_, upsert("operation", kOperationColumns), operation);
}

Status Transaction::append(const OperationEvent& event) {
  auto statement = db_.prepare(
      "INSERT INTO operation_event (operation, at_us, from_state, event, to_state, detail) "
      "VALUES (?, ?, ?, ?, ?, ?)");
  if (!statement) return statement.error();
  statement->bind(event.operation.value).bind(event.at.count()).bind(event.from);
  statement->bind(event.event).bind(event.to).bind(event.detail);
  return statement->run();
}

Status Transaction::append(const Event& event) {
  auto statement =
      db_.prepare("INSERT INTO event (at_us, topic, subject, type, data) VALUES (?, ?, ?, ?, ?)");
  if (!statement) return statement.error();
  statement->bind(event.at.count()).bind(event.topic).bind(event.subject);
  statement->bind(event.type).bind(event.data);
  return statement->run();
}

Status Transaction::reserve(const Reservation& reservation) {
  auto statement = db_.prepare(
      "INSERT INTO reservation (operation, host, memory_bytes) VALUES (?, ?, ?) "
      "ON CONFLICT(operation) DO UPDATE SET host = excluded.host, memory_bytes = "
      "excluded.memory_bytes");
  if (!statement) return statement.error();
  statement->bind(reservation.operation.value).bind(reservation.host.value);
  statement->bind(reservation.memory.count);
  return statement->run();
}

Status Transaction::release(const OperationId& operation) {
  return run_with_text(db_, "DELETE FROM reservation WHERE operation = ?", operation.value);
}

Result<std::uint64_t> Transaction::next_number(const std::string& counter) {
  auto statement = db_.prepare(
      "INSERT INTO counter (name, value) VALUES (?, 1) "
      "ON CONFLICT(name) DO UPDATE SET value = value + 1 RETURNING value");
  if (!statement) return statement.error();
  statement->bind(counter);
  auto row = statement->step();
  if (!row) return row.error();
  const std::uint64_t value = statement->natural();
  // RETURNING gives its rows before the statement is complete: step on to the end.
  if (auto end = statement->step(); !end) return end.error();
  return value;
}

}  // namespace mare::store
