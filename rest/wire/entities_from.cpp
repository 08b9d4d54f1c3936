#include "rest/wire/entities.h"
#include "rest/wire/policies.h"
#include "rest/wire/reader.h"
#include "rest/wire/time.h"

namespace mare::wire {
namespace {

constexpr TextRule kAnyText{0, 1024 * 1024};
constexpr std::size_t kManyItems = 100'000;
// Answers hold signed numbers where requests don't (an exit code of -1 from a foreign server).
constexpr NumberRule kInt{-2147483648.0, 2147483647.0};

/// Typed getters for answers: what is absent stays at its default, what is wrong is a fault.
class Answer {
 public:
  Answer(const Json& json, Faults& faults, std::string pointer = "")
      : reader_(json, std::move(pointer), Strictness::Lenient, faults) {}

  template <typename Tag>
  void get(const std::string& name, Id<Tag>& out) {
    out.value = reader_.text(name, true).value_or("");
  }
  template <typename Tag>
  void get(const std::string& name, std::optional<Id<Tag>>& out) {
    if (auto found = reader_.text(name, false)) out = Id<Tag>{*found};
  }
  template <typename Tag>
  void get(const std::string& name, std::vector<Id<Tag>>& out) {
    for (auto& item : reader_.texts(name, true, kManyItems).value_or(std::vector<std::string>{})) {
      out.emplace_back(std::move(item));
    }
  }
  /// "" for null.
  void get(const std::string& name, std::string& out) {
    out = reader_.text(name, false, kAnyText).value_or("");
  }
  void get(const std::string& name, std::vector<std::string>& out) {
    auto found = reader_.texts(name, true, kManyItems, kAnyText);
    if (found) out = std::move(*found);
  }
  void get(const std::string& name, int& out) {
    out = static_cast<int>(reader_.whole(name, true, kInt).value_or(0));
  }
  void get(const std::string& name, std::optional<int>& out) {
    if (auto found = reader_.whole(name, false, kInt)) out = static_cast<int>(*found);
  }
  void get(const std::string& name, std::uint64_t& out) {
    out = static_cast<std::uint64_t>(reader_.whole(name, true).value_or(0));
  }
  void get(const std::string& name, double& out) { out = reader_.number(name, false).value_or(0); }
  void get(const std::string& name, bool& out) { out = reader_.flag(name, true).value_or(false); }
  void get(const std::string& name, WallTime& out) {
    out = reader_.time(name).value_or(WallTime{0});
  }
  void get_bytes(const std::string& name, Bytes& out) { get(name, out.count); }
  void get_mib(const std::string& name, Bytes& out) {
    out = from_mib(reader_.number(name, true).value_or(0));
  }
  void get_ms(const std::string& name, Microseconds& out) {
    out = from_ms(reader_.number(name, true).value_or(0));
  }
  void get_ms(const std::string& name, std::optional<Microseconds>& out) {
    if (auto found = reader_.number(name, false)) out = from_ms(*found);
  }
  template <typename T, typename From>
  void get_name(const std::string& name, T& out, From from) {
    if (auto found = reader_.name_of<T>(name, from, "the values that this client knows")) {
      out = *found;
    }
  }
  ObjectReader& reader() { return reader_; }

 private:
  ObjectReader reader_;
};

template <typename T>
Result<T> done(T value, const Faults& faults, const std::string& noun) {
  if (faults.empty()) return value;
  Error error = error_from(faults, "the server's answer is no " + noun);
  error.code = Code::Internal;
  error.remedy = "use a client and a server of the same version";
  return error;
}

std::string text_of_member(const Json& json, const std::string& name) {
  if (!json.is_object() || !json.contains(name)) return "{}";
  return to_text(json[name]);
}

std::vector<Round> rounds_from(const Json& list, Faults& faults) {
  std::vector<Round> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Answer from(list[i], faults, "/rounds/" + std::to_string(i));
    Round round;
    from.get("index", round.index);
    from.get_ms("started_ms", round.started);
    from.get_ms("duration_ms", round.duration);
    from.get_bytes("sent_bytes", round.sent);
    from.get_bytes("remaining_bytes", round.remaining);
    from.get("dirty_bytes_per_s", round.dirty_bytes_per_s);
    out.push_back(round);
  }
  return out;
}

std::vector<EarlierTry> earlier_from(const Json& list, Faults& faults) {
  std::vector<EarlierTry> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = "/earlier/" + std::to_string(i);
    Answer from(list[i], faults, at);
    EarlierTry one;
    if (auto name = from.reader().text("strategy", true)) {
      one.strategy = strategy_from(*name).value_or(Strategy::PreCopy);
    }
    if (const Json* said = from.reader().object("said_s", true)) {
      Answer inner(*said, faults, at + "/said_s");
      inner.get("value", one.said_s.value);
      inner.get("low", one.said_s.low);
      inner.get("high", one.said_s.high);
      inner.get("model", one.said_s.model);
    }
    from.get_ms("lasted_ms", one.lasted);
    from.get_bytes("sent_bytes", one.sent);
    from.get("rounds", one.rounds);
    from.get("ended", one.ended);
    out.push_back(one);
  }
  return out;
}

std::optional<MigrationStatus> migration_status_from(Answer& from, const Json& json) {
  if (!json.is_object() || !json.contains("outcome") || json["outcome"].is_null()) {
    return std::nullopt;
  }
  MigrationStatus status;
  from.get("state", status.state);
  from.get_name("outcome", status.outcome, outcome_from);
  from.get("reason", status.reason);
  from.get("error_code", status.error_code);
  from.get("progress", status.progress);
  from.get("created", status.created);
  from.get("started", status.started);
  from.get("ended", status.ended);
  return status;
}

}  // namespace

Result<HostRecord> host_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  HostRecord out;
  from.get("id", out.host.id);
  from.get("address", out.host.address);
  from.get_name("admin", out.host.admin, host_admin_from);
  from.get_name("health", out.host.health, host_health_from);
  from.get("health_reason", out.host.health_reason);
  from.get_mib("memory_mib", out.host.memory);
  from.get_mib("memory_allocated_mib", out.use.memory_allocated);
  from.get_mib("vm_overhead_mib", out.host.vm_overhead);
  from.get("vms", out.use.vms);
  from.get("cpus", out.host.cpus);
  out.host.cpu_speed = from.reader().number("cpu_speed", false).value_or(0);
  from.get("hypervisor", out.host.hypervisor);
  from.get("live_migration", out.host.live_migration);
  // A server of before the strategies has none of these; a newer one may know more strategies.
  const auto names = from.reader().texts("strategies", false, kManyItems);
  for (const auto& name : names.value_or(std::vector<std::string>{})) {
    if (const auto known = strategy_from(name)) out.host.strategies.push_back(*known);
  }
  from.get("dirty_log", out.host.dirty_log);
  from.get("dirty_log_why", out.host.dirty_log_why);
  from.get("migration_address", out.host.migration_address);
  out.host.migration_tls = from.reader().flag("migration_tls", false).value_or(false);
  from.get("added", out.host.added);
  from.get("last_seen", out.host.last_seen);
  return done(std::move(out), faults, "host");
}

Result<Pool> pool_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  Pool out;
  from.get("id", out.id);
  from.get("image", out.image);
  from.get("image_version", out.image_version);
  from.get("size", out.size);
  from.get_mib("memory_mib", out.memory);
  from.get("vcpus", out.vcpus);
  from.get("hosts", out.hosts);
  from.get("created", out.created);
  if (auto project = from.reader().text("project", false)) out.project = ProjectId{*project};
  if (const Json* policy = from.reader().object("move_policy", false)) {
    // Read as a request is, but for what a newer server adds.
    PolicyChange change;
    ObjectReader members(*policy, "/move_policy", Strictness::Lenient, faults);
    read(members, change);
    out.move_policy = changed({}, change);
  }
  return done(std::move(out), faults, "pool");
}

Result<Vm> vm_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  Vm out;
  from.get("id", out.id);
  from.get("pool", out.pool);
  from.get("index", out.index);
  from.get("uuid", out.uuid);
  if (auto mac = MacAddress::parse(from.reader().text("mac", true).value_or(""))) {
    out.mac = *mac;
  } else {
    from.reader().fault("mac", mac.error().text());
  }
  if (auto ip = Ipv4Address::parse(from.reader().text("ip", true).value_or(""))) {
    out.ip = *ip;
  } else {
    from.reader().fault("ip", ip.error().text());
  }
  from.get_mib("memory_mib", out.memory);
  from.get("vcpus", out.vcpus);
  from.get_name("state", out.state, vm_state_from);
  from.get("host", out.host);
  from.get("reason", out.reason);
  from.get("created", out.created);
  from.get("started", out.started);
  return done(std::move(out), faults, "VM");
}

Result<Job> job_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  Job out;
  from.get("id", out.id);
  from.get("name", out.name);
  from.get("pool", out.pool);
  from.get("command", out.command);
  from.get("environment", out.environment);
  from.get("ranks", out.ranks);
  from.get_name("state", out.state, job_state_from);
  from.get("exit_code", out.exit_code);
  from.get("reason", out.reason);
  from.get("vms", out.vms);
  from.get("output_bytes", out.output_bytes);
  // An older server knows nothing of these.
  if (const auto rule = from.reader().text("checkpoint_rule", false)) {
    out.checkpoints.rule = checkpoint_rule_from(*rule).value_or(CheckpointRule::Never);
  }
  if (const auto every = from.reader().number("checkpoint_every_s", false)) {
    out.checkpoints.every = Seconds{*every};
  }
  if (const auto keep = from.reader().whole("checkpoints_kept", false)) {
    out.checkpoints.keep = static_cast<int>(*keep);
  }
  if (const auto announces = from.reader().flag("safe_points", false)) {
    out.checkpoints.safe_points = *announces;
  }
  if (const auto wait = from.reader().number("safe_point_wait_s", false)) {
    out.checkpoints.safe_point_wait = Seconds{*wait};
  }
  if (const auto mode = from.reader().text("checkpoint_mode", false)) {
    out.checkpoints.mode = checkpoint_mode_from(*mode).value_or(CheckpointMode::Full);
  }
  if (const auto chain = from.reader().whole("checkpoint_chain", false)) {
    out.checkpoints.chain = static_cast<int>(*chain);
  }
  if (const auto age = from.reader().number("checkpoints_max_age_s", false)) {
    out.checkpoints.max_age = Seconds{*age};
  }
  if (const auto partner = from.reader().flag("checkpoint_partner", false)) {
    out.checkpoints.partner = *partner;
  }
  out.tightness = from.reader().number("tightness", false).value_or(out.tightness);
  if (const auto restarts = from.reader().whole("restarts", false)) {
    out.restarts = static_cast<int>(*restarts);
  }
  from.get("created", out.created);
  from.get("started", out.started);
  from.get("ended", out.ended);
  return done(std::move(out), faults, "job");
}

Result<Operation> operation_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  Operation out;
  from.get("id", out.id);
  from.get_name("kind", out.kind, operation_kind_from);
  from.get("target", out.target);
  from.get("state", out.state);
  from.get_name("outcome", out.outcome, outcome_from);
  from.get("reason", out.reason);
  from.get("error_code", out.error_code);
  from.get("parent", out.parent);
  from.get("cancel_requested", out.cancel_requested);
  from.get("attempt", out.attempt);
  from.get("progress", out.progress);
  out.request = text_of_member(json, "request");
  from.get("created", out.created);
  from.get("started", out.started);
  from.get("ended", out.ended);
  from.get("deadline", out.deadline);
  return done(std::move(out), faults, "operation");
}

Result<OperationEvent> operation_event_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  OperationEvent out;
  from.get("seq", out.seq);
  from.get("operation", out.operation);
  from.get("at", out.at);
  from.get("from", out.from);
  from.get("event", out.event);
  from.get("to", out.to);
  from.get("detail", out.detail);
  return done(std::move(out), faults, "line of an operation's history");
}

Result<MigrationRecord> migration_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  MigrationRecord out;
  Migration& m = out.migration;
  from.get("id", m.id);
  from.get("vm", m.vm);
  from.get("source", m.source);
  from.get("destination", m.destination);
  if (auto limit = from.reader().number("bandwidth_limit_bytes_per_s", false)) {
    m.bandwidth_limit = BytesPerSecond{*limit};
  }
  if (auto limit = from.reader().whole("downtime_limit_ms", false)) {
    m.downtime_limit = Milliseconds{*limit};
  }
  // A server of before the strategies knew only one; a newer one may know more.
  if (auto name = from.reader().text("strategy", false)) {
    m.sending.strategy = strategy_from(*name).value_or(Strategy::PreCopy);
  }
  if (const Json* list = from.reader().array("rounds", true)) m.rounds = rounds_from(*list, faults);
  from.get_bytes("memory_total_bytes", m.memory_total);
  from.get_bytes("transferred_bytes", m.transferred);
  from.get_bytes("remaining_bytes", m.remaining);
  from.get_ms("total_time_ms", m.total_time);
  if (const Json* downtime = from.reader().object("downtime_ms", true)) {
    Answer inner(*downtime, faults, "/downtime_ms");
    inner.get_ms("hypervisor", m.downtime_hypervisor);
    inner.get_ms("guest", m.downtime_guest);
    inner.get_ms("peers", m.downtime_peers);
  }
  from.get_ms("check_ms", m.file.check);
  from.get_ms("trans_ms", m.file.trans);
  from.get_ms("restart_ms", m.file.restart);
  from.get_ms("announce_delay_ms", m.announce_delay);
  from.get("announcements", m.announcements);
  from.get_ms("held_ms", m.held);
  from.get("switched_with", m.switched_with);
  // A server of before that was thought of has none.
  if (const Json* list = from.reader().array("earlier", false)) {
    m.earlier = earlier_from(*list, faults);
  }
  from.get("planned", m.planned);
  from.get("switched", m.switched);
  from.get("jobs", m.jobs);
  out.status = migration_status_from(from, json);
  return done(std::move(out), faults, "migration");
}

Result<Event> event_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  Event out;
  from.get("seq", out.seq);
  from.get("at", out.at);
  from.get("topic", out.topic);
  from.get("subject", out.subject);
  from.get("type", out.type);
  out.data = text_of_member(json, "data");
  return done(std::move(out), faults, "event");
}

Result<Image> image_from(const Json& json) {
  Faults faults;
  Answer from(json, faults);
  Image out;
  from.get("name", out.name);
  from.get("version", out.version);
  from.get_mib("min_memory_mib", out.min_memory);
  from.get("size_bytes", out.size_bytes);
  from.get("packages", out.packages);
  from.get("created", out.created);
  return done(std::move(out), faults, "image");
}

}  // namespace mare::wire
