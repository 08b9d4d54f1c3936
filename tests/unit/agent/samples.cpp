#include "tests/unit/agent/samples.h"

#include <algorithm>
#include <tuple>

namespace mare::agent::test {

VmKey full_key() {
  return {VmId{"demo-7"}, "0b6e7a9c-3a43-4f0e-9d62-1b2f3c4d5e6f"};
}

VmSpec full_spec() {
  VmSpec spec;
  spec.id = VmId{"demo-7"};
  spec.uuid = "0b6e7a9c-3a43-4f0e-9d62-1b2f3c4d5e6f";
  spec.mac = MacAddress{{0x52, 0x54, 0x00, 0xab, 0xcd, 0xef}};
  spec.ip = Ipv4Address{0xfa4d0102};
  spec.memory = Bytes{5'000'000'001};
  spec.vcpus = 3;
  spec.kernel = "/images/a b/vmlinuz";
  spec.initrd = "/images/\xff\xfe/initrd.img";  // a path need not be UTF-8
  spec.kernel_args = "mare.ip=10.77.1.2/16 quiet";
  return spec;
}

HostFacts full_facts() {
  HostFacts facts;
  facts.hypervisor = "qemu 10.0.2 (tcg), libvirt 11.3.0";
  facts.memory = Bytes{6'000'000'001};
  facts.cpus = 5;
  facts.vm_overhead = Bytes{201};
  facts.accelerated = true;
  facts.live_migration = true;
  facts.live_migration_why = "too old";
  facts.agent_version = "0.1.0";
  facts.strategies = {Strategy::PreCopy, Strategy::Compressed};
  facts.dirty_log = "pagemap-scan";
  facts.dirty_log_why = "none";
  facts.migration_tls = true;
  facts.migration_address = "192.0.2.7";
  facts.cloning = true;
  facts.cloning_why = "b\xff";
  facts.captures_to_leave = true;
  facts.cpu_speed = 431.5;
  facts.machine = "5e1f";
  return facts;
}

VmObservation full_observation() {
  VmObservation seen;
  seen.key = full_key();
  seen.copy = Copy::Paused;
  seen.sending = true;
  seen.memory = Bytes{202};
  seen.console_faults = 4;
  seen.console_first_fault = "[ 1.5] Oops: \x80\xff garbled";
  return seen;
}

VmStatistics full_statistics() {
  return {Microseconds{301}, Bytes{302}, 303, 304};
}

Sending full_sending() {
  return {Strategy::Hybrid,
          3,
          21,
          11,
          4,
          BytesPerSecond{1.5e6},
          BytesPerSecond{2.5e6},
          0.75,
          true,
          Milliseconds{45},
          Milliseconds{290},
          BytesPerSecond{3.5e6},
          {{true, Microseconds{1'500'000}},
           {Milliseconds{7}, Milliseconds{0}},
           0.375,
           Milliseconds{4321}},
          true};
}

MigrationTicket full_ticket() {
  return {OperationId{"op-17"}, full_spec(),    BytesPerSecond{12.5e6},
          Milliseconds{305},    full_sending(), true};
}

OutgoingStatus full_outgoing() {
  OutgoingStatus status;
  status.phase = OutgoingPhase::Switching;
  status.operation = OperationId{"op-17"};
  status.error = "internal error: \xc3 broken";
  for (int i = 1; i <= 3; ++i) {
    status.rounds.push_back(Round{i, Microseconds{400 + i}, Microseconds{410 + i},
                                  Bytes{static_cast<std::uint64_t>(420 + i)},
                                  Bytes{static_cast<std::uint64_t>(430 + i)}, 440.5 + i});
  }
  status.memory_total = Bytes{451};
  status.transferred = Bytes{452};
  status.remaining = Bytes{453};
  status.dirty_bytes_per_s = 454.25;
  status.elapsed = Microseconds{455};
  status.holds = true;
  status.paused_at = WallTime{1'795'000'000'000'456};
  return status;
}

ArrivalReport full_arrival() {
  ArrivalReport report;
  report.seen = full_observation();
  report.downtime = Microseconds{501};
  report.total_time = Microseconds{502};
  report.transferred = Bytes{503};
  report.resumed_at = WallTime{1'795'000'000'000'504};
  report.announced_at = WallTime{1'795'000'000'000'505};
  report.announcements = 6;
  return report;
}

MemoryProfile full_profile() {
  MemoryProfile profile;
  profile.source = "pagemap-scan";
  profile.taken = WallTime{1'795'000'000'000'601};
  profile.total = Bytes{602};
  profile.zero = Bytes{603};
  profile.compressed_fraction = 0.625;
  profile.hot_compressed_fraction = 0.75;
  profile.compress_rate = BytesPerSecond{3.5e8};
  profile.unpack_rate = BytesPerSecond{4.1e8};
  profile.emulated = true;
  profile.takes_switchover_bandwidth = true;
  profile.host_cpus = 8;
  profile.busy_cpus = 2.5;
  profile.emulator_start = Microseconds{93'001};
  profile.cpu_granted = 0.75;
  profile.sequential = 0.25;
  profile.sweep = {true, Microseconds{700'001}};
  profile.cpu_quota = 0.5;
  profile.cpu_quota_period = Microseconds{100'000};
  for (int i = 1; i <= 2; ++i) {
    DirtyCycle cycle;
    cycle.began = WallTime{1'795'000'000'000'610 + i};
    for (int j = 1; j <= 3; ++j) {
      cycle.points.push_back({Microseconds{620 + 10 * i + j}, Microseconds{640 + 10 * i + j},
                              Bytes{static_cast<std::uint64_t>(660 + 10 * i + j)}});
    }
    profile.cycles.push_back(cycle);
  }
  profile.heat = {0.25, 0.5, 1};
  profile.cost_fraction = 0.0078125;
  return profile;
}

/// What is not shared of it nobody but mared can tell, from several.
LinkMeasurement full_link() {
  return {BytesPerSecond{701.5}, Microseconds{702}, Bytes{703}};
}

bool same(const VmKey& a, const VmKey& b) {
  const auto& [id, uuid] = a;
  return std::tie(id, uuid) == std::tie(b.id, b.uuid);
}

bool same(const VmSpec& a, const VmSpec& b) {
  const auto& [id, uuid, mac, ip, memory, vcpus, kernel, initrd, kernel_args] = a;
  return std::tie(id, uuid, mac, ip, memory, vcpus, kernel, initrd, kernel_args) ==
         std::tie(b.id, b.uuid, b.mac, b.ip, b.memory, b.vcpus, b.kernel, b.initrd, b.kernel_args);
}

bool same(const HostFacts& a, const HostFacts& b) {
  const auto& [hypervisor, memory, cpus, speed, overhead, accelerated, live, why, strategies, log,
               log_why, version, tls, address, cloning, cloning_why, leaves, machine] = a;
  return std::tie(hypervisor, memory, cpus, speed, overhead, accelerated, live, why, strategies,
                  log, log_why, version, tls, address, cloning, cloning_why, leaves, machine) ==
         std::tie(b.hypervisor, b.memory, b.cpus, b.cpu_speed, b.vm_overhead, b.accelerated,
                  b.live_migration, b.live_migration_why, b.strategies, b.dirty_log,
                  b.dirty_log_why, b.agent_version, b.migration_tls, b.migration_address, b.cloning,
                  b.cloning_why, b.captures_to_leave, b.machine);
}

bool same(const TemplateSpec& a, const TemplateSpec& b) {
  const auto& [kernel, initrd, kernel_args, memory, vcpus] = a;
  return std::tie(kernel, initrd, kernel_args, memory, vcpus) ==
         std::tie(b.kernel, b.initrd, b.kernel_args, b.memory, b.vcpus);
}

TemplateSpec full_template() {
  return {"/k\xff", "/i", "a=b c", Bytes{77}, 3};
}

bool same(const VmObservation& a, const VmObservation& b) {
  const auto& [key, copy, sending, memory, faults, first] = a;
  return same(key, b.key) &&
         std::tie(copy, sending, memory, faults, first) ==
             std::tie(b.copy, b.sending, b.memory, b.console_faults, b.console_first_fault);
}

bool same(const VmStatistics& a, const VmStatistics& b) {
  const auto& [cpu, resident, received, sent] = a;
  return std::tie(cpu, resident, received, sent) ==
         std::tie(b.cpu_time, b.resident, b.received_bytes, b.sent_bytes);
}

bool same(const Sending& a, const Sending& b) {
  const auto& [strategy, channels, initial, step, rounds, min, max, gain, post_copy, downtime,
               later, switchover, sweep, whole] = a;
  return std::tie(strategy, channels, initial, step, rounds, min, max, gain, post_copy, downtime,
                  later, switchover, sweep, whole) ==
         std::tie(b.strategy, b.channels, b.throttle_initial_percent, b.throttle_step_percent,
                  b.pre_copy_rounds, b.rate_min, b.rate_max, b.rate_gain, b.allow_post_copy,
                  b.downtime_limit, b.later_downtime_limit, b.switchover_bandwidth, b.sweep_switch,
                  b.limit_rises_early);
}

bool same(const MigrationTicket& a, const MigrationTicket& b) {
  const auto& [operation, vm, bandwidth, downtime, sending, holds] = a;
  return same(vm, b.vm) && same(sending, b.sending) &&
         std::tie(operation, bandwidth, downtime, holds) ==
             std::tie(b.operation, b.bandwidth_limit, b.downtime_limit, b.holds_switch);
}

bool same(const Round& a, const Round& b) {
  const auto& [index, started, duration, sent, remaining, dirty] = a;
  return std::tie(index, started, duration, sent, remaining, dirty) ==
         std::tie(b.index, b.started, b.duration, b.sent, b.remaining, b.dirty_bytes_per_s);
}

bool same(const OutgoingStatus& a, const OutgoingStatus& b) {
  const auto& [phase, operation, error, rounds, total, transferred, remaining, dirty, elapsed,
               paused_at, holds] = a;
  const bool rounds_same =
      std::equal(rounds.begin(), rounds.end(), b.rounds.begin(), b.rounds.end(),
                 [](const Round& x, const Round& y) { return same(x, y); });
  return rounds_same &&
         std::tie(phase, operation, error, total, transferred, remaining, dirty, elapsed, paused_at,
                  holds) == std::tie(b.phase, b.operation, b.error, b.memory_total, b.transferred,
                                     b.remaining, b.dirty_bytes_per_s, b.elapsed, b.paused_at,
                                     b.holds);
}

bool same(const ArrivalReport& a, const ArrivalReport& b) {
  const auto& [seen, downtime, total, transferred, resumed, announced, announcements] = a;
  return same(seen, b.seen) &&
         std::tie(downtime, total, transferred, resumed, announced, announcements) ==
             std::tie(b.downtime, b.total_time, b.transferred, b.resumed_at, b.announced_at,
                      b.announcements);
}

bool same(const DirtyPoint& a, const DirtyPoint& b) {
  const auto& [wall, progress, unique] = a;
  return std::tie(wall, progress, unique) == std::tie(b.wall, b.progress, b.unique);
}

bool same(const DirtyCycle& a, const DirtyCycle& b) {
  const auto& [began, points] = a;
  return began == b.began &&
         std::equal(points.begin(), points.end(), b.points.begin(), b.points.end(),
                    [](const DirtyPoint& x, const DirtyPoint& y) { return same(x, y); });
}

bool same(const MemoryProfile& a, const MemoryProfile& b) {
  const auto& [source, taken, total, zero, compressed, hot, packs, unpacks, sequential, sweep,
               cycles, heat, cost, emulated, told, cpus, busy, start, granted, quota, period] = a;
  const bool cycles_same =
      std::equal(cycles.begin(), cycles.end(), b.cycles.begin(), b.cycles.end(),
                 [](const DirtyCycle& x, const DirtyCycle& y) { return same(x, y); });
  return cycles_same &&
         std::tie(source, taken, total, zero, compressed, hot, packs, unpacks, sequential, sweep,
                  heat, cost, emulated, told, cpus, busy, start, granted, quota, period) ==
             std::tie(b.source, b.taken, b.total, b.zero, b.compressed_fraction,
                      b.hot_compressed_fraction, b.compress_rate, b.unpack_rate, b.sequential,
                      b.sweep, b.heat, b.cost_fraction, b.emulated, b.takes_switchover_bandwidth,
                      b.host_cpus, b.busy_cpus, b.emulator_start, b.cpu_granted, b.cpu_quota,
                      b.cpu_quota_period);
}

bool same(const LinkMeasurement& a, const LinkMeasurement& b) {
  const auto& [goodput, trip, sent, unshared, one_machine] = a;
  return std::tie(goodput, trip, sent, unshared, one_machine) ==
         std::tie(b.goodput, b.round_trip, b.sent, b.unshared, b.one_machine);
}

CaptureTicket full_capture_ticket() {
  return {CheckpointId{"ck-5"},
          full_key(),
          "/store/\xff/demo-0",
          Milliseconds{61'000},
          CaptureBase{"/store/\xfe/demo-0", Bytes{62}, 0xfedcba9876543211ULL},
          true,
          Milliseconds{63},
          true};
}

LeaseTicket full_lease_ticket() {
  return {"boot/91", Milliseconds{2100}, true, "/store/\xff/fenced/h1-1-1"};
}

LeaseAnswer full_lease_answer() {
  return {"boot/92", true, true};
}

CaptureStatus full_capture() {
  CaptureStatus status;
  status.phase = CapturePhase::Durable;
  status.checkpoint = CheckpointId{"ck-6"};
  status.error = "disk \xff is full";
  status.stopped = WallTime{71};
  status.resumed = WallTime{72};
  status.durable = WallTime{75};
  status.size = Bytes{73};
  status.checksum = 0xfedcba9876543210ULL;
  status.written = Bytes{74};
  status.incremental = true;
  status.full_because = "no \xff";
  return status;
}

CheckpointPart full_part() {
  CheckpointPart part;
  part.vm = VmId{"demo-3"};
  part.uuid = "b7b8";
  part.host = HostId{"h7"};
  part.path = "/store/\xfe/demo-3";
  part.size = Bytes{81};
  part.checksum = 0xf123456789abcdefULL;
  part.stopped = WallTime{82};
  part.resumed = WallTime{83};
  part.written = Bytes{84};
  part.base = CheckpointId{"ck-4"};
  part.partner = HostId{"h8"};
  return part;
}

CaptureLoad full_load() {
  return {Microseconds{92}, Microseconds{93}, true};
}

StandbyAnswer full_standby() {
  return {VmId{"demo-4"}, true, Bytes{94}, "no room \xff"};
}

bool same(const CaptureTicket& a, const CaptureTicket& b) {
  const auto& [checkpoint, vm, path, limit, base, compress, within, leaves] = a;
  if (base.has_value() != b.base.has_value()) return false;
  if (base) {
    const auto& [from, size, checksum] = *base;
    if (std::tie(from, size, checksum) != std::tie(b.base->path, b.base->size, b.base->checksum)) {
      return false;
    }
  }
  return same(vm, b.vm) &&
         std::tie(checkpoint, path, limit, compress, within, leaves) ==
             std::tie(b.checkpoint, b.path, b.hold_limit, b.compress, b.answer_within, b.leaves);
}

bool same(const CaptureStatus& a, const CaptureStatus& b) {
  const auto& [phase, checkpoint, error, stopped, resumed, durable, size, checksum, written,
               incremental, because] = a;
  return std::tie(phase, checkpoint, error, stopped, resumed, durable, size, checksum, written,
                  incremental, because) == std::tie(b.phase, b.checkpoint, b.error, b.stopped,
                                                    b.resumed, b.durable, b.size, b.checksum,
                                                    b.written, b.incremental, b.full_because);
}

bool same(const LeaseTicket& a, const LeaseTicket& b) {
  const auto& [stamp, term, enforced, note] = a;
  return std::tie(stamp, term, enforced, note) == std::tie(b.stamp, b.term, b.enforced, b.note);
}

bool same(const LeaseAnswer& a, const LeaseAnswer& b) {
  const auto& [stamp, granted, enforced] = a;
  return std::tie(stamp, granted, enforced) == std::tie(b.stamp, b.granted, b.enforced);
}

bool same(const CheckpointPart& a, const CheckpointPart& b) {
  const auto& [vm, uuid, host, path, size, checksum, written, base, partner, stopped, resumed] = a;
  return std::tie(vm, uuid, host, path, size, checksum, stopped, resumed, written, base, partner) ==
         std::tie(b.vm, b.uuid, b.host, b.path, b.size, b.checksum, b.stopped, b.resumed, b.written,
                  b.base, b.partner);
}

bool same(const CaptureLoad& a, const CaptureLoad& b) {
  const auto& [reading, restoring, mapped] = a;
  return std::tie(reading, restoring, mapped) == std::tie(b.reading, b.restoring, b.mapped);
}

bool same(const StandbyAnswer& a, const StandbyAnswer& b) {
  const auto& [vm, kept, memory, why_not] = a;
  return std::tie(vm, kept, memory, why_not) == std::tie(b.vm, b.kept, b.memory, b.why_not);
}

}  // namespace mare::agent::test
