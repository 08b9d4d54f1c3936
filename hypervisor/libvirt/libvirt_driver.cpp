#include "hypervisor/libvirt/libvirt_driver.h"

#include <array>
#include <filesystem>
#include <map>
#include <mutex>

#include "hypervisor/libvirt/capabilities.h"
#include "hypervisor/libvirt/connection.h"
#include "hypervisor/libvirt/console.h"
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/outgoing.h"

namespace mare::libvirt {
namespace {

// A TCG QEMU of a 192 MiB guest takes 320 to 380 MiB: translated code on top of the device model.
constexpr Bytes kTcgOverhead = mebibytes(160);
constexpr Bytes kKvmOverhead = mebibytes(64);
constexpr const char* kVersion = "0.1.0";

/// What the destination knows of a VM that comes or came.
struct Arrival {
  VmSpec vm;
  bool expected = false;  // prepared, and not resumed yet
  WallTime resumed_at{0};
  WallTime announced_at{0};
};

class LibvirtDriver final : public Driver {
 public:
  LibvirtDriver(LibvirtOptions options, Announcer& announcer, Clock& clock, Log& log)
      : options_(std::move(options)),
        announcer_(announcer),
        clock_(clock),
        log_(log),
        accelerated_(kvm_is_usable()),
        consoles_(options_.state_dir + "/console"),
        connection_(options_.uri, events(), log),
        outgoing_(connection_, clock, log) {}

  Status open() {
    if (auto made = consoles_.make_directory(); !made) return made;
    auto connection = connection_.get();
    if (!connection) return connection.error();
    return ok_status();
  }

  Result<HostFacts> facts() override {
    auto connection = connection_.get();
    if (!connection) return connection.error();
    unsigned long qemu = 0;
    unsigned long library = 0;
    virNodeInfo node{};
    if (virConnectGetVersion(connection->get(), &qemu) != 0 ||
        virConnectGetLibVersion(connection->get(), &library) != 0 ||
        virNodeGetInfo(connection->get(), &node) != 0) {
      return last_error("host facts");
    }
    HostFacts facts;
    facts.hypervisor = "qemu " + version_text(qemu) + (accelerated_ ? " (kvm)" : " (tcg)") +
                       ", libvirt " + version_text(library);
    facts.memory = options_.memory;
    facts.cpus = static_cast<int>(node.cpus);
    facts.vm_overhead = overhead();
    facts.accelerated = accelerated_;
    facts.live_migration_why = why_no_live_migration(accelerated_, qemu);
    facts.live_migration = facts.live_migration_why.empty();
    facts.agent_version = kVersion;
    return facts;
  }

  Result<std::vector<VmObservation>> list() override {
    auto connection = connection_.get();
    if (!connection) return connection.error();
    virDomainPtr* raw = nullptr;
    const int count =
        virConnectListAllDomains(connection->get(), &raw, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
    if (count < 0) return last_error("list of VMs");
    std::vector<VmObservation> out;
    for (int i = 0; i < count; ++i) {
      const DomainHandle domain{raw[i]};
      if (!is_ours(domain.get())) continue;
      auto seen = look(domain.get());
      if (seen && seen->copy != Copy::Absent) out.push_back(*seen);
    }
    free(raw);
    return out;
  }

  Result<VmObservation> observe(const VmKey& vm) override {
    auto domain = find(vm);
    if (domain) return look(domain->get());
    if (domain.error().code != Code::NotFound) return domain.error();
    VmObservation absent;
    absent.key = vm;
    const auto faults = consoles_.scan(vm.id.value);
    absent.console_faults = faults.count;
    absent.console_first_fault = faults.first;
    return absent;
  }

  Status start(const VmSpec& vm) override {
    auto fresh = check_new(vm);
    if (!fresh) return fresh.error();
    if (!*fresh) return ok_status();
    if (auto files = check_files(vm); !files) return files;
    auto connection = connection_.get();
    if (!connection) return connection.error();
    consoles_.begin(vm.id.value);
    const std::string xml = domain_xml(vm, domain_options(vm));
    const DomainHandle made{virDomainCreateXML(connection->get(), xml.c_str(), VIR_DOMAIN_NONE)};
    if (!made) return last_error("VM '" + vm.id.value + "' can't be started");
    return ok_status();
  }

  Status destroy(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return absent_is_fine(domain.error());
    if (virDomainDestroyFlags(domain->get(), VIR_DOMAIN_DESTROY_DEFAULT) == 0) return ok_status();
    return absent_is_fine(last_error("VM '" + vm.id.value + "' can't be ended"));
  }

  Status pause(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return domain.error();
    if (virDomainSuspend(domain->get()) == 0) return ok_status();
    return last_error("VM '" + vm.id.value + "' can't be paused");
  }

  Status resume(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return domain.error();
    auto seen = look(domain->get());
    if (seen && seen->copy == Copy::Running) return ok_status();
    if (virDomainResume(domain->get()) == 0) return ok_status();
    return last_error("VM '" + vm.id.value + "' can't go on");
  }

  Status save(const VmKey& vm, const std::string& path) override {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      return make_error(Code::AlreadyExists, "there is a file " + path, "name a new one");
    }
    auto domain = find(vm);
    if (!domain) return domain.error();
    // A connection of its own: writing the memory takes long.
    auto connection = connection_.open_another();
    if (!connection) return connection.error();
    const DomainHandle same{virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str())};
    if (!same) return last_error("VM '" + vm.id.value + "'");
    if (virDomainSaveFlags(same.get(), path.c_str(), nullptr, VIR_DOMAIN_SAVE_RUNNING) == 0) {
      return ok_status();
    }
    const Error error = last_error("VM '" + vm.id.value + "' can't be saved to " + path);
    std::filesystem::remove(path, ignored);
    return error;
  }

  Status restore(const VmSpec& vm, const std::string& path) override {
    auto fresh = check_new(vm);
    if (!fresh) return fresh.error();
    if (!*fresh) return ok_status();
    auto connection = connection_.open_another();
    if (!connection) return connection.error();
    char* raw = virDomainSaveImageGetXMLDesc(connection->get(), path.c_str(), 0);
    if (raw == nullptr) return last_error(path + " can't be read");
    const std::string xml = with_console(raw, consoles_.path(vm.id.value));
    free(raw);
    consoles_.begin(vm.id.value);
    if (virDomainRestoreFlags(connection->get(), path.c_str(), xml.empty() ? nullptr : xml.c_str(),
                              VIR_DOMAIN_SAVE_RUNNING) == 0) {
      return ok_status();
    }
    return last_error("VM '" + vm.id.value + "' can't be restored from " + path);
  }

  Result<VmStatistics> statistics(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return domain.error();
    virDomainInfo info{};
    if (virDomainGetInfo(domain->get(), &info) != 0) return last_error("statistics");
    VmStatistics out;
    out.cpu_time = std::chrono::duration_cast<Microseconds>(
        std::chrono::nanoseconds{static_cast<std::int64_t>(info.cpuTime)});
    std::array<virDomainMemoryStatStruct, VIR_DOMAIN_MEMORY_STAT_NR> memory{};
    const int got = virDomainMemoryStats(domain->get(), memory.data(), memory.size(), 0);
    for (int i = 0; i < got; ++i) {
      const auto& entry = memory.at(static_cast<std::size_t>(i));
      if (entry.tag == VIR_DOMAIN_MEMORY_STAT_RSS) out.resident = Bytes{entry.val * 1024};
    }
    add_traffic(domain->get(), out);
    return out;
  }

  Result<IncomingEndpoint> prepare_incoming(const MigrationTicket& ticket) override {
    auto fresh = check_new(ticket.vm);
    if (!fresh) return fresh.error();
    {
      const std::lock_guard lock(mutex_);
      Arrival& arrival = arrivals_[ticket.vm.uuid];
      if (*fresh && !arrival.expected) {
        consoles_.begin(ticket.vm.id.value);
        arrival = Arrival{};
        arrival.expected = true;
      }
      arrival.vm = ticket.vm;
    }
    const Route route{"qemu+tcp://" + options_.migration_address + "/system",
                      "tcp://" + options_.migration_address, consoles_.path(ticket.vm.id.value)};
    return IncomingEndpoint{route.text()};
  }

  Status begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) override {
    auto route = Route::parse(to.uri);
    if (!route) return route.error();
    auto domain = find(ticket.vm.key());
    if (!domain) return domain.error();
    auto facts = this->facts();
    if (facts && !facts->live_migration) {
      return make_error(Code::Unsupported, facts->live_migration_why);
    }
    auto seen = look(domain->get());
    if (!seen) return seen.error();
    const bool ours = outgoing_.status(ticket.vm.uuid).operation == ticket.operation;
    if (seen->sending && !ours) {
      return make_error(Code::Conflict,
                        "VM '" + ticket.vm.id.value + "' is being migrated already");
    }
    {
      const std::lock_guard lock(mutex_);
      arrivals_.erase(ticket.vm.uuid);  // it came once; now it goes
    }
    return outgoing_.begin(ticket, *route);
  }

  Result<OutgoingStatus> outgoing(const VmKey& vm) override {
    OutgoingStatus known = outgoing_.status(vm.uuid);
    if (known.phase == OutgoingPhase::PreCopying || known.phase == OutgoingPhase::Switching) {
      return known;
    }
    // Perhaps one that an earlier agent began.
    auto domain = find(vm);
    if (!domain) {
      if (domain.error().code == Code::NotFound) return known;
      return domain.error();
    }
    auto adopted = look_at_job(domain->get());
    return adopted ? *adopted : known;
  }

  Status cancel_outgoing(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return absent_is_fine(domain.error());
    auto seen = look(domain->get());
    if (!seen) return seen.error();
    if (!seen->sending) return ok_status();
    if (virDomainAbortJob(domain->get()) == 0) return ok_status();
    const Error error = last_error("migration of '" + vm.id.value + "' can't be cancelled");
    // It ended by itself in this moment, or is past the point: the copies tell what came of it.
    return error.code == Code::FailedPrecondition ? ok_status() : absent_is_fine(error);
  }

  Result<ArrivalReport> arrival(const VmKey& vm) override {
    auto seen = observe(vm);
    if (!seen) return seen.error();
    ArrivalReport report;
    report.seen = *seen;
    {
      const std::lock_guard lock(mutex_);
      const auto known = arrivals_.find(vm.uuid);
      if (known != arrivals_.end()) {
        report.resumed_at = known->second.resumed_at;
        report.announced_at = known->second.announced_at;
        report.announcements = announcer_.frames_sent(known->second.vm.mac);
      }
    }
    if (seen->copy == Copy::Absent || seen->copy == Copy::Incoming) return report;
    auto domain = find(vm);
    JobStats stats;
    if (!domain || !stats.read(domain->get(), VIR_DOMAIN_JOB_STATS_COMPLETED)) return report;
    if (stats.has(VIR_DOMAIN_JOB_DOWNTIME)) {
      report.downtime =
          Milliseconds{static_cast<std::int64_t>(stats.natural(VIR_DOMAIN_JOB_DOWNTIME))};
    }
    if (stats.has(VIR_DOMAIN_JOB_TIME_ELAPSED)) {
      report.total_time =
          Milliseconds{static_cast<std::int64_t>(stats.natural(VIR_DOMAIN_JOB_TIME_ELAPSED))};
    }
    report.transferred = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_PROCESSED)};
    return report;
  }

  Status discard_incoming(const VmKey& vm) override {
    auto seen = observe(vm);
    if (!seen) return seen.error();
    const bool has_run = seen->copy == Copy::Running || seen->copy == Copy::Paused;
    if (has_run) return ok_status();
    {
      const std::lock_guard lock(mutex_);
      arrivals_.erase(vm.uuid);
    }
    return seen->copy == Copy::Incoming ? destroy(vm) : ok_status();
  }

  Status announce(const VmSpec& vm) override {
    auto sent = announcer_.announce(vm.mac, vm.ip);
    if (!sent) return sent.error();
    const std::lock_guard lock(mutex_);
    Arrival& arrival = arrivals_[vm.uuid];
    arrival.vm = vm;
    if (arrival.announced_at.count() == 0) arrival.announced_at = *sent;
    return ok_status();
  }

 private:
  DomainEvents events() {
    DomainEvents out;
    out.paused_for_migration = [this](const std::string& uuid) { outgoing_.on_paused(uuid); };
    out.resumed_by_migration = [this](const std::string& uuid) { on_resumed(uuid); };
    out.iteration = [](const std::string&, int) {};  // the sampler reads it with the other figures
    return out;
  }

  /// On the event loop's thread: every millisecond here is downtime.
  void on_resumed(const std::string& uuid) {
    const WallTime now = clock_.wall_now();
    const std::lock_guard lock(mutex_);
    const auto known = arrivals_.find(uuid);
    if (known == arrivals_.end() || !known->second.expected) return;
    Arrival& arrival = known->second;
    arrival.expected = false;
    arrival.resumed_at = now;
    auto sent = announcer_.announce(arrival.vm.mac, arrival.vm.ip);
    if (sent) {
      arrival.announced_at = *sent;
    } else {
      log_.warn("libvirt",
                "VM '" + arrival.vm.id.value + "' not announced: " + sent.error().text());
    }
  }

  Bytes overhead() const { return accelerated_ ? kKvmOverhead : kTcgOverhead; }

  DomainOptions domain_options(const VmSpec& vm) const {
    return {accelerated_, options_.bridge, consoles_.path(vm.id.value)};
  }

  Result<DomainHandle> find(const VmKey& vm) {
    auto connection = connection_.get();
    if (!connection) return connection.error();
    DomainHandle domain{virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str())};
    if (!domain) return last_error("VM '" + vm.id.value + "'");
    return domain;
  }

  static Status absent_is_fine(const Error& error) {
    return error.code == Code::NotFound ? ok_status() : Status(error);
  }

  static bool is_ours(virDomainPtr domain) {
    char* text = virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, kMetadataUri, 0);
    free(text);
    return text != nullptr;
  }

  /// What job a domain is busy with, seen from here.
  struct Busy {
    bool sending = false;
    bool receiving = false;
  };
  static Busy busy_with(virDomainPtr domain) {
    JobStats stats;
    if (!stats.read(domain, 0)) {
      // libvirt refuses statistics on the receiving side, and with just this code.
      return {false, last_error_code() == VIR_ERR_OPERATION_INVALID};
    }
    const bool job =
        stats.type() == VIR_DOMAIN_JOB_BOUNDED || stats.type() == VIR_DOMAIN_JOB_UNBOUNDED;
    return {job && stats.operation() == VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT,
            job && stats.operation() == VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN};
  }

  Result<VmObservation> look(virDomainPtr domain) {
    VmObservation out;
    std::array<char, VIR_UUID_STRING_BUFLEN> uuid{};
    const char* name = virDomainGetName(domain);
    if (name == nullptr || virDomainGetUUIDString(domain, uuid.data()) != 0) {
      return last_error("a VM's name");
    }
    out.key = {VmId{name}, uuid.data()};
    const auto faults = consoles_.scan(name);
    out.console_faults = faults.count;
    out.console_first_fault = faults.first;
    int state = 0;
    int reason = 0;
    if (virDomainGetState(domain, &state, &reason, 0) != 0) {
      const Error error = last_error("VM '" + out.key.id.value + "'");
      if (error.code == Code::NotFound) return out;  // it ended just now
      return error;
    }
    const Busy busy = busy_with(domain);
    out.sending = busy.sending;
    out.copy = copy_of(state, reason, busy, out.key.uuid);
    virDomainInfo info{};
    if (virDomainGetInfo(domain, &info) == 0) out.memory = Bytes{info.maxMem * 1024};
    return out;
  }

  Copy copy_of(int state, int reason, const Busy& busy, const std::string& uuid) {
    switch (state) {
      case VIR_DOMAIN_RUNNING:
      case VIR_DOMAIN_BLOCKED:
      case VIR_DOMAIN_PMSUSPENDED:
        return Copy::Running;
      case VIR_DOMAIN_PAUSED:
        break;
      case VIR_DOMAIN_SHUTDOWN:  // QEMU is ending
        return Copy::Paused;
      default:
        return Copy::Absent;
    }
    if (busy.sending) return Copy::Paused;
    if (busy.receiving) return Copy::Incoming;
    const std::lock_guard lock(mutex_);
    const auto known = arrivals_.find(uuid);
    const bool expected = known != arrivals_.end() && known->second.expected;
    const bool half_way =
        reason == VIR_DOMAIN_PAUSED_MIGRATION || reason == VIR_DOMAIN_PAUSED_STARTING_UP;
    return expected && half_way ? Copy::Incoming : Copy::Paused;
  }

  /// false: that incarnation is here already. An error when it can't come.
  Result<bool> check_new(const VmSpec& vm) {
    auto here = list();
    if (!here) return here.error();
    Bytes used;
    for (const auto& other : *here) {
      if (other.key.uuid == vm.uuid) return false;
      if (other.key.id == vm.id) {
        return make_error(Code::AlreadyExists, "host '" + options_.host_name +
                                                   "' has another VM named '" + vm.id.value +
                                                   "' (" + other.key.uuid + ")");
      }
      used = used + other.memory + overhead();
    }
    const Bytes needed = vm.memory + overhead();
    if (used + needed <= options_.memory) return true;
    const Bytes free = options_.memory - used;
    return make_error(Code::ResourceExhausted, "host '" + options_.host_name + "' has " +
                                                   std::to_string(free.count / 1048576) +
                                                   " MiB left for VMs, '" + vm.id.value +
                                                   "' needs " +
                                                   std::to_string(needed.count / 1048576) + " MiB");
  }

  static Status check_files(const VmSpec& vm) {
    std::error_code ignored;
    for (const auto& path : {vm.kernel, vm.initrd}) {
      if (std::filesystem::exists(path, ignored)) continue;
      return make_error(Code::FailedPrecondition,
                        "the image's file " + path + " is not on this host",
                        "images must be under the same path on every host");
    }
    return ok_status();
  }

  /// A migration that this process did not begin.
  std::optional<OutgoingStatus> look_at_job(virDomainPtr domain) {
    JobStats stats;
    if (!stats.read(domain, 0) || stats.operation() != VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT) {
      return std::nullopt;
    }
    if (stats.type() != VIR_DOMAIN_JOB_BOUNDED && stats.type() != VIR_DOMAIN_JOB_UNBOUNDED) {
      return std::nullopt;
    }
    OutgoingStatus out;
    int state = 0;
    const bool paused =
        virDomainGetState(domain, &state, nullptr, 0) == 0 && state == VIR_DOMAIN_PAUSED;
    out.phase = paused ? OutgoingPhase::Switching : OutgoingPhase::PreCopying;
    out.memory_total = Bytes{stats.natural(VIR_DOMAIN_JOB_MEMORY_TOTAL)};
    out.transferred = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_PROCESSED)};
    out.remaining = Bytes{stats.natural(VIR_DOMAIN_JOB_DATA_REMAINING)};
    out.elapsed =
        Milliseconds{static_cast<std::int64_t>(stats.natural(VIR_DOMAIN_JOB_TIME_ELAPSED))};
    return out;
  }

  static void add_traffic(virDomainPtr domain, VmStatistics& out) {
    char* raw = virDomainGetXMLDesc(domain, 0);
    const std::string xml = raw != nullptr ? raw : "";
    free(raw);
    const std::string before = "<target dev='";
    const auto begin = xml.find(before, std::min(xml.find("<interface"), xml.size()));
    if (begin == std::string::npos) return;
    const auto name = begin + before.size();
    const std::string device = xml.substr(name, xml.find('\'', name) - name);
    virDomainInterfaceStatsStruct traffic{};
    if (virDomainInterfaceStats(domain, device.c_str(), &traffic, sizeof traffic) != 0) return;
    // The tap's view is the other way round: what it sends, the guest receives. libvirt swaps it
    // already.
    out.received_bytes = static_cast<std::uint64_t>(std::max<long long>(0, traffic.rx_bytes));
    out.sent_bytes = static_cast<std::uint64_t>(std::max<long long>(0, traffic.tx_bytes));
  }

  const LibvirtOptions options_;
  Announcer& announcer_;
  Clock& clock_;
  Log& log_;
  const bool accelerated_;
  Consoles consoles_;
  std::mutex mutex_;
  std::map<std::string, Arrival> arrivals_;  // by uuid
  Connection connection_;
  Outgoing outgoing_;
};

}  // namespace

Result<std::unique_ptr<Driver>> make_driver(const LibvirtOptions& options, Announcer& announcer,
                                            Clock& clock, Log& log) {
  auto driver = std::make_unique<LibvirtDriver>(options, announcer, clock, log);
  if (auto opened = driver->open(); !opened) return opened.error();
  return std::unique_ptr<Driver>(std::move(driver));
}

}  // namespace mare::libvirt
