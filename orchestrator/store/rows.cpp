#include "orchestrator/store/rows.h"

#include <nlohmann/json.hpp>

namespace mare::store {
namespace {
using nlohmann::json;

std::int64_t signed_of(Bytes bytes) {
  return static_cast<std::int64_t>(bytes.count);
}

std::string list_of(const std::vector<std::string>& items) {
  // Foreign bytes (a command line) may not be UTF-8; they are kept readable rather than refused.
  return json(items).dump(-1, ' ', false, json::error_handler_t::replace);
}

template <typename Tag>
std::string list_of(const std::vector<Id<Tag>>& ids) {
  json out = json::array();
  for (const auto& id : ids) out.push_back(id.value);
  return out.dump();
}

std::vector<std::string> strings_from(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  std::vector<std::string> out;
  if (!parsed.is_array()) return out;
  for (const auto& item : parsed) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

template <typename IdType>
std::vector<IdType> ids_from(const std::string& text) {
  std::vector<IdType> out;
  for (auto& value : strings_from(text)) out.emplace_back(std::move(value));
  return out;
}

std::string rounds_text(const std::vector<Round>& rounds) {
  json out = json::array();
  for (const auto& round : rounds) {
    out.push_back({round.index, round.started.count(), round.duration.count(), round.sent.count,
                   round.remaining.count, round.dirty_bytes_per_s});
  }
  return out.dump();
}

std::vector<Round> rounds_from(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  std::vector<Round> out;
  if (!parsed.is_array()) return out;
  for (const auto& row : parsed) {
    if (!row.is_array() || row.size() != 6) continue;
    out.push_back(Round{row[0].get<int>(), Microseconds{row[1].get<std::int64_t>()},
                        Microseconds{row[2].get<std::int64_t>()},
                        Bytes{row[3].get<std::uint64_t>()}, Bytes{row[4].get<std::uint64_t>()},
                        row[5].get<double>()});
  }
  return out;
}

std::string earlier_text(const std::vector<EarlierTry>& tries) {
  json out = json::array();
  for (const auto& one : tries) {
    const Estimate& said = one.said_s;
    out.push_back({{"strategy", to_string(one.strategy)},
                   {"said_s", {said.value, said.low, said.high, said.model}},
                   {"lasted_us", one.lasted.count()},
                   {"sent_bytes", one.sent.count},
                   {"rounds", one.rounds},
                   {"ended_us", one.ended.count()}});
  }
  return out.dump();
}

std::vector<EarlierTry> earlier_from(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  std::vector<EarlierTry> out;
  if (!parsed.is_array()) return out;
  for (const auto& row : parsed) {
    if (!row.is_object()) continue;
    EarlierTry one;
    one.strategy = strategy_from(row.value("strategy", "")).value_or(Strategy::PreCopy);
    const auto said = row.value("said_s", std::vector<double>{});
    if (said.size() == 4) one.said_s = {said[0], said[1], said[2], said[3]};
    one.lasted = Microseconds{row.value("lasted_us", std::int64_t{0})};
    one.sent = Bytes{row.value("sent_bytes", std::uint64_t{0})};
    one.rounds = row.value("rounds", 0);
    one.ended = WallTime{row.value("ended_us", std::int64_t{0})};
    out.push_back(one);
  }
  return out;
}

std::string strategies_text(const std::vector<Strategy>& strategies) {
  json out = json::array();
  for (const auto strategy : strategies) out.push_back(to_string(strategy));
  return out.dump();
}

std::vector<Strategy> strategies_from(const std::string& text) {
  std::vector<Strategy> out;
  for (const auto& name : strings_from(text)) {
    if (const auto known = strategy_from(name)) out.push_back(*known);
  }
  return out;
}

std::optional<std::int64_t> count_of(const std::optional<Microseconds>& value) {
  if (!value) return std::nullopt;
  return value->count();
}

std::optional<Microseconds> micros(std::optional<std::int64_t> value) {
  if (!value) return std::nullopt;
  return Microseconds{*value};
}

// Text written by a newer or damaged program falls back to the state that promises least.
template <typename T>
T or_else(std::optional<T> value, T fallback) {
  return value.value_or(fallback);
}
}  // namespace

Host read_host(Statement& row) {
  Host host;
  host.id = HostId{row.text()};
  host.address = row.text();
  host.admin = or_else(host_admin_from(row.text()), HostAdmin::Drained);
  host.health = or_else(host_health_from(row.text()), HostHealth::Unknown);
  host.health_reason = row.text();
  host.memory = Bytes{row.natural()};
  host.cpus = row.number();
  host.vm_overhead = Bytes{row.natural()};
  host.hypervisor = row.text();
  host.live_migration = row.flag();
  host.added = WallTime{row.integer()};
  host.last_seen = WallTime{row.integer()};
  host.strategies = strategies_from(row.text());
  host.dirty_log = row.text();
  host.dirty_log_why = row.text();
  host.migration_tls = row.flag();
  host.failures = row.number();
  host.lease = Milliseconds{row.integer()};
  // What promises least: something may run there.
  host.fence = or_else(host_fence_from(row.text()), HostFence::Begun);
  host.fences = row.number();
  host.migration_address = row.text();
  host.cpu_speed = row.real();
  return host;
}

void bind_row(Statement& to, const Host& host) {
  to.bind(host.id.value).bind(host.address).bind(to_string(host.admin));
  to.bind(to_string(host.health)).bind(host.health_reason).bind(signed_of(host.memory));
  to.bind(host.cpus).bind(signed_of(host.vm_overhead)).bind(host.hypervisor);
  to.bind(host.live_migration).bind(host.added.count()).bind(host.last_seen.count());
  to.bind(strategies_text(host.strategies)).bind(host.dirty_log).bind(host.dirty_log_why);
  to.bind(host.migration_tls).bind(host.failures).bind(host.lease.count());
  to.bind(to_string(host.fence)).bind(host.fences).bind(host.migration_address);
  to.bind(host.cpu_speed);
}

Pool read_pool(Statement& row) {
  Pool pool;
  pool.id = PoolId{row.text()};
  pool.image = row.text();
  pool.image_version = row.text();
  pool.size = row.number();
  pool.memory = Bytes{row.natural()};
  pool.vcpus = row.number();
  pool.token = row.text();
  pool.hosts = ids_from<HostId>(row.text());
  pool.created = WallTime{row.integer()};
  pool.move_policy = policy_from(row.text());
  pool.project = ProjectId{row.text()};
  return pool;
}

void bind_row(Statement& to, const Pool& pool) {
  to.bind(pool.id.value).bind(pool.image).bind(pool.image_version).bind(pool.size);
  to.bind(signed_of(pool.memory)).bind(pool.vcpus).bind(pool.token);
  to.bind(list_of(pool.hosts)).bind(pool.created.count()).bind(policy_text(pool.move_policy));
  to.bind(pool.project.value);
}

Quota read_quota(Statement& row) {
  Quota quota;
  quota.project = ProjectId{row.text()};
  if (auto vms = row.maybe_integer()) quota.vms = static_cast<int>(*vms);
  if (auto memory = row.maybe_integer()) quota.memory = Bytes{static_cast<std::uint64_t>(*memory)};
  if (auto hosts = row.maybe_integer()) quota.hosts = static_cast<int>(*hosts);
  return quota;
}

void bind_row(Statement& to, const Quota& quota) {
  to.bind(quota.project.value).bind(quota.vms);
  to.bind(quota.memory ? std::optional<std::uint64_t>(quota.memory->count) : std::nullopt);
  to.bind(quota.hosts);
}

Vm read_vm(Statement& row) {
  Vm vm;
  vm.id = VmId{row.text()};
  vm.pool = PoolId{row.text()};
  vm.index = row.number();
  vm.uuid = row.text();
  if (auto mac = MacAddress::parse(row.text())) vm.mac = *mac;
  vm.ip = Ipv4Address{static_cast<std::uint32_t>(row.integer())};
  vm.memory = Bytes{row.natural()};
  vm.vcpus = row.number();
  vm.state = or_else(vm_state_from(row.text()), VmState::Lost);
  if (auto host = row.text(); !host.empty()) vm.host = HostId{host};
  vm.reason = row.text();
  vm.created = WallTime{row.integer()};
  vm.started = WallTime{row.integer()};
  return vm;
}

void bind_row(Statement& to, const Vm& vm) {
  to.bind(vm.id.value).bind(vm.pool.value).bind(vm.index).bind(vm.uuid).bind(vm.mac.text());
  to.bind(static_cast<std::int64_t>(vm.ip.value)).bind(signed_of(vm.memory)).bind(vm.vcpus);
  to.bind(to_string(vm.state));
  if (vm.host) {
    to.bind(vm.host->value);
  } else {
    to.bind_null();
  }
  to.bind(vm.reason).bind(vm.created.count()).bind(vm.started.count());
}

Job read_job(Statement& row) {
  Job job;
  job.id = JobId{row.text()};
  job.name = row.text();
  job.pool = PoolId{row.text()};
  job.command = strings_from(row.text());
  job.environment = strings_from(row.text());
  job.ranks = row.number();
  job.state = or_else(job_state_from(row.text()), JobState::Failed);
  if (auto code = row.maybe_integer()) job.exit_code = static_cast<int>(*code);
  job.reason = row.text();
  job.vms = ids_from<VmId>(row.text());
  job.output_bytes = row.natural();
  job.created = WallTime{row.integer()};
  job.started = WallTime{row.integer()};
  job.ended = WallTime{row.integer()};
  job.checkpoints.rule = or_else(checkpoint_rule_from(row.text()), CheckpointRule::Never);
  job.checkpoints.every = Microseconds{row.integer()};
  job.checkpoints.keep = row.number();
  job.restarts = row.number();
  job.recovery_from = CheckpointId{row.text()};
  job.recovery_tries = row.number();
  job.checkpoints.safe_points = row.flag();
  job.checkpoints.safe_point_wait = Microseconds{row.integer()};
  job.checkpoints.mode = or_else(checkpoint_mode_from(row.text()), CheckpointMode::Full);
  job.checkpoints.chain = row.number();
  job.checkpoints.max_age = Microseconds{row.integer()};
  job.checkpoints.partner = row.flag();
  job.tightness = row.real();
  return job;
}

void bind_row(Statement& to, const Job& job) {
  to.bind(job.id.value).bind(job.name).bind(job.pool.value).bind(list_of(job.command));
  to.bind(list_of(job.environment)).bind(job.ranks).bind(to_string(job.state));
  to.bind(job.exit_code).bind(job.reason).bind(list_of(job.vms)).bind(job.output_bytes);
  to.bind(job.created.count()).bind(job.started.count()).bind(job.ended.count());
  to.bind(to_string(job.checkpoints.rule));
  to.bind(std::chrono::duration_cast<Microseconds>(job.checkpoints.every).count());
  to.bind(job.checkpoints.keep).bind(job.restarts);
  to.bind(job.recovery_from.value).bind(job.recovery_tries).bind(job.checkpoints.safe_points);
  to.bind(std::chrono::duration_cast<Microseconds>(job.checkpoints.safe_point_wait).count());
  to.bind(to_string(job.checkpoints.mode)).bind(job.checkpoints.chain);
  to.bind(std::chrono::duration_cast<Microseconds>(job.checkpoints.max_age).count());
  to.bind(job.checkpoints.partner).bind(job.tightness);
}

Operation read_operation(Statement& row) {
  Operation operation;
  operation.id = OperationId{row.text()};
  operation.kind = or_else(operation_kind_from(row.text()), OperationKind::VmStart);
  operation.target = row.text();
  operation.state = row.text();
  operation.outcome = or_else(outcome_from(row.text()), Outcome::NeedsOperator);
  operation.reason = row.text();
  operation.error_code = row.text();
  if (auto parent = row.text(); !parent.empty()) operation.parent = OperationId{parent};
  operation.cancel_requested = row.flag();
  operation.attempt = row.number();
  operation.request = row.text();
  operation.progress = row.real();
  operation.created = WallTime{row.integer()};
  operation.started = WallTime{row.integer()};
  operation.ended = WallTime{row.integer()};
  operation.deadline = WallTime{row.integer()};
  return operation;
}

void bind_row(Statement& to, const Operation& operation) {
  to.bind(operation.id.value).bind(to_string(operation.kind)).bind(operation.target);
  to.bind(operation.state).bind(to_string(operation.outcome)).bind(operation.reason);
  to.bind(operation.error_code);
  if (operation.parent) {
    to.bind(operation.parent->value);
  } else {
    to.bind_null();
  }
  to.bind(operation.cancel_requested).bind(operation.attempt).bind(operation.request);
  to.bind(operation.progress).bind(operation.created.count()).bind(operation.started.count());
  to.bind(operation.ended.count()).bind(operation.deadline.count());
}

Migration read_migration(Statement& row) {
  Migration migration;
  migration.id = OperationId{row.text()};
  migration.vm = VmId{row.text()};
  migration.source = HostId{row.text()};
  migration.destination = HostId{row.text()};
  if (auto limit = row.maybe_integer()) {
    migration.bandwidth_limit = BytesPerSecond{static_cast<double>(*limit)};
  }
  if (auto limit = row.maybe_integer()) migration.downtime_limit = Milliseconds{*limit};
  migration.rounds = rounds_from(row.text());
  migration.memory_total = Bytes{row.natural()};
  migration.transferred = Bytes{row.natural()};
  migration.remaining = Bytes{row.natural()};
  migration.total_time = micros(row.maybe_integer());
  migration.downtime_hypervisor = micros(row.maybe_integer());
  migration.downtime_guest = micros(row.maybe_integer());
  migration.downtime_peers = micros(row.maybe_integer());
  migration.announce_delay = micros(row.maybe_integer());
  migration.announcements = row.number();
  migration.switched = WallTime{row.integer()};
  migration.jobs = ids_from<JobId>(row.text());
  migration.sending = sending_from(row.text());
  migration.planned = WallTime{row.integer()};
  const std::string path = row.text();
  migration.file = file_move_from(row.text());
  migration.file.path = path;
  migration.held = micros(row.maybe_integer());
  migration.switched_with = row.number();
  migration.earlier = earlier_from(row.text());
  migration.reconsiders = row.text();
  return migration;
}

void bind_row(Statement& to, const Migration& migration) {
  to.bind(migration.id.value).bind(migration.vm.value).bind(migration.source.value);
  to.bind(migration.destination.value);
  if (migration.bandwidth_limit) {
    to.bind(static_cast<std::int64_t>(migration.bandwidth_limit->value));
  } else {
    to.bind_null();
  }
  if (migration.downtime_limit) {
    to.bind(static_cast<std::int64_t>(migration.downtime_limit->count()));
  } else {
    to.bind_null();
  }
  to.bind(rounds_text(migration.rounds)).bind(signed_of(migration.memory_total));
  to.bind(signed_of(migration.transferred)).bind(signed_of(migration.remaining));
  to.bind(count_of(migration.total_time)).bind(count_of(migration.downtime_hypervisor));
  to.bind(count_of(migration.downtime_guest)).bind(count_of(migration.downtime_peers));
  to.bind(count_of(migration.announce_delay)).bind(migration.announcements);
  to.bind(migration.switched.count()).bind(list_of(migration.jobs));
  to.bind(sending_text(migration.sending)).bind(migration.planned.count());
  to.bind(migration.file.path).bind(file_move_text(migration.file));
  to.bind(count_of(migration.held)).bind(migration.switched_with);
  to.bind(earlier_text(migration.earlier)).bind(migration.reconsiders);
}

}  // namespace mare::store
