#include "rest/wire/entities.h"

#include "rest/wire/forecasts.h"
#include "rest/wire/time.h"

namespace mare::wire {
namespace {

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

template <typename Tag>
Json id_or_null(const std::optional<Id<Tag>>& id) {
  return id ? Json(id->value) : Json(nullptr);
}

template <typename Tag>
Json ids(const std::vector<Id<Tag>>& list) {
  Json out = Json::array();
  for (const auto& id : list) out.push_back(id.value);
  return out;
}

Json strings(const std::vector<std::string>& list) {
  Json out = Json::array();
  for (const auto& item : list) out.push_back(item);
  return out;
}

Json strategies_json(const std::vector<Strategy>& list) {
  Json out = Json::array();
  for (const auto strategy : list) out.push_back(to_string(strategy));
  return out;
}

Json ms_or_null(const std::optional<Microseconds>& value) {
  return value ? Json(to_ms(*value)) : Json(nullptr);
}

/// Text that another room wrote as JSON. What does not parse is shown as text rather than hidden.
Json embedded(const std::string& text) {
  if (text.empty()) return Json::object();
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

/// The same, and always an object.
Json embedded_object(const std::string& text) {
  Json value = embedded(text);
  return value.is_object() ? value : Json{{"value", std::move(value)}};
}

Json rounds(const std::vector<Round>& list) {
  Json out = Json::array();
  for (const auto& round : list) {
    out.push_back(Json{{"index", round.index},
                       {"started_ms", to_ms(round.started)},
                       {"duration_ms", to_ms(round.duration)},
                       {"sent_bytes", round.sent.count},
                       {"remaining_bytes", round.remaining.count},
                       {"dirty_bytes_per_s", round.dirty_bytes_per_s}});
  }
  return out;
}

}  // namespace

MigrationStatus status_of(const Operation& operation) {
  return {operation.state,    operation.outcome, operation.reason,  operation.error_code,
          operation.progress, operation.created, operation.started, operation.ended};
}

Json to_json(const HostRecord& record) {
  const Host& host = record.host;
  return Json{{"id", host.id.value},
              {"address", host.address},
              {"admin", to_string(host.admin)},
              {"health", to_string(host.health)},
              {"health_reason", text_or_null(host.health_reason)},
              {"memory_mib", mib_json(host.memory)},
              {"memory_allocated_mib", mib_json(record.use.memory_allocated)},
              {"vm_overhead_mib", mib_json(host.vm_overhead)},
              {"vms", record.use.vms},
              {"cpus", host.cpus},
              {"cpu_speed", host.cpu_speed > 0 ? Json(host.cpu_speed) : Json(nullptr)},
              {"hypervisor", text_or_null(host.hypervisor)},
              {"live_migration", host.live_migration},
              {"strategies", strategies_json(host.strategies)},
              {"dirty_log", text_or_null(host.dirty_log)},
              {"dirty_log_why", text_or_null(host.dirty_log_why)},
              {"migration_address", text_or_null(host.migration_address)},
              {"migration_tls", host.migration_tls},
              {"added", time_json(host.added)},
              {"last_seen", time_json(host.last_seen)}};
}

Json to_json(const Pool& pool) {
  return Json{{"id", pool.id.value},
              {"image", pool.image},
              {"image_version", text_or_null(pool.image_version)},
              {"size", pool.size},
              {"memory_mib", mib_json(pool.memory)},
              {"vcpus", pool.vcpus},
              {"hosts", ids(pool.hosts)},
              {"move_policy", to_json(pool.move_policy)},
              {"project", pool.project.value},
              {"created", time_json(pool.created)}};
}

Json to_json(const Vm& vm) {
  return Json{{"id", vm.id.value},
              {"pool", vm.pool.value},
              {"index", vm.index},
              {"uuid", text_or_null(vm.uuid)},
              {"mac", vm.mac.text()},
              {"ip", vm.ip.text()},
              {"memory_mib", mib_json(vm.memory)},
              {"vcpus", vm.vcpus},
              {"state", to_string(vm.state)},
              {"host", id_or_null(vm.host)},
              {"reason", text_or_null(vm.reason)},
              {"created", time_json(vm.created)},
              {"started", time_json(vm.started)}};
}

Json to_json(const Job& job) {
  const Json wait_s =
      job.checkpoints.safe_points ? Json(job.checkpoints.safe_point_wait.count()) : Json(nullptr);
  return Json{{"id", job.id.value},
              {"name", job.name},
              {"pool", job.pool.value},
              {"command", strings(job.command)},
              {"environment", strings(job.environment)},
              {"ranks", job.ranks},
              {"state", to_string(job.state)},
              {"exit_code", job.exit_code ? Json(*job.exit_code) : Json(nullptr)},
              {"reason", text_or_null(job.reason)},
              {"vms", ids(job.vms)},
              {"output_bytes", job.output_bytes},
              {"checkpoint_rule", to_string(job.checkpoints.rule)},
              {"checkpoint_every_s", job.checkpoints.rule == CheckpointRule::Every
                                         ? Json(job.checkpoints.every.count())
                                         : Json(nullptr)},
              {"checkpoints_kept", job.checkpoints.keep},
              {"safe_points", job.checkpoints.safe_points},
              {"safe_point_wait_s", wait_s},
              {"checkpoint_mode", to_string(job.checkpoints.mode)},
              {"checkpoint_chain", job.checkpoints.chain},
              {"checkpoints_max_age_s", job.checkpoints.max_age > Seconds{0}
                                            ? Json(job.checkpoints.max_age.count())
                                            : Json(nullptr)},
              {"checkpoint_partner", job.checkpoints.partner},
              {"tightness", job.tightness},
              {"restarts", job.restarts},
              {"created", time_json(job.created)},
              {"started", time_json(job.started)},
              {"ended", time_json(job.ended)}};
}

Json to_json(const Operation& operation) {
  return Json{{"id", operation.id.value},
              {"kind", to_string(operation.kind)},
              {"target", operation.target},
              {"state", operation.state},
              {"outcome", to_string(operation.outcome)},
              {"reason", text_or_null(operation.reason)},
              {"error_code", text_or_null(operation.error_code)},
              {"parent", id_or_null(operation.parent)},
              {"cancel_requested", operation.cancel_requested},
              {"attempt", operation.attempt},
              {"progress", operation.progress},
              {"request", embedded_object(operation.request)},
              {"created", time_json(operation.created)},
              {"started", time_json(operation.started)},
              {"ended", time_json(operation.ended)},
              {"deadline", time_json(operation.deadline)}};
}

Json to_json(const OperationEvent& event) {
  return Json{{"seq", event.seq},
              {"operation", event.operation.value},
              {"at", time_json(event.at)},
              {"from", text_or_null(event.from)},
              {"event", event.event},
              {"to", event.to},
              {"detail", text_or_null(event.detail)}};
}

Json to_json(const std::vector<EarlierTry>& list) {
  Json out = Json::array();
  for (const auto& one : list) {
    out.push_back(Json{{"strategy", to_string(one.strategy)},
                       {"said_s", to_json(one.said_s)},
                       {"lasted_ms", to_ms(one.lasted)},
                       {"sent_bytes", one.sent.count},
                       {"rounds", one.rounds},
                       {"ended", time_json(one.ended)}});
  }
  return out;
}

Json to_json(const MigrationRecord& record) {
  const Migration& m = record.migration;
  const MigrationStatus status = record.status.value_or(MigrationStatus{});
  const bool known = record.status.has_value();
  return Json{
      {"id", m.id.value},
      {"vm", m.vm.value},
      {"source", m.source.value},
      {"destination", m.destination.value},
      {"state", known ? Json(status.state) : Json(nullptr)},
      {"outcome", known ? Json(to_string(status.outcome)) : Json(nullptr)},
      {"reason", text_or_null(status.reason)},
      {"error_code", text_or_null(status.error_code)},
      {"progress", known ? Json(status.progress) : Json(nullptr)},
      {"strategy", to_string(m.sending.strategy)},
      {"bandwidth_limit_bytes_per_s",
       m.bandwidth_limit ? Json(m.bandwidth_limit->value) : Json(nullptr)},
      {"downtime_limit_ms", m.downtime_limit ? Json(m.downtime_limit->count()) : Json(nullptr)},
      {"rounds", rounds(m.rounds)},
      {"memory_total_bytes", m.memory_total.count},
      {"transferred_bytes", m.transferred.count},
      {"remaining_bytes", m.remaining.count},
      {"total_time_ms", ms_or_null(m.total_time)},
      {"downtime_ms", Json{{"hypervisor", ms_or_null(m.downtime_hypervisor)},
                           {"guest", ms_or_null(m.downtime_guest)},
                           {"peers", ms_or_null(m.downtime_peers)}}},
      {"check_ms", ms_or_null(m.file.check)},
      {"trans_ms", ms_or_null(m.file.trans)},
      {"restart_ms", ms_or_null(m.file.restart)},
      {"announce_delay_ms", ms_or_null(m.announce_delay)},
      {"announcements", m.announcements},
      {"held_ms", ms_or_null(m.held)},
      {"switched_with", m.switched_with},
      {"earlier", to_json(m.earlier)},
      {"jobs", ids(m.jobs)},
      {"created", time_json(status.created)},
      {"planned", time_json(m.planned)},
      {"started", time_json(status.started)},
      {"switched", time_json(m.switched)},
      {"ended", time_json(status.ended)}};
}

Json to_json(const Event& event) {
  return Json{{"seq", event.seq},     {"at", time_json(event.at)},
              {"topic", event.topic}, {"subject", event.subject},
              {"type", event.type},   {"data", embedded(event.data)}};
}

Json to_json(const Image& image) {
  return Json{{"name", image.name},
              {"version", image.version},
              {"min_memory_mib", mib_json(image.min_memory)},
              {"size_bytes", image.size_bytes},
              {"packages", strings(image.packages)},
              {"created", time_json(image.created)}};
}

}  // namespace mare::wire
