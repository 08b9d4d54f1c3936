#include "hypervisor/libvirt/libvirt_driver.h"

#include <filesystem>

#include "hypervisor/libvirt/capture_file.h"
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/driver_class.h"
#include "hypervisor/libvirt/refusals.h"
#include "hypervisor/libvirt/sending.h"
#include "orchestrator/core/boot_clock.h"

namespace mare::libvirt {
namespace {

// A TCG QEMU of a 192 MiB guest takes 320 to 380 MiB: translated code on top of the device model.
constexpr Bytes kTcgOverhead = mebibytes(160);
constexpr Bytes kKvmOverhead = mebibytes(64);
constexpr const char* kVersion = "0.1.0";

}  // namespace

LibvirtDriver::LibvirtDriver(LibvirtOptions options, Announcer& announcer, Clock& clock, Log& log)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      accelerated_(kvm_is_usable()),
      consoles_(options_.state_dir + "/console", clock),
      templates_(options_.state_dir + "/templates", options_.template_memory, clock, log),
      standbys_(options_.standby_memory, log),
      admission_(clock),
      arrivals_(options_.state_dir + "/arrivals", announcer, clock, log),
      watching_(
          options_.dirty_log, options_.dirty_log_library,
          [this](const std::string& uuid) { return locate_vm(uuid); }, clock, log),
      sinks_(options_.migration_address, clock, log),
      notices_(
          options_.migration_address,
          [this](const std::string& uuid) { arrivals_.on_standing_still(uuid); }, log),
      incoming_queues_(
          {[this](const VmKey& vm) { return find_qemu(pid_directory(options_.uri), vm); },
           [this](const std::string& uuid) { return arrivals_.expected(uuid); },
           [this] { return sinks_.last_goodput(); }},
          clock, log),
      connection_(options_.uri, events(), log),
      admitting_(options_, overhead(), {connection_, admission_, standbys_, lease_},
                 [this] { return list(); }),
      starting_(options_, accelerated_, {connection_, consoles_, templates_, watching_}, clock),
      outgoing_(connection_, announcer, clock, log),
      captures_(
          connection_, [this](const std::string& uuid) { watching_.watch(uuid); }, clock, log),
      lease_({{options_.state_dir + "/lease", pid_directory(options_.uri), options_.deadman_file},
              options_.watchdog,
              options_.longest_lease},
             log) {}

LibvirtDriver::~LibvirtDriver() {
  connection_.stop_events();
  watching_.stop();
}

Status LibvirtDriver::open() {
  watching_.start();
  if (auto made = consoles_.make_directory(); !made) return made;
  if (auto loaded = arrivals_.load(); !loaded) return loaded;
  // How they come is not kept: one connection that copies has the widest bound.
  for (const auto& arrival : arrivals_.all_expected()) {
    incoming_queues_.expect(arrival.key, 1, dirtylog::Reader::Copies, true);
  }
  if (auto leased = lease_.open(); !leased) return leased;
  clear_unpacked(options_.state_dir + "/unpacked");
  // Also lets libvirtd learn about its emulators now, not in the middle of a call that must be
  // short.
  return probe();
}

Result<HostFacts> LibvirtDriver::facts() {
  auto connection = connection_.get();
  if (!connection) return connection.error();
  unsigned long qemu = 0;
  unsigned long library = 0;
  virNodeInfo node{};
  if (virConnectGetVersion(connection->get(), &qemu) != 0 ||
      virConnectGetLibVersion(connection->get(), &library) != 0 ||
      virNodeGetInfo(connection->get(), &node) != 0) {
    return last_read_error("what host '" + options_.host_name + "' has");
  }
  HostFacts facts;
  facts.hypervisor = "qemu " + version_text(qemu) + (accelerated_ ? " (kvm)" : " (tcg)") +
                     ", libvirt " + version_text(library);
  facts.memory = options_.memory;
  facts.cpus = static_cast<int>(node.cpus);
  facts.cpu_speed = options_.cpu_speed;
  facts.vm_overhead = overhead();
  facts.accelerated = accelerated_;
  facts.live_migration_why = why_no_live_migration(accelerated_, qemu);
  facts.live_migration = facts.live_migration_why.empty();
  facts.dirty_log_why = watching_.why_not_exact();
  facts.dirty_log = watching_.source();
  Machinery machinery = machinery_;
  machinery.qemu = qemu;
  machinery.libvirt = library;
  facts.strategies = strategies_of(machinery);
  facts.agent_version = kVersion;
  facts.migration_tls = options_.migration_tls;
  facts.migration_address = options_.migration_address;
  facts.cloning_why =
      machinery_.cloning_why.empty() ? why_no_cloning(qemu) : machinery_.cloning_why;
  facts.cloning = facts.cloning_why.empty();
  facts.captures_to_leave = true;
  facts.machine = boot_id();
  return facts;
}

Result<MemoryProfile> LibvirtDriver::memory_profile(const VmKey& vm) {
  auto seen = observe(vm);
  if (!seen) return seen.error();
  if (seen->copy != Copy::Running && seen->copy != Copy::Paused) return no_copy(vm);
  auto pid = find_qemu(pid_directory(options_.uri), seen->key);
  if (!pid) return pid.error();
  auto profile = watching_.profile(vm, {*pid, seen->memory});
  if (!profile) return profile;
  profile->emulated = !accelerated_;
  profile->takes_switchover_bandwidth = takes_switchover_bandwidth();
  profile->emulator_start = emulator_start_.quickest();
  return profile;
}

Result<IncomingEndpoint> LibvirtDriver::open_link_sink() {
  auto uri = sinks_.open();
  if (!uri) return uri.error();
  return IncomingEndpoint{*uri};
}

Result<LinkMeasurement> LibvirtDriver::measure_link(const IncomingEndpoint& sink) {
  auto measured = dirtylog::measure_link(sink.uri, clock_);
  if (measured) outgoing_.set_link(measured->goodput);
  return measured;
}

Result<LeaseAnswer> LibvirtDriver::renew_lease(const LeaseTicket& ticket) {
  return options_.watchdog.empty() ? Driver::renew_lease(ticket) : lease_.renew(ticket);
}

DomainEvents LibvirtDriver::events() {
  DomainEvents out;
  out.paused_for_migration = [this](const std::string& uuid) { outgoing_.on_paused(uuid); };
  out.post_copying = [this](const std::string& uuid) { outgoing_.on_post_copy(uuid); };
  out.sent = [this](const std::string& uuid, const CompletedJob& figures) {
    outgoing_.on_completed(uuid, figures);
  };
  out.resumed_by_migration = [this](const std::string& uuid) {
    arrivals_.on_resumed(uuid, clock_.wall_now());
    admission_.release(uuid);  // it is a domain now
    watching_.arrived(uuid);
  };
  out.iteration = [this](const std::string& uuid, int iteration) {
    outgoing_.on_iteration(uuid, iteration);
  };
  out.connected = [this](virConnectPtr connection) { catch_up(connection); };
  return out;
}

Result<VmProcess> LibvirtDriver::locate_vm(const std::string& uuid) {
  if (outgoing_.running(uuid)) {
    return make_error(Code::FailedPrecondition, "it is being migrated");
  }
  if (captures_.active(uuid)) {
    return make_error(Code::FailedPrecondition, "it is being captured");
  }
  auto connection = connection_.get();
  if (!connection) return connection.error();
  return locate(connection->get(), uuid, arrivals_.expected(uuid), pid_directory(options_.uri),
                options_.watched_names);
}

void LibvirtDriver::catch_up(virConnectPtr connection) {
  watching_.watch_all(connection);
  for (const auto& arrival : arrivals_.all_expected()) {
    const DomainHandle domain{virDomainLookupByUUIDString(connection, arrival.key.uuid.c_str())};
    if (!domain) continue;
    auto seen = look_at(domain.get(), true);
    if (seen && seen->copy == Copy::Running) {
      arrivals_.on_resumed(arrival.key.uuid, WallTime{0});
    }
  }
}

bool LibvirtDriver::takes_switchover_bandwidth() {
  auto connection = connection_.get();
  unsigned long qemu = 0;
  unsigned long library = 0;
  return connection && virConnectGetVersion(connection->get(), &qemu) == 0 &&
         virConnectGetLibVersion(connection->get(), &library) == 0 &&
         libvirt::takes_switchover_bandwidth(qemu, library);
}

Bytes LibvirtDriver::overhead() const {
  return accelerated_ ? kKvmOverhead : kTcgOverhead;
}

Status LibvirtDriver::probe() {
  auto connection = connection_.get();
  if (!connection) return connection.error();
  const std::string known = take_text(virConnectGetCapabilities(connection->get()));
  if (known.empty()) return last_read_error("what host '" + options_.host_name + "' can do");
  machinery_.accelerated = accelerated_;
  emulator_start_.begin(emulator_in(known), accelerated_, clock_, log_, [this] {
    return !outgoing_.any_runs() && arrivals_.all_expected().empty();
  });
  machinery_.zstd = is_linked_with(emulator_in(known), "libzstd.so");
  machinery_.userfaultfd = userfaultfd_is_usable(runs_qemu_as_root(known));
  machinery_.cloning_why = why_no_emulator(connection->get());
  if (auto opened = templates_.open(connection->get(), known); !opened) return opened;
  if (!options_.standby_memory.empty()) {
    if (auto opened = standbys_.open(qemu_owner(known)); !opened) return opened;
  }
  auto all = facts();
  return all ? ok_status() : Status(all.error());
}

std::string LibvirtDriver::why_no_emulator(virConnectPtr connection) const {
  if (options_.emulator.empty()) return "mare-qemu is not beside the agent: --emulator";
  const std::string can = take_text(virConnectGetDomainCapabilities(
      connection, options_.emulator.c_str(), "x86_64", "q35", accelerated_ ? "kvm" : "qemu", 0));
  if (!can.empty()) return "";
  return last_read_error("libvirt can't use " + options_.emulator).text();
}

Result<std::unique_ptr<Driver>> make_driver(const LibvirtOptions& options, Announcer& announcer,
                                            Clock& clock, Log& log) {
  LibvirtOptions absolute = options;
  std::error_code failed;
  absolute.state_dir = std::filesystem::absolute(options.state_dir, failed).string();
  if (failed) {
    return make_error(Code::InvalidArgument, "'" + options.state_dir + "': " + failed.message());
  }
  auto driver = std::make_unique<LibvirtDriver>(absolute, announcer, clock, log);
  if (auto opened = driver->open(); !opened) return opened.error();
  return std::unique_ptr<Driver>(std::move(driver));
}

}  // namespace mare::libvirt
