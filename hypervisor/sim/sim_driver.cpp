#include "hypervisor/sim/sim_driver.h"

#include <algorithm>
#include <utility>

#include "hypervisor/sim/probing.h"

namespace mare::sim {
namespace {

constexpr Time kEndedKept = std::chrono::minutes{10};
constexpr std::string_view kMigrationScheme = "sim://";

/// Announcements go out at 0, 50, 150, 350 and 750 ms after the first.
int frames_after(Time span) {
  constexpr int kFrames = 5;
  int sent = 0;
  for (int i = 0; i < kFrames; ++i) {
    if (span >= std::chrono::milliseconds{50 * ((1 << i) - 1)}) ++sent;
  }
  return sent;
}

std::vector<Strategy> strategies_of(const HostModel& model) {
  if (!model.live_migration_refused.empty()) return {Strategy::StopAndCopy};
  return {Strategy::PreCopy,  Strategy::RateControlled, Strategy::Throttled,  Strategy::Compressed,
          Strategy::PostCopy, Strategy::Hybrid,         Strategy::StopAndCopy};
}

std::string name_of(const TemplateSpec& what) {
  return what.kernel + "\n" + what.initrd + "\n" + what.kernel_args + "\n" +
         std::to_string(what.memory.count) + "\n" + std::to_string(what.vcpus);
}

Status check_offer(const HostModel& model, const Sending& sending) {
  const auto offered = strategies_of(model);
  if (std::find(offered.begin(), offered.end(), sending.strategy) != offered.end()) {
    return ok_status();
  }
  const std::string& why = model.live_migration_refused;
  return make_error(Code::Unsupported,
                    why.empty() ? "not offered: " + std::string(to_string(sending.strategy)) : why);
}

}  // namespace

template <typename R>
R SimDriver::call(const std::string& what, const std::function<R(World&, SimHost&)>& work) {
  Locked world = cluster_.lock();
  auto found = world->host(host_);
  if (!found) return found.error();
  SimHost& host = **found;
  if (!world->agent_answers(host)) {
    return make_error(Code::Unavailable, what + ": host " + host_.value + " does not answer");
  }
  const FaultModel& faults = world->faults;
  const auto fail = [&](Code code, bool done) -> R {
    if (done) static_cast<void>(work(*world, host));
    return make_error(code,
                      what + ": the call to host " + host_.value +
                          (code == Code::Unavailable ? " did not get through" : " broke off"));
  };
  if (host.planned.calls > 0) {
    --host.planned.calls;
    return fail(host.planned.code, host.planned.done);
  }
  if (faults.call_refused > 0 && world->rng.chance(faults.call_refused)) {
    return fail(Code::Unavailable, false);
  }
  if (faults.call_unanswered > 0 && world->rng.chance(faults.call_unanswered)) {
    return fail(Code::OutcomeUnknown, world->rng.chance(0.5));
  }
  return work(*world, host);
}

Error SimDriver::no_copy(const VmKey& vm) const {
  return make_error(Code::NotFound, "no copy of VM " + vm.id.value + " on host " + host_.value);
}

Status SimDriver::check_settled(World& world, const VmKey& vm, const LocalCopy& copy) const {
  const auto* capture = world.find_capture(host_, vm.id);
  if (capture != nullptr && !capture->released) {
    return make_error(Code::FailedPrecondition, "VM " + vm.id.value + " is being captured",
                      "wait for the checkpoint");
  }
  const bool busy = world.find_move(host_, vm.id) != nullptr || copy.copy == Copy::Incoming ||
                    world.is_halved(host_, vm.id);
  if (!busy) return ok_status();
  return make_error(Code::FailedPrecondition, "VM " + vm.id.value + " is being migrated",
                    "wait for the migration or cancel it");
}

Status SimDriver::check_lease(World& world, const SimHost& host) const {
  if (world.may_run(host)) return ok_status();
  return make_error(Code::FailedPrecondition,
                    "host " + host_.value + " runs no VMs: its lease is over");
}

Status SimDriver::check_room(World& world, SimHost& host, const VmSpec& vm) const {
  if (auto leased = check_lease(world, host); !leased) return leased;
  if (const auto* copy = world.find_copy(host_, vm.id)) {
    const bool foreign = copy->guest->spec.uuid != vm.uuid;
    return make_error(foreign ? Code::AlreadyExists : Code::FailedPrecondition,
                      (foreign ? "another incarnation of VM " : "a copy of VM ") + vm.id.value +
                          " is on host " + host_.value + " (" + std::string(to_string(copy->copy)) +
                          ")");
  }
  const Bytes wanted = vm.memory + host.model.vm_overhead;
  if (world.free_memory(host) < wanted) {
    return make_error(Code::ResourceExhausted,
                      "host " + host_.value + " has " +
                          std::to_string(world.free_memory(host).count >> 20U) + " MiB free, VM " +
                          vm.id.value + " needs " + std::to_string(wanted.count >> 20U));
  }
  return ok_status();
}

Result<HostFacts> SimDriver::facts() {
  return call<Result<HostFacts>>("facts", [](World&, SimHost& host) {
    HostFacts facts;
    facts.hypervisor = "simulated";
    facts.memory = host.model.memory;
    facts.cpus = host.model.cpus;
    facts.cpu_speed = host.model.speed;
    facts.vm_overhead = host.model.vm_overhead;
    facts.live_migration = host.model.live_migration_refused.empty();
    facts.live_migration_why = host.model.live_migration_refused;
    facts.dirty_log = host.model.dirty_log_refused.empty() ? "sim" : "";
    facts.dirty_log_why = host.model.dirty_log_refused;
    facts.migration_tls = host.model.migration_tls;
    facts.cloning = host.model.cloning_refused.empty();
    facts.cloning_why = host.model.cloning_refused;
    facts.captures_to_leave = host.model.captures_to_leave;
    facts.machine = host.model.machine;
    facts.strategies = strategies_of(host.model);
    facts.agent_version = "simulated";
    return facts;
  });
}

Result<std::vector<VmObservation>> SimDriver::list() {
  return call<Result<std::vector<VmObservation>>>("list", [this](World& world, SimHost& host) {
    std::vector<VmObservation> all;
    for (const auto& [id, copy] : host.copies) {
      all.push_back(world.observe(host_, copy.guest->spec.key()));
    }
    return all;
  });
}

Result<VmObservation> SimDriver::observe(const VmKey& vm) {
  return call<Result<VmObservation>>(
      "observe " + vm.id.value, [&](World& world, SimHost&) { return world.observe(host_, vm); });
}

Status SimDriver::start(const VmSpec& vm) {
  return call<Status>("start " + vm.id.value, [&](World& world, SimHost& host) -> Status {
    const auto* copy = world.find_copy(host_, vm.key());
    if (copy != nullptr && copy->copy == Copy::Running) return ok_status();
    if (auto room = check_room(world, host, vm); !room) return room;
    if (world.faults.start_fails > 0 && world.rng.chance(world.faults.start_fails)) {
      return make_error(Code::Internal, "host " + host_.value + " could not start VM " +
                                            vm.id.value + ": simulated failure");
    }
    world.put_copy(host_, world.new_guest(vm), Copy::Running);
    return ok_status();
  });
}

Result<TemplateStatus> SimDriver::make_template(const TemplateSpec& what) {
  return call<Result<TemplateStatus>>(
      "make a template", [&](World& world, SimHost& host) -> Result<TemplateStatus> {
        const std::string& refused = host.model.cloning_refused;
        if (!refused.empty()) return make_error(Code::Unsupported, refused);
        const auto known = host.templates.find(name_of(what));
        if (known == host.templates.end()) {
          if (world.free_memory(host) < what.memory + host.model.vm_overhead) {
            return make_error(Code::ResourceExhausted,
                              "host " + host_.value + " has no memory for a template now");
          }
          const double chance = world.faults.template_fails;
          host.templates[name_of(what)] = {world.now + nanoseconds_up(world.vm_model.boot.count()),
                                           chance > 0 && world.rng.chance(chance)};
          return TemplateStatus{};
        }
        if (known->second.ready > world.now) return TemplateStatus{};
        if (!known->second.fails) return TemplateStatus{TemplatePhase::Ready, ""};
        return TemplateStatus{TemplatePhase::Failed, "simulated failure"};
      });
}

Status SimDriver::start_clone(const VmSpec& vm, const TemplateSpec& from) {
  return call<Status>("clone " + vm.id.value, [&](World& world, SimHost& host) -> Status {
    const auto* copy = world.find_copy(host_, vm.key());
    if (copy != nullptr && copy->copy == Copy::Running) return ok_status();
    if (auto room = check_room(world, host, vm); !room) return room;
    const std::string& refused = host.model.cloning_refused;
    if (!refused.empty()) return make_error(Code::Unsupported, refused);
    const auto known = host.templates.find(name_of(from));
    if (known == host.templates.end() || known->second.ready > world.now || known->second.fails) {
      return make_error(Code::NotFound, "host " + host_.value + " has no such template");
    }
    if (world.faults.start_fails > 0 && world.rng.chance(world.faults.start_fails)) {
      return make_error(Code::Internal, "host " + host_.value + " could not clone VM " +
                                            vm.id.value + ": simulated failure");
    }
    world.put_copy(host_, world.new_guest(vm, true), Copy::Running);
    return ok_status();
  });
}

Status SimDriver::destroy(const VmKey& vm) {
  return call<Status>("destroy " + vm.id.value, [&](World& world, SimHost& host) -> Status {
    if (world.find_copy(host_, vm) == nullptr) return ok_status();
    world.copy_goes(host_, vm.id);
    if (world.find_copy(host_, vm) != nullptr) {
      world.remove_copy(host_, vm.id, EndCause::Destroyed);
    }
    host.arrivals.erase(vm.id);
    return ok_status();
  });
}

Status SimDriver::pause(const VmKey& vm) {
  return call<Status>("pause " + vm.id.value, [&](World& world, SimHost&) -> Status {
    const auto* copy = world.find_copy(host_, vm);
    if (copy == nullptr) return no_copy(vm);
    if (auto settled = check_settled(world, vm, *copy); !settled) return settled;
    if (copy->copy == Copy::Running) world.change_copy(host_, vm.id, Copy::Paused);
    return ok_status();
  });
}

Status SimDriver::resume(const VmKey& vm) {
  return call<Status>("resume " + vm.id.value, [&](World& world, SimHost& host) -> Status {
    const auto* copy = world.find_copy(host_, vm);
    if (copy == nullptr) return no_copy(vm);
    if (copy->copy == Copy::Running) return ok_status();
    if (auto leased = check_lease(world, host); !leased) return leased;
    if (auto settled = check_settled(world, vm, *copy); !settled) return settled;
    if (copy->guest->doomed) {
      return make_error(Code::FailedPrecondition,
                        "half of the memory of VM " + vm.id.value + " is lost");
    }
    world.change_copy(host_, vm.id, Copy::Running);
    return ok_status();
  });
}

Status SimDriver::save(const VmKey& vm, const std::string& path) {
  return call<Status>("save " + vm.id.value, [&](World& world, SimHost&) -> Status {
    const auto* copy = world.find_copy(host_, vm);
    if (copy == nullptr) return no_copy(vm);
    if (world.find_move(host_, vm.id) != nullptr || world.is_halved(host_, vm.id)) {
      return make_error(Code::Conflict, "VM " + vm.id.value + " is being migrated");
    }
    if (world.find_capture(host_, vm.id) != nullptr) {
      return make_error(Code::Conflict, "VM " + vm.id.value + " is being captured");
    }
    if (copy->copy == Copy::Incoming) {
      return make_error(Code::FailedPrecondition, "VM " + vm.id.value + " is half received");
    }
    if (world.files.contains(path)) {
      return make_error(Code::AlreadyExists, "file " + path + " exists", "choose another name");
    }
    if (world.faults.save_fails > 0 && world.rng.chance(world.faults.save_fails)) {
      return make_error(Code::ResourceExhausted,
                        "can't write " + path + ": simulated disk is full");
    }
    const auto guest = copy->guest;
    // The guest stops first: the file has its progress up to this instant.
    world.change_copy(host_, vm.id, Copy::Paused);
    world.files[path] = SavedVm{guest, *guest};
    world.remove_copy(host_, vm.id, EndCause::Destroyed, true);
    return ok_status();
  });
}

Status SimDriver::restore(const VmSpec& vm, const std::string& path) {
  return call<Status>("restore " + vm.id.value, [&](World& world, SimHost& host) -> Status {
    const auto* copy = world.find_copy(host_, vm.key());
    if (copy != nullptr && copy->copy == Copy::Running) return ok_status();
    const auto file = world.files.find(path);
    if (file == world.files.end()) return make_error(Code::NotFound, "no file " + path);
    SavedVm& saved = file->second;
    if (saved.snapshot.spec.uuid != vm.uuid) {
      return make_error(Code::FailedPrecondition,
                        "file " + path + " holds another VM than " + vm.id.value);
    }
    if (auto room = check_room(world, host, vm); !room) return room;
    if (world.faults.start_fails > 0 && world.rng.chance(world.faults.start_fails)) {
      return make_error(Code::Internal, "host " + host_.value + " could not restore VM " +
                                            vm.id.value + ": simulated failure");
    }
    // The first restore continues the guest, with its jobs; any other is a guest of its own.
    std::shared_ptr<Guest> guest = saved.guest;
    if (!guest->saved) guest = std::make_shared<Guest>(saved.snapshot);
    guest->saved = guest->gone = false;
    guest->whole = 0;
    guest->uptime.since = guest->work.since = world.now;
    world.put_copy(host_, guest, Copy::Running);
    return ok_status();
  });
}

Result<VmStatistics> SimDriver::statistics(const VmKey& vm) {
  return call<Result<VmStatistics>>(
      "statistics " + vm.id.value, [&](World& world, SimHost& host) -> Result<VmStatistics> {
        const auto* copy = world.find_copy(host_, vm);
        if (copy == nullptr) return no_copy(vm);
        VmStatistics statistics;
        statistics.cpu_time = std::chrono::duration_cast<Microseconds>(
            nanoseconds_up(copy->guest->work.at(world.now)));
        statistics.resident = copy->guest->spec.memory + host.model.vm_overhead;
        return statistics;
      });
}

// --- checkpoints

Result<Capture*> SimDriver::find_or_prepare(World& world, SimHost& host,
                                            const CaptureTicket& ticket) const {
  const VmKey& vm = ticket.vm;
  if (host.dropped.contains({vm.id, ticket.checkpoint})) {
    return make_error(Code::FailedPrecondition, ticket.checkpoint.value + " was dropped");
  }
  const auto known = host.captures.find(vm.id);
  if (known != host.captures.end() && known->second.ticket.checkpoint == ticket.checkpoint) {
    return &known->second;
  }
  const auto* copy = world.find_copy(host_, vm);
  if (copy == nullptr || copy->copy == Copy::Incoming) return no_copy(vm);
  if (world.find_capture(host_, vm.id) != nullptr || world.find_move(host_, vm.id) != nullptr ||
      world.is_halved(host_, vm.id)) {
    return make_error(Code::Conflict,
                      "VM " + vm.id.value + " is being captured or migrated already");
  }
  if (copy->copy == Copy::Paused) {
    return make_error(Code::FailedPrecondition, "VM " + vm.id.value + " is paused",
                      "resume it first");
  }
  if (world.parts.contains(ticket.path)) {
    return make_error(Code::AlreadyExists, "file " + ticket.path + " exists",
                      "choose another name");
  }
  return &world.prepare_capture(host_, ticket);
}

Result<CaptureStatus> SimDriver::prepare_capture(const CaptureTicket& ticket) {
  return call<Result<CaptureStatus>>("prepare the capture of " + ticket.vm.id.value,
                                     [&](World& world, SimHost& host) -> Result<CaptureStatus> {
                                       if (!world.capturing.prepares)
                                         return Driver::prepare_capture(ticket);
                                       auto capture = find_or_prepare(world, host, ticket);
                                       if (!capture) return capture.error();
                                       return (*capture)->status;
                                     });
}

Result<CaptureStatus> SimDriver::begin_capture(const CaptureTicket& ticket) {
  return call<Result<CaptureStatus>>("capture " + ticket.vm.id.value,
                                     [&](World& world, SimHost& host) -> Result<CaptureStatus> {
                                       auto capture = find_or_prepare(world, host, ticket);
                                       if (!capture) return capture.error();
                                       if ((*capture)->status.phase == CapturePhase::Ready) {
                                         world.begin_capture(host_, **capture);
                                       }
                                       return (*capture)->status;
                                     });
}

Result<CaptureStatus> SimDriver::capture(const VmKey& vm) {
  return call<Result<CaptureStatus>>(
      "capture of " + vm.id.value, [&](World&, SimHost& host) -> Result<CaptureStatus> {
        const auto known = host.captures.find(vm.id);
        if (known == host.captures.end() || known->second.ticket.vm.uuid != vm.uuid) {
          return CaptureStatus{};
        }
        return known->second.status;
      });
}

Result<CaptureStatus> SimDriver::release_capture(const VmKey& vm, const CheckpointId& checkpoint) {
  return call<Result<CaptureStatus>>(
      "release " + vm.id.value, [&](World& world, SimHost& host) -> Result<CaptureStatus> {
        const auto known = host.captures.find(vm.id);
        if (known == host.captures.end() || known->second.ticket.vm.uuid != vm.uuid ||
            known->second.ticket.checkpoint != checkpoint) {
          return make_error(Code::NotFound,
                            "no capture of VM " + vm.id.value + " for " + checkpoint.value);
        }
        Capture& capture = known->second;
        const bool too_early = capture.ticket.leaves && capture.status.phase == CapturePhase::Taken;
        if (capture.status.phase == CapturePhase::Ready ||
            capture.status.phase == CapturePhase::Holding || too_early) {
          return make_error(Code::FailedPrecondition,
                            "the state of VM " + vm.id.value + " is not taken yet");
        }
        if (capture.status.phase == CapturePhase::Failed) {
          return make_error(Code::FailedPrecondition, capture.status.error);
        }
        world.release_capture(host_, capture);
        return capture.status;
      });
}

Status SimDriver::drop_capture(const VmKey& vm, const CheckpointId& checkpoint,
                               const std::string& path) {
  return call<Status>("drop capture of " + vm.id.value, [&](World& world, SimHost& host) -> Status {
    host.dropped.insert({vm.id, checkpoint});
    const auto known = host.captures.find(vm.id);
    if (known != host.captures.end() && known->second.ticket.checkpoint == checkpoint) {
      if (known->second.active()) world.fail_capture(host_, known->second, "it was dropped");
      host.captures.erase(known);
    }
    const auto file = world.parts.find(path);
    if (file != world.parts.end() && file->second.checkpoint == checkpoint) world.remove_part(path);
    return ok_status();
  });
}

Result<Bytes> SimDriver::merge_capture(const CheckpointPart& part, bool /*compress*/) {
  return call<Result<Bytes>>("merge " + part.path, [&](World& world, SimHost&) -> Result<Bytes> {
    const auto file = world.parts.find(part.path);
    if (file == world.parts.end()) return make_error(Code::NotFound, "no file " + part.path);
    if (!world.is_what_it_says(part)) {
      return make_error(Code::FailedPrecondition,
                        "file " + part.path + " is damaged, or one that it is built on is gone");
    }
    PartFile& saved = file->second;
    if (!saved.base.empty()) saved.written = saved.size;
    saved.base.clear();
    return saved.written;
  });
}

Result<std::vector<StandbyAnswer>> SimDriver::keep_standby(
    const std::vector<CheckpointPart>& parts) {
  using Answers = Result<std::vector<StandbyAnswer>>;
  return call<Answers>("keep parts in memory", [&](World& world, SimHost& host) -> Answers {
    if (!host.model.standby) return Driver::keep_standby(parts);
    return world.keep_standby(host, parts);
  });
}

Result<CaptureLoad> SimDriver::load_capture(const VmSpec& vm, const CheckpointId& checkpoint,
                                            const CheckpointPart& part) {
  using Loaded = Result<CaptureLoad>;
  return call<Loaded>("load " + vm.id.value, [&](World& world, SimHost& host) -> Loaded {
    const auto* copy = world.find_copy(host_, vm.key());
    if (copy != nullptr && copy->loaded == checkpoint) return CaptureLoad{.mapped = copy->mapped};
    const auto file = world.parts.find(part.path);
    if (file == world.parts.end()) return make_error(Code::NotFound, "no file " + part.path);
    const PartFile& saved = file->second;
    if (!world.is_what_it_says(part) || saved.checkpoint != checkpoint ||
        saved.snapshot.spec.uuid != vm.uuid) {
      return make_error(Code::FailedPrecondition, "file " + part.path + " is not VM " +
                                                      vm.id.value + "'s part of " +
                                                      checkpoint.value + ", or it is damaged");
    }
    if (auto room = check_room(world, host, vm); !room) return room.error();
    if (world.faults.start_fails > 0 && world.rng.chance(world.faults.start_fails)) {
      return make_error(Code::Internal, "host " + host_.value + " could not load VM " +
                                            vm.id.value + ": simulated failure");
    }
    world.load_part(host_, saved);
    CaptureLoad load;
    const auto standby = host.standbys.find(vm.id);
    load.mapped =
        part.partner == host_ && standby != host.standbys.end() && standby->second.is_of(part);
    if (auto* made = world.find_copy(host_, vm.key())) made->mapped = load.mapped;
    return load;
  });
}

// --- leases

Result<LeaseAnswer> SimDriver::renew_lease(const LeaseTicket& ticket) {
  return call<Result<LeaseAnswer>>("renew the lease", [&](World& world, SimHost& host) {
    if (!host.model.leases) return Driver::renew_lease(ticket);
    return Result<LeaseAnswer>(world.renew_lease(host_, ticket));
  });
}

Status SimDriver::put_fence_note(const std::string& note) {
  return call<Status>("put fence note", [&](World& world, SimHost&) {
    world.fence_notes.insert(note);
    for (const auto& [id, host] : world.hosts) world.review_lease(id);
    return ok_status();
  });
}

Status SimDriver::remove_fence_note(const std::string& note) {
  return call<Status>("remove fence note", [&](World& world, SimHost&) {
    world.fence_notes.erase(note);
    for (const auto& [id, host] : world.hosts) world.review_lease(id);
    return ok_status();
  });
}

// --- migration

Result<IncomingEndpoint> SimDriver::prepare_incoming(const MigrationTicket& ticket) {
  return call<Result<IncomingEndpoint>>(
      "prepare for " + ticket.vm.id.value,
      [&](World& world, SimHost& host) -> Result<IncomingEndpoint> {
        if (auto can = check_offer(host.model, ticket.sending); !can) return can.error();
        const IncomingEndpoint endpoint{std::string(kMigrationScheme) + host_.value};
        const auto known = host.arrivals.find(ticket.vm.id);
        const bool again = known != host.arrivals.end() &&
                           known->second.operation == ticket.operation &&
                           known->second.uuid == ticket.vm.uuid;
        // Asked twice: the copy that is on its way, or has come, is no obstacle.
        if (again && world.find_copy(host_, ticket.vm.key()) != nullptr) return endpoint;
        if (auto room = check_room(world, host, ticket.vm); !room) return room.error();
        Arrival arrival;
        arrival.operation = ticket.operation;
        arrival.uuid = ticket.vm.uuid;
        host.arrivals[ticket.vm.id] = arrival;
        return endpoint;
      });
}

Status SimDriver::begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) {
  const std::string& vm = ticket.vm.id.value;
  return call<Status>("send " + vm, [&](World& world, SimHost& host) -> Status {
    const auto ended = host.ended.find(ticket.vm.id);
    if (ended != host.ended.end() && ended->second.uuid == ticket.vm.uuid &&
        ended->second.status.operation == ticket.operation) {
      return ok_status();  // a late repetition must not send the VM again
    }
    if (auto can = check_offer(host.model, ticket.sending); !can) return can;
    const auto* copy = world.find_copy(host_, ticket.vm.key());
    if (copy == nullptr || copy->copy == Copy::Incoming) return no_copy(ticket.vm.key());
    if (auto* move = world.find_move(host_, ticket.vm.id)) {
      if (move->broken) {
        world.mend(*move);
        return ok_status();
      }
      if (move->operation_known && move->ticket.operation == ticket.operation) return ok_status();
      return make_error(Code::Conflict, "another migration of VM " + vm + " runs");
    }
    if (world.find_capture(host_, ticket.vm.id) != nullptr) {
      return make_error(Code::Conflict, "VM " + vm + " is being captured");
    }
    if (copy->copy == Copy::Paused) {
      return make_error(Code::FailedPrecondition, "VM " + vm + " is paused", "resume it first");
    }
    if (!to.uri.starts_with(kMigrationScheme)) {
      return make_error(Code::InvalidArgument, "'" + to.uri + "' is not a simulated host");
    }
    const HostId destination{to.uri.substr(kMigrationScheme.size())};
    if (world.find_host(destination) == nullptr || destination == host_) {
      return make_error(Code::InvalidArgument,
                        "VM " + vm + " can't be sent from " + host_.value + " to " + to.uri);
    }
    return world.begin_move(ticket, host_, destination);
  });
}

Result<OutgoingStatus> SimDriver::outgoing(const VmKey& vm) {
  return call<Result<OutgoingStatus>>(
      "progress of " + vm.id.value, [&](World& world, SimHost& host) -> Result<OutgoingStatus> {
        const auto* move = world.find_move(host_, vm.id);
        if (move != nullptr && move->ticket.vm.uuid == vm.uuid) return world.move_status(*move);
        const auto ended = host.ended.find(vm.id);
        if (ended == host.ended.end() || ended->second.uuid != vm.uuid) return OutgoingStatus{};
        if (world.now - ended->second.ended > kEndedKept) {
          host.ended.erase(ended);
          return OutgoingStatus{};
        }
        return ended->second.status;
      });
}

Status SimDriver::cancel_outgoing(const VmKey& vm) {
  return call<Status>("cancel sending " + vm.id.value, [&](World& world, SimHost&) -> Status {
    if (world.find_copy(host_, vm) != nullptr) world.cancel_move(host_, vm.id);
    return ok_status();
  });
}

Status SimDriver::force_outgoing(const VmKey& vm, LimitAction how) {
  return call<Status>("force sending " + vm.id.value, [&](World& world, SimHost&) -> Status {
    if (world.find_copy(host_, vm) == nullptr) return no_copy(vm);
    return world.force_move(host_, vm.id, how);
  });
}

Status SimDriver::release_outgoing(const VmKey& vm) {
  return call<Status>("release sending " + vm.id.value, [&](World& world, SimHost&) -> Status {
    if (world.find_copy(host_, vm) != nullptr) world.release_move(host_, vm.id);
    return ok_status();
  });
}

Result<ArrivalReport> SimDriver::arrival(const VmKey& vm) {
  return call<Result<ArrivalReport>>("arrival of " + vm.id.value, [&](World& world, SimHost& host) {
    ArrivalReport report;
    report.seen = world.observe(host_, vm);
    const auto found = host.arrivals.find(vm.id);
    if (found == host.arrivals.end() || found->second.uuid != vm.uuid) return report;
    const Arrival& arrival = found->second;
    if (arrival.resumed) {
      report.downtime = std::chrono::duration_cast<Microseconds>(arrival.downtime);
      if (arrival.total.count() > 0) {
        report.total_time = std::chrono::duration_cast<Microseconds>(arrival.total);
      }
      report.transferred = Bytes{static_cast<std::uint64_t>(arrival.transferred)};
      report.resumed_at = world.wall(*arrival.resumed);
    }
    if (arrival.announced) {
      report.announced_at = world.wall(*arrival.announced);
      report.announcements = frames_after(world.now - *arrival.announced);
    }
    return report;
  });
}

Status SimDriver::discard_incoming(const VmKey& vm) {
  return call<Status>("discard arrival of " + vm.id.value,
                      [&](World& world, SimHost& host) -> Status {
                        const auto found = host.arrivals.find(vm.id);
                        const auto* copy = world.find_copy(host_, vm);
                        if (copy != nullptr && copy->has_run) return ok_status();
                        if (found != host.arrivals.end() && found->second.uuid == vm.uuid) {
                          host.arrivals.erase(found);
                        }
                        if (copy == nullptr) return ok_status();
                        world.copy_goes(host_, vm.id);
                        if (world.find_copy(host_, vm) != nullptr) {
                          world.remove_copy(host_, vm.id, EndCause::Destroyed);
                        }
                        return ok_status();
                      });
}

Status SimDriver::announce(const VmSpec& vm) {
  return call<Status>("announce " + vm.id.value, [&](World& world, SimHost& host) -> Status {
    if (world.find_copy(host_, vm.key()) == nullptr) return no_copy(vm.key());
    Arrival& arrival = host.arrivals[vm.id];
    arrival.uuid = vm.uuid;
    arrival.announced = world.now;
    return ok_status();
  });
}

// --- what a forecast is made of

Result<MemoryProfile> SimDriver::memory_profile(const VmKey& vm) {
  return call<Result<MemoryProfile>>(
      "memory of " + vm.id.value, [&](World& world, SimHost& host) -> Result<MemoryProfile> {
        if (!host.model.dirty_log_refused.empty()) {
          return make_error(Code::Unsupported, host.model.dirty_log_refused);
        }
        const auto* copy = world.find_copy(host_, vm);
        if (copy == nullptr || copy->copy == Copy::Incoming) return no_copy(vm);
        return profile_of(world, *copy->guest);
      });
}

Result<IncomingEndpoint> SimDriver::open_link_sink() {
  return call<Result<IncomingEndpoint>>("open a sink", [this](World& world, SimHost& host) {
    return Result<IncomingEndpoint>(IncomingEndpoint{open_sink(world, host_, host)});
  });
}

Result<LinkMeasurement> SimDriver::measure_link(const IncomingEndpoint& sink) {
  return call<Result<LinkMeasurement>>(
      "measure a link", [&](World& world, SimHost&) { return send_burst(world, host_, sink.uri); });
}

std::unique_ptr<Driver> make_sim_driver(SimCluster& cluster, const HostId& host) {
  return std::make_unique<SimDriver>(cluster, host);
}

}  // namespace mare::sim
