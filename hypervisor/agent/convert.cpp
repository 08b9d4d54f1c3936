#include "hypervisor/agent/convert.h"

namespace mare::agent {
namespace {

/// gRPC takes 8 KiB of metadata in all; a trailer beyond that breaks the call, and the error in it
/// would turn into another one. Message, remedy and field together stay below half of it.
constexpr std::size_t kMaxMessage = 2'000;
constexpr std::size_t kMaxRemedy = 500;
constexpr std::size_t kMaxField = 100;
/// The status's own text is only for other clients' eyes, and costs up to 3 bytes a byte.
constexpr std::size_t kMaxStatusText = 200;

/// Cut between characters, should it be UTF-8.
std::string cut(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80U) --most;
  return text.substr(0, most);
}

std::int64_t us(WallTime time) {
  return time.count();
}

grpc::StatusCode status_code(Code code) {
  switch (code) {
    case Code::InvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::Unauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case Code::NotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::AlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Code::Conflict:
      return grpc::StatusCode::ABORTED;
    case Code::FailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::ResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::Cancelled:
      return grpc::StatusCode::CANCELLED;
    case Code::Unsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    // The detail tells these apart; gRPC's own UNAVAILABLE must stay the transport's word.
    case Code::Unavailable:
    case Code::OutcomeUnknown:
    case Code::Internal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

}  // namespace

pb::VmKey to_wire(const VmKey& value) {
  pb::VmKey out;
  out.set_id(value.id.value);
  out.set_uuid(value.uuid);
  return out;
}

VmKey from_wire(const pb::VmKey& value) {
  return {VmId{value.id()}, value.uuid()};
}

pb::VmSpec to_wire(const VmSpec& value) {
  pb::VmSpec out;
  out.set_id(value.id.value);
  out.set_uuid(value.uuid);
  out.set_mac(value.mac.text());
  out.set_ip(value.ip.value);
  out.set_memory_bytes(value.memory.count);
  out.set_vcpus(value.vcpus);
  out.set_kernel(value.kernel);
  out.set_initrd(value.initrd);
  out.set_kernel_args(value.kernel_args);
  return out;
}

Result<VmSpec> from_wire(const pb::VmSpec& value) {
  auto mac = MacAddress::parse(value.mac());
  if (!mac) return mac.error();
  VmSpec out;
  out.id = VmId{value.id()};
  out.uuid = value.uuid();
  out.mac = *mac;
  out.ip = Ipv4Address{value.ip()};
  out.memory = Bytes{value.memory_bytes()};
  out.vcpus = value.vcpus();
  out.kernel = value.kernel();
  out.initrd = value.initrd();
  out.kernel_args = value.kernel_args();
  return out;
}

pb::HostFacts to_wire(const HostFacts& value) {
  pb::HostFacts out;
  out.set_hypervisor(value.hypervisor);
  out.set_memory_bytes(value.memory.count);
  out.set_cpus(value.cpus);
  out.set_vm_overhead_bytes(value.vm_overhead.count);
  out.set_accelerated(value.accelerated);
  out.set_live_migration(value.live_migration);
  out.set_live_migration_why(value.live_migration_why);
  out.set_agent_version(value.agent_version);
  for (const Strategy strategy : value.strategies) {
    out.add_strategies(std::string(to_string(strategy)));
  }
  out.set_dirty_log(value.dirty_log);
  out.set_dirty_log_why(value.dirty_log_why);
  out.set_migration_tls(value.migration_tls);
  out.set_migration_address(value.migration_address);
  out.set_cloning(value.cloning);
  out.set_cloning_why(value.cloning_why);
  out.set_captures_to_leave(value.captures_to_leave);
  out.set_cpu_speed(value.cpu_speed);
  out.set_machine(value.machine);
  return out;
}

HostFacts from_wire(const pb::HostFacts& value) {
  HostFacts out;
  out.hypervisor = value.hypervisor();
  out.memory = Bytes{value.memory_bytes()};
  out.cpus = value.cpus();
  out.vm_overhead = Bytes{value.vm_overhead_bytes()};
  out.accelerated = value.accelerated();
  out.live_migration = value.live_migration();
  out.live_migration_why = value.live_migration_why();
  out.agent_version = value.agent_version();
  // A strategy of a newer agent that this version does not know can't be asked for.
  for (const auto& name : value.strategies()) {
    if (const auto strategy = strategy_from(name)) out.strategies.push_back(*strategy);
  }
  out.dirty_log = value.dirty_log();
  out.dirty_log_why = value.dirty_log_why();
  out.migration_tls = value.migration_tls();
  out.migration_address = value.migration_address();
  out.cloning = value.cloning();
  out.cloning_why = value.cloning_why();
  out.captures_to_leave = value.captures_to_leave();
  out.cpu_speed = value.cpu_speed();
  out.machine = value.machine();
  return out;
}

pb::TemplateSpec to_wire(const TemplateSpec& value) {
  pb::TemplateSpec out;
  out.set_kernel(value.kernel);
  out.set_initrd(value.initrd);
  out.set_kernel_args(value.kernel_args);
  out.set_memory_bytes(value.memory.count);
  out.set_vcpus(value.vcpus);
  return out;
}

TemplateSpec from_wire(const pb::TemplateSpec& value) {
  return {value.kernel(), value.initrd(), value.kernel_args(), Bytes{value.memory_bytes()},
          value.vcpus()};
}

pb::TemplateStatus to_wire(const TemplateStatus& value) {
  pb::TemplateStatus out;
  out.set_phase(std::string(to_string(value.phase)));
  out.set_why(value.why);
  return out;
}

TemplateStatus from_wire(const pb::TemplateStatus& value) {
  const auto phase = template_phase_from(value.phase());
  if (phase) return {*phase, value.why()};
  return {TemplatePhase::Failed, "the agent speaks of a phase '" + value.phase() + "'"};
}

pb::VmObservation to_wire(const VmObservation& value) {
  pb::VmObservation out;
  *out.mutable_key() = to_wire(value.key);
  out.set_copy(std::string(to_string(value.copy)));
  out.set_sending(value.sending);
  out.set_memory_bytes(value.memory.count);
  out.set_console_faults(value.console_faults);
  out.set_console_first_fault(value.console_first_fault);
  return out;
}

VmObservation from_wire(const pb::VmObservation& value) {
  VmObservation out;
  out.key = from_wire(value.key());
  // A word that this version does not know must not pass for Absent.
  out.copy = copy_from(value.copy()).value_or(Copy::Unknown);
  out.sending = value.sending();
  out.memory = Bytes{value.memory_bytes()};
  out.console_faults = value.console_faults();
  out.console_first_fault = value.console_first_fault();
  return out;
}

pb::VmStatistics to_wire(const VmStatistics& value) {
  pb::VmStatistics out;
  out.set_cpu_time_us(value.cpu_time.count());
  out.set_resident_bytes(value.resident.count);
  out.set_received_bytes(value.received_bytes);
  out.set_sent_bytes(value.sent_bytes);
  return out;
}

VmStatistics from_wire(const pb::VmStatistics& value) {
  return {Microseconds{value.cpu_time_us()}, Bytes{value.resident_bytes()}, value.received_bytes(),
          value.sent_bytes()};
}

pb::Sweep to_wire(const Sweep& value) {
  pb::Sweep out;
  out.set_descending(value.descending);
  out.set_period_us(value.period.count());
  return out;
}

Sweep from_wire(const pb::Sweep& value) {
  return {value.descending(), Microseconds{value.period_us()}};
}

pb::Sending to_wire(const Sending& value) {
  pb::Sending out;
  out.set_strategy(std::string(to_string(value.strategy)));
  out.set_channels(value.channels);
  out.set_throttle_initial_percent(value.throttle_initial_percent);
  out.set_throttle_step_percent(value.throttle_step_percent);
  out.set_pre_copy_rounds(value.pre_copy_rounds);
  out.set_rate_min_bytes_per_s(value.rate_min.value);
  out.set_rate_max_bytes_per_s(value.rate_max.value);
  out.set_rate_gain(value.rate_gain);
  out.set_allow_post_copy(value.allow_post_copy);
  out.set_limit_rises_early(value.limit_rises_early);
  if (value.downtime_limit) out.set_downtime_limit_ms(value.downtime_limit->count());
  if (value.later_downtime_limit) {
    out.set_later_downtime_limit_ms(value.later_downtime_limit->count());
  }
  if (const auto& told = value.switchover_bandwidth) {
    out.set_switchover_bandwidth_bytes_per_s(told->value);
  }
  *out.mutable_sweep() = to_wire(value.sweep_switch.sweep);
  out.set_sweep_best_place(value.sweep_switch.best_place);
  out.set_sweep_longest_hold_ms(value.sweep_switch.longest_hold.count());
  for (const Milliseconds wait : value.sweep_switch.waits) out.add_sweep_waits_ms(wait.count());
  return out;
}

Result<Sending> from_wire(const pb::Sending& value) {
  const auto strategy = strategy_from(value.strategy());
  if (!strategy) {
    return make_error(Code::Unsupported, "this agent knows no strategy '" + value.strategy() + "'",
                      "install the same version on all hosts");
  }
  Sending out;
  out.strategy = *strategy;
  out.channels = value.channels();
  out.throttle_initial_percent = value.throttle_initial_percent();
  out.throttle_step_percent = value.throttle_step_percent();
  out.pre_copy_rounds = value.pre_copy_rounds();
  out.rate_min = BytesPerSecond{value.rate_min_bytes_per_s()};
  out.rate_max = BytesPerSecond{value.rate_max_bytes_per_s()};
  out.rate_gain = value.rate_gain();
  out.allow_post_copy = value.allow_post_copy();
  out.limit_rises_early = value.limit_rises_early();
  if (value.has_downtime_limit_ms()) out.downtime_limit = Milliseconds{value.downtime_limit_ms()};
  if (value.has_later_downtime_limit_ms()) {
    out.later_downtime_limit = Milliseconds{value.later_downtime_limit_ms()};
  }
  if (value.has_switchover_bandwidth_bytes_per_s()) {
    out.switchover_bandwidth = BytesPerSecond{value.switchover_bandwidth_bytes_per_s()};
  }
  out.sweep_switch.sweep = from_wire(value.sweep());
  out.sweep_switch.best_place = value.sweep_best_place();
  out.sweep_switch.longest_hold = Milliseconds{value.sweep_longest_hold_ms()};
  for (const auto wait : value.sweep_waits_ms()) {
    out.sweep_switch.waits.emplace_back(wait);
  }
  return out;
}

pb::MigrationTicket to_wire(const MigrationTicket& value) {
  pb::MigrationTicket out;
  out.set_operation(value.operation.value);
  *out.mutable_vm() = to_wire(value.vm);
  if (value.bandwidth_limit) out.set_bandwidth_limit_bytes_per_s(value.bandwidth_limit->value);
  if (value.downtime_limit) out.set_downtime_limit_ms(value.downtime_limit->count());
  *out.mutable_sending() = to_wire(value.sending);
  out.set_holds_switch(value.holds_switch);
  return out;
}

Result<MigrationTicket> from_wire(const pb::MigrationTicket& value) {
  auto vm = from_wire(value.vm());
  if (!vm) return vm.error();
  MigrationTicket out;
  out.operation = OperationId{value.operation()};
  out.vm = *vm;
  if (value.has_bandwidth_limit_bytes_per_s()) {
    out.bandwidth_limit = BytesPerSecond{value.bandwidth_limit_bytes_per_s()};
  }
  if (value.has_downtime_limit_ms()) out.downtime_limit = Milliseconds{value.downtime_limit_ms()};
  if (value.has_sending()) {
    auto sending = from_wire(value.sending());
    if (!sending) return sending.error();
    out.sending = *sending;
  }
  out.holds_switch = value.holds_switch();
  return out;
}

pb::OutgoingStatus to_wire(const OutgoingStatus& value) {
  pb::OutgoingStatus out;
  out.set_phase(std::string(to_string(value.phase)));
  out.set_operation(value.operation.value);
  out.set_error(value.error);
  for (const auto& round : value.rounds) {
    auto* row = out.add_rounds();
    row->set_index(round.index);
    row->set_started_us(round.started.count());
    row->set_duration_us(round.duration.count());
    row->set_sent_bytes(round.sent.count);
    row->set_remaining_bytes(round.remaining.count);
    row->set_dirty_bytes_per_s(round.dirty_bytes_per_s);
  }
  out.set_memory_total_bytes(value.memory_total.count);
  out.set_transferred_bytes(value.transferred.count);
  out.set_remaining_bytes(value.remaining.count);
  out.set_dirty_bytes_per_s(value.dirty_bytes_per_s);
  out.set_elapsed_us(value.elapsed.count());
  out.set_paused_at_us(us(value.paused_at));
  out.set_holds(value.holds);
  return out;
}

Result<OutgoingStatus> from_wire(const pb::OutgoingStatus& value) {
  const auto phase = outgoing_phase_from(value.phase());
  if (!phase) {
    return make_error(Code::Internal, "the agent speaks of a phase '" + value.phase() + "'",
                      "install the same version on all hosts");
  }
  OutgoingStatus out;
  out.phase = *phase;
  out.operation = OperationId{value.operation()};
  out.error = value.error();
  for (const auto& row : value.rounds()) {
    out.rounds.push_back(Round{row.index(), Microseconds{row.started_us()},
                               Microseconds{row.duration_us()}, Bytes{row.sent_bytes()},
                               Bytes{row.remaining_bytes()}, row.dirty_bytes_per_s()});
  }
  out.memory_total = Bytes{value.memory_total_bytes()};
  out.transferred = Bytes{value.transferred_bytes()};
  out.remaining = Bytes{value.remaining_bytes()};
  out.dirty_bytes_per_s = value.dirty_bytes_per_s();
  out.elapsed = Microseconds{value.elapsed_us()};
  out.paused_at = WallTime{value.paused_at_us()};
  out.holds = value.holds();
  return out;
}

pb::ArrivalReport to_wire(const ArrivalReport& value) {
  pb::ArrivalReport out;
  *out.mutable_seen() = to_wire(value.seen);
  if (value.downtime) out.set_downtime_us(value.downtime->count());
  if (value.total_time) out.set_total_time_us(value.total_time->count());
  out.set_transferred_bytes(value.transferred.count);
  out.set_resumed_at_us(us(value.resumed_at));
  out.set_announced_at_us(us(value.announced_at));
  out.set_announcements(value.announcements);
  return out;
}

ArrivalReport from_wire(const pb::ArrivalReport& value) {
  ArrivalReport out;
  out.seen = from_wire(value.seen());
  if (value.has_downtime_us()) out.downtime = Microseconds{value.downtime_us()};
  if (value.has_total_time_us()) out.total_time = Microseconds{value.total_time_us()};
  out.transferred = Bytes{value.transferred_bytes()};
  out.resumed_at = WallTime{value.resumed_at_us()};
  out.announced_at = WallTime{value.announced_at_us()};
  out.announcements = value.announcements();
  return out;
}

pb::MemoryProfileReply to_wire(const MemoryProfile& value) {
  pb::MemoryProfileReply out;
  out.set_source(value.source);
  out.set_taken_us(us(value.taken));
  out.set_total_bytes(value.total.count);
  out.set_zero_bytes(value.zero.count);
  out.set_compressed_fraction(value.compressed_fraction);
  out.set_hot_compressed_fraction(value.hot_compressed_fraction);
  out.set_compress_rate_bytes_per_s(value.compress_rate.value);
  out.set_unpack_rate_bytes_per_s(value.unpack_rate.value);
  for (const auto& cycle : value.cycles) {
    auto* row = out.add_cycles();
    row->set_began_us(us(cycle.began));
    for (const auto& point : cycle.points) {
      auto* dot = row->add_points();
      dot->set_wall_us(point.wall.count());
      dot->set_progress_us(point.progress.count());
      dot->set_unique_bytes(point.unique.count);
    }
  }
  for (const double share : value.heat) out.add_heat(share);
  out.set_cost_fraction(value.cost_fraction);
  out.set_emulated(value.emulated);
  out.set_takes_switchover_bandwidth(value.takes_switchover_bandwidth);
  out.set_host_cpus(value.host_cpus);
  out.set_busy_cpus(value.busy_cpus);
  out.set_emulator_start_us(value.emulator_start.count());
  out.set_cpu_granted(value.cpu_granted);
  out.set_sequential(value.sequential);
  *out.mutable_sweep() = to_wire(value.sweep);
  out.set_cpu_quota(value.cpu_quota);
  out.set_cpu_quota_period_us(value.cpu_quota_period.count());
  return out;
}

MemoryProfile from_wire(const pb::MemoryProfileReply& value) {
  MemoryProfile out;
  out.source = value.source();
  out.taken = WallTime{value.taken_us()};
  out.total = Bytes{value.total_bytes()};
  out.zero = Bytes{value.zero_bytes()};
  out.compressed_fraction = value.compressed_fraction();
  const double hot = value.hot_compressed_fraction();
  out.hot_compressed_fraction = hot > 0 ? hot : out.compressed_fraction;
  out.compress_rate = BytesPerSecond{value.compress_rate_bytes_per_s()};
  out.unpack_rate = BytesPerSecond{value.unpack_rate_bytes_per_s()};
  for (const auto& row : value.cycles()) {
    DirtyCycle cycle;
    cycle.began = WallTime{row.began_us()};
    for (const auto& dot : row.points()) {
      cycle.points.push_back({Microseconds{dot.wall_us()}, Microseconds{dot.progress_us()},
                              Bytes{dot.unique_bytes()}});
    }
    out.cycles.push_back(std::move(cycle));
  }
  out.heat.assign(value.heat().begin(), value.heat().end());
  out.cost_fraction = value.cost_fraction();
  out.emulated = value.emulated();
  out.takes_switchover_bandwidth = value.takes_switchover_bandwidth();
  out.host_cpus = value.host_cpus();
  out.busy_cpus = value.busy_cpus();
  out.emulator_start = Microseconds{value.emulator_start_us()};
  out.cpu_granted = value.cpu_granted() > 0 ? value.cpu_granted() : 1;
  out.sequential = value.sequential();
  out.sweep = from_wire(value.sweep());
  out.cpu_quota = value.cpu_quota();
  out.cpu_quota_period = Microseconds{value.cpu_quota_period_us()};
  return out;
}

pb::LinkMeasurement to_wire(const LinkMeasurement& value) {
  pb::LinkMeasurement out;
  out.set_goodput_bytes_per_s(value.goodput.value);
  out.set_round_trip_us(value.round_trip.count());
  out.set_sent_bytes(value.sent.count);
  return out;
}

LinkMeasurement from_wire(const pb::LinkMeasurement& value) {
  return {BytesPerSecond{value.goodput_bytes_per_s()}, Microseconds{value.round_trip_us()},
          Bytes{value.sent_bytes()}};
}

grpc::Status to_status(const Error& error) {
  return {status_code(error.code), cut(error.message, kMaxStatusText)};
}

std::string error_detail(const Error& error) {
  pb::ErrorDetail detail;
  detail.set_code(std::string(to_string(error.code)));
  detail.set_message(cut(error.message, kMaxMessage));
  detail.set_field(cut(error.field, kMaxField));
  detail.set_remedy(cut(error.remedy, kMaxRemedy));
  return detail.SerializeAsString();
}

std::optional<Error> error_from_detail(const std::string& detail) {
  pb::ErrorDetail parsed;
  if (!parsed.ParseFromString(detail)) return std::nullopt;
  const auto code = code_from_string(parsed.code());
  if (!code) return std::nullopt;
  return Error{*code, parsed.message(), parsed.field(), parsed.remedy()};
}

}  // namespace mare::agent
