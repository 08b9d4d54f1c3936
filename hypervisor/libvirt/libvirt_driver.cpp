#include "hypervisor/libvirt/libvirt_driver.h"

#include <array>
#include <cstdlib>
#include <filesystem>

#include "hypervisor/dirtylog/link.h"
#include "hypervisor/leases/host_lease.h"
#include "hypervisor/libvirt/admission.h"
#include "hypervisor/libvirt/admitting.h"
#include "hypervisor/libvirt/arrivals.h"
#include "hypervisor/libvirt/capabilities.h"
#include "hypervisor/libvirt/capture_file.h"
#include "hypervisor/libvirt/captures.h"
#include "hypervisor/libvirt/connection.h"
#include "hypervisor/libvirt/console.h"
#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/emulator_start.h"
#include "hypervisor/libvirt/figures.h"
#include "hypervisor/libvirt/incoming_queues.h"
#include "hypervisor/libvirt/outgoing.h"
#include "hypervisor/libvirt/sending.h"
#include "hypervisor/libvirt/standbys.h"
#include "hypervisor/libvirt/starting.h"
#include "hypervisor/libvirt/switch_notice.h"
#include "hypervisor/libvirt/templates.h"
#include "hypervisor/libvirt/watching.h"
#include "orchestrator/core/boot_clock.h"

namespace mare::libvirt {
namespace {

// A TCG QEMU of a 192 MiB guest takes 320 to 380 MiB: translated code on top of the device model.
constexpr Bytes kTcgOverhead = mebibytes(160);
constexpr Bytes kKvmOverhead = mebibytes(64);
constexpr const char* kVersion = "0.1.0";

Error no_copy(const VmKey& vm) {
  return make_error(Code::NotFound, "no copy of VM '" + vm.id.value + "' is on this host");
}

Error busy_migrating(const VmKey& vm) {
  return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' is being migrated",
                    "wait for the migration or cancel it");
}

Error held_for_capture(const VmKey& vm) {
  return make_error(Code::FailedPrecondition,
                    "VM '" + vm.id.value + "' stands still for a checkpoint", "wait for it");
}

Error being_captured(const VmKey& vm) {
  return make_error(Code::Conflict, "VM '" + vm.id.value + "' is being captured",
                    "wait for the checkpoint");
}

class LibvirtDriver final : public Driver {
 public:
  LibvirtDriver(LibvirtOptions options, Announcer& announcer, Clock& clock, Log& log)
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

  ~LibvirtDriver() override {
    connection_.stop_events();
    watching_.stop();
  }
  LibvirtDriver(const LibvirtDriver&) = delete;
  LibvirtDriver& operator=(const LibvirtDriver&) = delete;

  Status open() {
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

  Result<HostFacts> facts() override {
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

  Result<std::vector<VmObservation>> list() override {
    auto connection = connection_.get();
    if (!connection) return connection.error();
    virDomainPtr* raw = nullptr;
    const int count =
        virConnectListAllDomains(connection->get(), &raw, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
    if (count < 0) return last_read_error("the VMs of host '" + options_.host_name + "'");
    std::vector<DomainHandle> domains;
    for (int i = 0; i < count; ++i) domains.emplace_back(raw[i]);
    std::free(raw);
    std::vector<VmObservation> out;
    for (const auto& domain : domains) {
      if (!is_ours(domain.get())) continue;
      auto seen = observe_domain(domain.get());
      // A list that lacks a VM because it could not be read would say that it is gone.
      if (!seen) return seen.error();
      if (seen->copy != Copy::Absent) out.push_back(*seen);
    }
    return out;
  }

  Result<VmObservation> observe(const VmKey& vm) override {
    auto domain = find(vm);
    if (domain) return observe_domain(domain->get());
    if (domain.error().code != Code::NotFound) return domain.error();
    VmObservation absent;
    absent.key = vm;
    add_faults(absent);
    return absent;
  }

  Status start(const VmSpec& vm) override {
    auto fresh = admitting_.admit(vm);
    if (!fresh) return fresh.error();
    if (!*fresh) return ok_status();
    return made(vm, starting_.boot(vm));
  }

  Result<TemplateStatus> make_template(const TemplateSpec& what) override {
    auto known = facts();
    if (!known) return known.error();
    if (!known->cloning) return make_error(Code::Unsupported, known->cloning_why);
    auto connection = connection_.get();
    if (!connection) return connection.error();
    const auto room = [this](const VmSpec& guest) -> Status {
      auto fresh = admitting_.admit(guest);
      return fresh ? ok_status() : Status(fresh.error());
    };
    return templates_.make(connection->get(), what, known->hypervisor, starting_.options(VmId{}),
                           room, [this](const std::string& uuid) { admission_.release(uuid); });
  }

  Status start_clone(const VmSpec& vm, const TemplateSpec& from) override {
    auto known = facts();
    if (!known) return known.error();
    auto fresh = admitting_.admit(vm);
    if (!fresh) return fresh.error();
    if (!*fresh) return ok_status();
    return made(vm, starting_.clone(vm, from, known->hypervisor));
  }

  Status destroy(const VmKey& vm) override {
    forget(vm.uuid);
    auto domain = find(vm);
    if (!domain) return absent_is_fine(domain.error());
    if (virDomainDestroyFlags(domain->get(), VIR_DOMAIN_DESTROY_DEFAULT) == 0) return ok_status();
    return absent_is_fine(last_error("VM '" + vm.id.value + "' can't be ended"));
  }

  Status pause(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return domain.error();
    auto seen = observe_domain(domain->get());
    if (!seen) return seen.error();
    if (seen->copy == Copy::Absent) return no_copy(vm);
    if (captures_.holds(vm.uuid)) return held_for_capture(vm);
    if (seen->sending || seen->copy == Copy::Incoming) return busy_migrating(vm);
    if (seen->copy == Copy::Paused) return ok_status();
    if (virDomainSuspend(domain->get()) == 0) return ok_status();
    return last_error("VM '" + vm.id.value + "' can't be paused");
  }

  Status resume(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return domain.error();
    auto seen = observe_domain(domain->get());
    if (!seen) return seen.error();
    if (seen->copy == Copy::Absent) return no_copy(vm);
    if (seen->copy == Copy::Running) return ok_status();
    if (auto leased = lease_.check(); !leased) return leased;
    if (captures_.holds(vm.uuid)) return held_for_capture(vm);
    if (auto fed = check_fed(vm, domain->get()); !fed) return fed;
    // The other end may run it at any moment.
    if (seen->sending || seen->copy == Copy::Incoming) return busy_migrating(vm);
    if (virDomainResume(domain->get()) == 0) return ok_status();
    return last_error("VM '" + vm.id.value + "' can't go on");
  }

  Status save(const VmKey& vm, const std::string& path) override {
    std::error_code unreadable;
    if (std::filesystem::exists(path, unreadable)) {
      return make_error(Code::AlreadyExists, "there is a file " + path, "name a new one");
    }
    auto seen = observe(vm);
    if (!seen) return seen.error();
    if (seen->copy == Copy::Absent) return no_copy(vm);
    if (seen->sending || seen->copy == Copy::Incoming) return busy_migrating(vm);
    if (captures_.active(vm.uuid)) return being_captured(vm);
    // A connection of its own: writing the memory takes long.
    auto connection = open_connection(options_.uri);
    if (!connection) return connection.error();
    const DomainHandle domain{virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str())};
    if (!domain) return last_read_error("VM '" + vm.id.value + "'");
    if (virDomainSaveFlags(domain.get(), path.c_str(), nullptr, VIR_DOMAIN_SAVE_RUNNING) == 0) {
      arrivals_.forget(vm.uuid);
      return ok_status();
    }
    const Error error = last_error("VM '" + vm.id.value + "' can't be saved to " + path);
    // Only a copy that is seen to live makes its file worthless.
    auto after = observe(vm);
    const bool lives = after && (after->copy == Copy::Running || after->copy == Copy::Paused);
    if (lives && error.code != Code::OutcomeUnknown) std::filesystem::remove(path, unreadable);
    return error;
  }

  Status restore(const VmSpec& vm, const std::string& path) override {
    auto fresh = admitting_.admit(vm);
    if (!fresh) return fresh.error();
    if (!*fresh) return ok_status();
    return made(vm, starting_.restore(vm, path, VIR_DOMAIN_SAVE_RUNNING));
  }

  Result<CaptureStatus> prepare_capture(const CaptureTicket& ticket) override {
    const VmKey& vm = ticket.vm;
    if (auto known = captures_.known(ticket)) return *known;
    auto domain = find(vm);
    if (!domain) return domain.error();
    auto seen = observe_domain(domain->get());
    if (!seen) return seen.error();
    if (seen->sending) {
      return make_error(Code::Conflict, "VM '" + vm.id.value + "' is being migrated");
    }
    if (seen->copy == Copy::Absent || seen->copy == Copy::Incoming) return no_copy(vm);
    if (seen->copy == Copy::Paused) {
      return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' is paused",
                        "resume it first");
    }
    const auto where = [&]() -> Result<VmProcess> {
      auto pid = find_qemu(pid_directory(options_.uri), vm);
      if (!pid) return pid.error();
      virDomainInfo info{};
      if (virDomainGetInfo(domain->get(), &info) != 0) {
        return last_read_error("VM '" + vm.id.value + "'");
      }
      return VmProcess{*pid, Bytes{info.maxMem * 1024}};
    };
    auto ready = captures_.prepare(ticket, copies_on_write(),
                                   [&] { return watching_.give_way(vm.uuid, where); });
    if (!ready) watching_.watch(vm.uuid);
    return ready;
  }
  Result<CaptureStatus> begin_capture(const CaptureTicket& ticket) override {
    auto ready = prepare_capture(ticket);
    if (!ready) return ready.error();
    return captures_.begin(ticket);
  }
  Result<CaptureStatus> capture(const VmKey& vm) override { return captures_.status(vm); }
  Result<CaptureStatus> release_capture(const VmKey& vm, const CheckpointId& checkpoint) override {
    auto released = captures_.release(vm, checkpoint);
    if (released && captures_.left(vm.uuid)) forget(vm.uuid);
    return released;
  }
  Status drop_capture(const VmKey& vm, const CheckpointId& checkpoint,
                      const std::string& path) override {
    return captures_.drop(vm, checkpoint, path);
  }

  Result<CaptureLoad> load_capture(const VmSpec& vm, const CheckpointId& checkpoint,
                                   const CheckpointPart& part) override {
    auto seen = observe(vm.key());
    if (!seen) return seen.error();
    if (seen->copy != Copy::Absent) {
      if (const auto before = captures_.was_loaded(vm.uuid, checkpoint)) return *before;
      return admitting_.has_copy(*seen);
    }
    const MonotonicTime began = clock_.now();
    if (part.partner.value == options_.host_name) {
      auto mapped = map_standby(vm, part);
      // Whatever it was, its file is there; unless nobody knows what is left of the VM.
      if (!mapped && mapped.error().code == Code::OutcomeUnknown) return mapped.error();
      if (mapped) return captures_.note_loaded(vm.uuid, checkpoint, began, began, true);
    }
    auto unpacked = UnpackedPart::make(options_.state_dir + "/unpacked", part);
    if (!unpacked) return unpacked.error();
    const MonotonicTime read = clock_.now();
    auto fresh = admitting_.admit(vm);
    if (!fresh) return fresh.error();
    Status loaded = made(vm, starting_.restore(vm, (*unpacked)->path(), VIR_DOMAIN_SAVE_PAUSED));
    if (!loaded) return loaded.error();
    return captures_.note_loaded(vm.uuid, checkpoint, began, read, false);
  }
  Result<std::vector<StandbyAnswer>> keep_standby(
      const std::vector<CheckpointPart>& parts) override {
    auto known = facts();
    if (!known) return known.error();
    if (!known->cloning) return make_error(Code::Unsupported, known->cloning_why);
    if (options_.standby_memory.empty()) return Driver::keep_standby(parts);
    for (const auto& part : parts) {
      if (auto good = check_key({part.vm, part.uuid}); !good) return good.error();
    }
    return standbys_.keep(
        parts, [this] { return admitting_.room(); }, admitting_.is_here());
  }
  Result<Bytes> merge_capture(const CheckpointPart& part, bool compress) override {
    return make_part_full(part, compress);
  }

  Result<VmStatistics> statistics(const VmKey& vm) override {
    auto domain = find(vm);
    if (!domain) return domain.error();
    return figures_of(domain->get(), vm);
  }

  Result<IncomingEndpoint> prepare_incoming(const MigrationTicket& ticket) override {
    const VmSpec& vm = ticket.vm;
    if (auto good = check_key(vm.key()); !good) return good.error();
    if (auto can = can_move(ticket.sending); !can) return can.error();
    const IncomingEndpoint endpoint{route(vm).text()};
    const auto known = arrivals_.find(vm.uuid);
    const bool again = known && known->operation == ticket.operation;
    auto seen = observe(vm.key());
    if (!seen) return seen.error();
    // Asked twice: the copy that is on its way, or has come, is no obstacle.
    if (seen->copy != Copy::Absent && (again || seen->copy == Copy::Incoming)) return endpoint;
    if (seen->copy != Copy::Absent) return admitting_.has_copy(*seen);
    auto fresh = admitting_.admit(vm);
    if (!fresh) return fresh.error();
    if (again && known->expected) return endpoint;
    auto begun = consoles_.begin(vm.key());
    if (begun) begun = arrivals_.expect(ticket);
    if (begun) {
      incoming_queues_.expect(vm.key(), connections(ticket.sending), reader_of(ticket.sending),
                              may_post_copy(ticket.sending));
      return endpoint;
    }
    admission_.release(vm.uuid);
    return begun.error();
  }

  Status begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) override {
    const VmKey vm = ticket.vm.key();
    Outgoing::Beginning prepared(outgoing_, vm.uuid);
    auto route = Route::parse(to.uri);
    if (outgoing_.knows(vm.uuid, ticket.operation)) {
      return route ? outgoing_.mend(ticket, *route, why_no_mending()) : ok_status();
    }
    if (!route) return route.error();
    if (auto can = can_move(ticket.sending); !can) return can;
    if (route->accelerated != accelerated_) {
      return make_error(Code::Unsupported,
                        std::string("VM '") + vm.id.value +
                            "' can't move between a host with KVM " + "and one that emulates",
                        "choose a host of the same kind, or end the VM and start it there");
    }
    if (auto alike = check_encryption(*route, options_.migration_tls); !alike) return alike;
    auto domain = find(vm);
    if (!domain) return domain.error();
    auto seen = look_at(domain->get(), arrivals_.expected(vm.uuid));
    if (!seen) return seen.error();
    if (seen->copy == Copy::Absent || seen->copy == Copy::Incoming) return no_copy(vm);
    if (seen->post_copy == PostCopy::Broken) {
      return outgoing_.mend(ticket, *route, why_no_mending());
    }
    if (captures_.active(vm.uuid)) return being_captured(vm);
    if (seen->sending || outgoing_.running(vm.uuid)) {
      return make_error(Code::Conflict, "VM '" + vm.id.value + "' is being migrated already");
    }
    if (seen->copy == Copy::Paused) {
      return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' is paused",
                        "resume it first");
    }
    // Asked before the log is closed.
    auto swept =
        ticket.sending.sweep_switch.waits.empty() ? dirtylog::PageSet{} : watching_.swept(vm.uuid);
    auto begun = outgoing_.begin(prepared, ticket, *route, std::move(swept));
    if (begun) arrivals_.forget(vm.uuid);  // if it came once, now it goes
    if (begun) watching_.back_off(vm.uuid);
    return begun;
  }

  Result<OutgoingStatus> outgoing(const VmKey& vm) override {
    OutgoingStatus known = outgoing_.status(vm.uuid);
    if (outgoing_.running(vm.uuid)) return known;
    // Perhaps one that an earlier agent began.
    auto domain = find(vm);
    if (!domain && domain.error().code != Code::NotFound) return domain.error();
    if (!domain) return known;
    const OutgoingStatus found = found_job(domain->get());
    return found.phase == OutgoingPhase::None ? known : found;
  }

  Status cancel_outgoing(const VmKey& vm) override {
    if (outgoing_.cancel(vm.uuid)) return ok_status();
    auto domain = find(vm);
    if (!domain) return absent_is_fine(domain.error());
    auto seen = look_at(domain->get(), arrivals_.expected(vm.uuid));
    if (!seen) return seen.error();
    if (seen->post_copy != PostCopy::None) return ok_status();  // no way back
    if (!seen->sending || virDomainAbortJob(domain->get()) == 0) return ok_status();
    const Error error = last_error("migration of '" + vm.id.value + "' can't be cancelled");
    // It ended by itself in this moment, or is past the point: the copies tell what came of it.
    return error.code == Code::FailedPrecondition ? ok_status() : absent_is_fine(error);
  }

  Status force_outgoing(const VmKey& vm, LimitAction how) override {
    if (outgoing_.running(vm.uuid)) return outgoing_.force(vm.uuid, how);
    if (how == LimitAction::Cancel) return cancel_outgoing(vm);
    // One that an earlier agent began.
    auto domain = find(vm);
    if (!domain) return domain.error();
    auto seen = look_at(domain->get(), false);
    if (!seen) return seen.error();
    if (!seen->sending) {
      return make_error(Code::NotFound, "no migration of VM '" + vm.id.value + "' runs here");
    }
    if (seen->post_copy != PostCopy::None || seen->copy == Copy::Paused) return ok_status();
    const bool done = how == LimitAction::PostCopy
                          ? virDomainMigrateStartPostCopy(domain->get(), 0) == 0
                          : virDomainSuspend(domain->get()) == 0;
    return done ? ok_status()
                : Status(last_error("the migration of '" + vm.id.value + "' can't be forced"));
  }

  Status release_outgoing(const VmKey& vm) override {
    if (outgoing_.running(vm.uuid)) return outgoing_.release(vm.uuid);
    auto domain = find(vm);
    if (!domain) return absent_is_fine(domain.error());
    auto seen = look_at(domain->get(), false);
    if (!seen) return seen.error();
    if (!seen->sending || seen->post_copy != PostCopy::None) return ok_status();
    if (allow_switch(domain->get())) return ok_status();
    return last_error("the migration of '" + vm.id.value + "' can't be let go");
  }

  Result<ArrivalReport> arrival(const VmKey& vm) override {
    auto seen = observe(vm);
    if (!seen) return seen.error();
    ArrivalReport report;
    report.seen = *seen;
    if (const auto known = arrivals_.find(vm.uuid)) {
      report.resumed_at = known->resumed_at;
      report.announced_at = known->announced_at;
      if (known->announced_at.count() != 0) report.announcements = arrivals_.frames_sent(*known);
    }
    if (seen->copy != Copy::Running && seen->copy != Copy::Paused) return report;
    if (auto domain = find(vm)) add_figures(domain->get(), report);
    return report;
  }

  Status discard_incoming(const VmKey& vm) override {
    auto seen = observe(vm);
    if (!seen) return seen.error();
    if (seen->copy == Copy::Running || seen->copy == Copy::Paused) return ok_status();
    if (seen->copy == Copy::Incoming) return destroy(vm);
    arrivals_.forget(vm.uuid);
    admission_.release(vm.uuid);
    return ok_status();
  }

  Status announce(const VmSpec& vm) override {
    auto seen = observe(vm.key());
    if (!seen) return seen.error();
    if (seen->copy == Copy::Absent) return no_copy(vm.key());
    return arrivals_.announce(vm);
  }

  Result<MemoryProfile> memory_profile(const VmKey& vm) override {
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
  Result<Milliseconds> look_anew(const VmKey& vm) override { return watching_.look_anew(vm.uuid); }
  Result<IncomingEndpoint> open_link_sink() override {
    auto uri = sinks_.open();
    if (!uri) return uri.error();
    return IncomingEndpoint{*uri};
  }
  Result<LinkMeasurement> measure_link(const IncomingEndpoint& sink) override {
    auto measured = dirtylog::measure_link(sink.uri, clock_);
    if (measured) outgoing_.set_link(measured->goodput);
    return measured;
  }
  Result<LeaseAnswer> renew_lease(const LeaseTicket& ticket) override {
    return options_.watchdog.empty() ? Driver::renew_lease(ticket) : lease_.renew(ticket);
  }
  Status put_fence_note(const std::string& note) override { return leases::put_note(note); }
  Status remove_fence_note(const std::string& note) override { return leases::remove_note(note); }

 private:
  DomainEvents events() {
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

  /// On the watcher's thread.
  Result<VmProcess> locate_vm(const std::string& uuid) {
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

  /// VMs that arrived while no events came are announced now, late.
  void catch_up(virConnectPtr connection) {
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

  /// False as well if libvirt does not tell its versions now: a move is then forecast without.
  bool takes_switchover_bandwidth() {
    auto connection = connection_.get();
    unsigned long qemu = 0;
    unsigned long library = 0;
    return connection && virConnectGetVersion(connection->get(), &qemu) == 0 &&
           virConnectGetLibVersion(connection->get(), &library) == 0 &&
           libvirt::takes_switchover_bandwidth(qemu, library);
  }

  Bytes overhead() const { return accelerated_ ? kKvmOverhead : kTcgOverhead; }

  /// What does not change while QEMU is not installed anew.
  Status probe() {
    auto connection = connection_.get();
    if (!connection) return connection.error();
    const std::string known = take_text(virConnectGetCapabilities(connection->get()));
    if (known.empty()) return last_read_error("what host '" + options_.host_name + "' can do");
    machinery_.accelerated = accelerated_;
    emulator_start_.begin(emulator_in(known), accelerated_, clock_, log_);
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

  /// libvirt asks each emulator what it can do before its first domain; this one now.
  std::string why_no_emulator(virConnectPtr connection) const {
    if (options_.emulator.empty()) return "mare-qemu is not beside the agent: --emulator";
    const std::string can = take_text(virConnectGetDomainCapabilities(
        connection, options_.emulator.c_str(), "x86_64", "q35", accelerated_ ? "kvm" : "qemu", 0));
    if (!can.empty()) return "";
    return last_read_error("libvirt can't use " + options_.emulator).text();
  }

  Status map_standby(const VmSpec& vm, const CheckpointPart& part) {
    auto fresh = admitting_.admit(vm);
    if (!fresh) return fresh.error();
    if (!*fresh) return admitting_.has_copy({vm.key(), Copy::Running, false, vm.memory, 0, ""});
    auto room = admitting_.room();
    const auto files =
        room ? standbys_.take(part, vm.memory, *room) : std::optional<StandbyFiles>{};
    if (!files) {
      admission_.release(vm.uuid);
      return make_error(Code::NotFound, "it is not kept in this host's memory");
    }
    Status mapped = made(vm, starting_.map(vm, *files));
    if (!mapped) {
      log_.warn("libvirt", "VM '" + vm.id.value + "' can't be started from what is kept of it: " +
                               mapped.error().text());
    }
    return mapped;
  }

  Status can_move(const Sending& sending) {
    if (auto good = check(sending); !good) return good;
    auto known = facts();
    return known ? check_offered(*known, options_.host_name, sending) : Status(known.error());
  }

  std::string why_no_mending() {
    auto connection = connection_.get();
    unsigned long library = 0;
    if (!connection || virConnectGetLibVersion(connection->get(), &library) != 0) return "";
    return libvirt::why_no_mending(accelerated_, library);
  }

  /// A copy whose pages stayed at a source that is out of reach can't go on.
  Status check_fed(const VmKey& vm, virDomainPtr domain) {
    auto seen = look_at(domain, false);
    if (!seen) return seen.error();
    if (!seen->starved) return ok_status();
    return make_error(Code::FailedPrecondition,
                      "VM '" + vm.id.value + "' waits for pages from the host that it came from");
  }

  Route route(const VmSpec& vm) {
    return {libvirt_uri_at(options_.migration_address),
            data_uri_at(options_.migration_address),
            options_.bridge,
            consoles_.path(vm.id),
            accelerated_,
            starting_.preloads(),
            options_.migration_tls,
            notices_.address()};
  }

  /// NotFound if that incarnation is not a domain here.
  Result<DomainHandle> find(const VmKey& vm) {
    auto connection = connection_.get();
    if (!connection) return connection.error();
    DomainHandle domain{virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str())};
    if (domain) return domain;
    const Error error = last_read_error("VM '" + vm.id.value + "'");
    // libvirt calls what is no uuid at all an invalid argument: no VM has it.
    if (error.code == Code::NotFound || !check_key(vm)) return no_copy(vm);
    return error;
  }

  static Status absent_is_fine(const Error& error) {
    return error.code == Code::NotFound ? ok_status() : Status(error);
  }

  void add_faults(VmObservation& to) {
    const auto faults = consoles_.scan(to.key);
    to.console_faults = faults.count;
    to.console_first_fault = faults.first;
  }

  Result<VmObservation> observe_domain(virDomainPtr domain) {
    VmObservation out;
    out.key = key_of(domain);
    auto seen = look_at(domain, arrivals_.expected(out.key.uuid));
    if (!seen) return seen.error();
    out.copy = seen->copy;
    out.memory = seen->memory;
    // A migration that has been asked for counts before libvirt has begun it.
    out.sending = seen->sending || (seen->copy != Copy::Absent && outgoing_.running(out.key.uuid));
    add_faults(out);
    return out;
  }

  bool copies_on_write() {
    auto connection = connection_.get();
    unsigned long qemu = 0;
    if (!connection || virConnectGetVersion(connection->get(), &qemu) != 0) return false;
    return captures_by_copy_on_write(qemu, machinery_.userfaultfd);
  }

  /// After it was tried to make that copy. Of two that start the same VM at once, one fails, and
  /// yet it runs.
  Status made(const VmSpec& vm, const Status& tried) {
    admission_.release(vm.uuid);
    if (tried) {
      watching_.arrived(vm.uuid);
      return tried;
    }
    auto seen = observe(vm.key());
    return seen && seen->copy == Copy::Running ? ok_status() : tried;
  }

  void forget(const std::string& uuid) {
    arrivals_.forget(uuid);
    admission_.release(uuid);
    watching_.left(uuid);
  }

  const LibvirtOptions options_;
  Clock& clock_;
  Log& log_;
  const bool accelerated_;
  Machinery machinery_;  // set by open()
  Consoles consoles_;
  Templates templates_;
  Standbys standbys_;
  Admission admission_;
  Arrivals arrivals_;
  // Stopped before the others end, but it may hear of VMs until the connection is gone.
  Watching watching_;
  EmulatorStart emulator_start_;
  dirtylog::LinkSinks sinks_;
  NoticeListener notices_;
  IncomingQueues incoming_queues_;
  // In this order: the sampler of migrations uses the connection.
  Connection connection_;
  Admitting admitting_;
  Starting starting_;
  Outgoing outgoing_;
  Captures captures_;
  leases::HostLease lease_;
};

}  // namespace

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
