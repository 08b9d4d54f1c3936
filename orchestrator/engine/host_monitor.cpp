#include "orchestrator/engine/host_monitor.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/engine/host_facts.h"
#include "orchestrator/engine/host_fencer.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/model/checkpoint_lifecycles.h"

namespace mare::engine {
namespace {
constexpr auto kFactsEvery = std::chrono::seconds{60};
constexpr auto kTellAgain = std::chrono::minutes{10};
constexpr int kAbsencesBelieved = 2;
constexpr int kLooksABeat = 4;
constexpr int kUnleased = 3;
}  // namespace

void HostMonitor::begin() {
  beat();
  look_for_silence();
}

void HostMonitor::beat() {
  auto hosts = query<std::vector<Host>>(context_.ports.store,
                                        [](const store::Reader& r) { return r.hosts(); });
  if (hosts) {
    std::erase_if(watches_, [&](const auto& entry) {
      return std::none_of(hosts->begin(), hosts->end(),
                          [&](const Host& host) { return host.id == entry.first; });
    });
    const auto leased = to_be_leased();
    for (const auto& host : *hosts) ask(host, leased && leased->contains(host.id));
  }
  context_.fencer->look();
  context_.after(context_.settings.heartbeat, [this] { beat(); });
}

void HostMonitor::look_for_silence() {
  const MonotonicTime now = context_.ports.clock.now();
  const Settings& settings = context_.settings;
  // mared itself stood still: whatever came meanwhile has yet to be read.
  const bool late = now - looked_ > 2 * settings.heartbeat;
  looked_ = now;
  for (auto& [id, watch] : watches_) {
    if (late) watch.heard = now;
    // Without a lease there is no call that needs neither libvirt nor much of a CPU, and no job
    // that could be brought back elsewhere.
    const int beats = settings.heartbeat_misses * (watch.leased ? 1 : kUnleased);
    const bool asking = watch.by_renewals() ? watch.renewing : watch.listing;
    if (!asking || now - watch.heard < settings.heartbeat * beats) continue;
    const auto ms = std::chrono::duration_cast<Milliseconds>(now - watch.heard).count();
    call_down(
        id, make_error(Code::Unavailable, "it has not answered for " + std::to_string(ms) + " ms"));
  }
  context_.after(settings.heartbeat / kLooksABeat, [this] { look_for_silence(); });
}

void HostMonitor::ask(const Host& host, bool leased) {
  Watch& watch = watches_[host.id];
  if (watch.heard.count() == 0) watch.heard = context_.ports.clock.now();
  auto driver = context_.ports.drivers.driver(host.id, host.address);
  if (!driver) return missed(host.id, driver.error());
  // A slow host is asked once at a time.
  if (!watch.renewing) {
    const auto word = lease_word(host, leased);
    if (!word) return;  // looked at again with the next beat
    watch.leased = word->any;
    if (word->any) renew(host.id, *driver, *word);
  }
  if (!watch.listing) list(host.id, *driver);
}

/// Needs no libvirt: a host whose libvirtd is restarted, or busy for seconds, is not silent.
void HostMonitor::renew(const HostId& id, const std::shared_ptr<Driver>& driver, const Word& word) {
  watches_[id].renewing = true;
  context_.ports.executor.run(
      std::string(kBeatLane) + id.value, [this, inbox = context_.inbox, driver, id, word] {
        auto lease = driver->renew_lease(word.ticket);
        inbox->post([this, id, lease, word] {
          const auto known = watches_.find(id);
          if (known == watches_.end()) return;  // removed meanwhile
          known->second.renewing = false;
          known->second.holds_none = !lease && lease.error().code == Code::Unsupported;
          if (lease) spoke(known->second);
          lease_answered(id, word, lease);
        });
      });
}

void HostMonitor::list(const HostId& id, const std::shared_ptr<Driver>& driver) {
  watches_[id].listing = true;
  const MonotonicTime asked = context_.ports.clock.now();
  context_.ports.executor.run(std::string(kListLane) + id.value,
                              [this, inbox = context_.inbox, driver, id, asked] {
                                auto copies = driver->list();
                                inbox->post([this, id, asked, copies] {
                                  const auto known = watches_.find(id);
                                  if (known == watches_.end()) return;
                                  known->second.listing = false;
                                  if (copies) {
                                    heard(id, asked, *copies);
                                  } else {
                                    missed(id, copies.error());
                                  }
                                });
                              });
}

void HostMonitor::spoke(Watch& watch) {
  const MonotonicTime now = context_.ports.clock.now();
  context_.silences->note(now - watch.heard);
  watch.heard = now;
}

void HostMonitor::heard(const HostId& id, MonotonicTime asked,
                        const std::vector<VmObservation>& copies) {
  auto host = query<Host>(context_.ports.store, [&](const store::Reader& r) { return r.host(id); });
  if (!host) return;
  if (host->fence == HostFence::Over) return lift(*host, copies);
  if (host->fence == HostFence::Begun) {
    // Its VMs may have been told to end: there is no way back now. Without a lease they were not.
    if (host->lease.count() > 0 || !context_.fencer->take_back(*host)) return;
    host->fence = HostFence::None;
  }
  Watch& watch = watches_[id];
  watch.misses = 0;
  // With a lease what counts is that it is renewed.
  if (!watch.by_renewals()) spoke(watch);
  if (host->health != HostHealth::Up) {
    watch.heard = context_.ports.clock.now();
    host->health = HostHealth::Up;
    host->health_reason = "";
    host->last_seen = context_.ports.clock.wall_now();
    auto kept = context_.ports.store.write(
        [&](store::Transaction& tx) { return put_host(tx, context_.ports.clock, *host); });
    if (!kept) return;
    context_.ports.log.info("hosts", "host '" + id.value + "' is up");
    context_.changed();
    watch.facts_at = MonotonicTime{0};
  }
  if (watch.facts_at.count() == 0 || asked - watch.facts_at > kFactsEvery) {
    watch.facts_at = asked;
    refresh_facts(*host);
  }
  reconcile(*host, asked, copies);
}

void HostMonitor::missed(const HostId& id, const Error& error) {
  Watch& watch = watches_[id];
  // Its agent answers, and its libvirtd does not: nothing is known of its VMs for a while.
  const auto patience = context_.settings.heartbeat * context_.settings.heartbeat_misses;
  if (watch.by_renewals() && context_.ports.clock.now() - watch.heard < patience) return;
  if (++watch.misses >= context_.settings.heartbeat_misses) call_down(id, error);
}

void HostMonitor::call_down(const HostId& id, const Error& error) {
  auto host = query<Host>(context_.ports.store, [&](const store::Reader& r) { return r.host(id); });
  if (!host || host->health == HostHealth::Down) return;
  host->health = HostHealth::Down;
  ++host->failures;
  host->health_reason = error.text();
  std::vector<Vm> lost;
  auto kept = context_.ports.store.write([&](store::Transaction& tx) -> Status {
    auto vms = tx.vms_on(id);
    if (!vms) return vms.error();
    for (auto& vm : *vms) {
      if (vm.state != VmState::Running) continue;  // others belong to their operations
      vm.state = VmState::Lost;
      vm.reason = "its host '" + id.value + "' is silent";
      lost.push_back(vm);
      if (auto done = put_vm(tx, context_.ports.clock, vm); !done) return done;
    }
    return put_host(tx, context_.ports.clock, *host);
  });
  if (!kept) return;
  context_.ports.log.warn("hosts", "host '" + id.value + "' is down: " + error.text());
  for (const auto& vm : lost) hang_up(vm);
  context_.changed();
}

void HostMonitor::refresh_facts(const Host& host) {
  auto driver = context_.ports.drivers.driver(host.id, host.address);
  if (!driver) return;
  context_.ports.executor.run(
      "facts/" + host.id.value, [this, inbox = context_.inbox, driver = *driver, id = host.id] {
        auto facts = driver->facts();
        if (!facts) return;
        inbox->post([this, id, facts] {
          auto row =
              query<Host>(context_.ports.store, [&](const store::Reader& r) { return r.host(id); });
          if (!row) return;
          take_facts(*row, *facts, context_.settings.checkpoints_directory);
          row->last_seen = context_.ports.clock.wall_now();
          (void)context_.ports.store.write([&](store::Transaction& tx) { return tx.put(*row); });
        });
      });
}

bool HostMonitor::is_settled(const VmId& vm, MonotonicTime asked) const {
  const auto ended = context_.settled.find(vm);
  return ended == context_.settled.end() || ended->second < asked;
}

void HostMonitor::reconcile(const Host& host, MonotonicTime asked,
                            const std::vector<VmObservation>& copies) {
  struct Rows {
    std::vector<Vm> vms;
    std::vector<Operation> unfinished;
    std::set<VmId> restoring;  // their jobs go back to a checkpoint
    std::set<VmId> stopped;    // a checkpoint of their jobs may hold them
  };
  auto rows = query<Rows>(context_.ports.store, [](const store::Reader& r) -> Result<Rows> {
    auto vms = r.vms();
    if (!vms) return vms.error();
    store::OperationFilter filter;
    filter.unfinished_only = true;
    filter.limit = 100000;
    auto unfinished = r.operations(filter);
    if (!unfinished) return unfinished.error();
    Rows out{std::move(*vms), std::move(*unfinished), {}, {}};
    for (const auto& operation : out.unfinished) {
      const bool takes = operation.kind == OperationKind::CheckpointTake;
      const bool restores = operation.kind == OperationKind::CheckpointRestore &&
                            operation.state != to_string(CheckpointRestoreState::Planned);
      if (!takes && !restores) continue;
      auto job = r.job(JobId{operation.target});
      if (!job) return job.error();
      (takes ? out.stopped : out.restoring).insert(job->vms.begin(), job->vms.end());
    }
    return out;
  });
  if (!rows) return;
  const auto held = [&](const VmId& id) {
    if (rows->restoring.contains(id)) return true;
    return std::any_of(rows->unfinished.begin(), rows->unfinished.end(), [&](const Operation& o) {
      // A migration that waits for its turn has touched nothing, and may wait for long.
      const bool waits =
          o.kind == OperationKind::VmMigrate && o.state == to_string(MigrationState::Planned);
      return o.target == id.value && to_string(o.kind).starts_with("vm.") && !waits;
    });
  };
  for (const auto& vm : rows->vms) {
    if (vm.host != host.id || held(vm.id) || !is_settled(vm.id, asked)) continue;
    const auto copy = std::find_if(copies.begin(), copies.end(), [&](const VmObservation& seen) {
      return seen.key.id == vm.id && seen.key.uuid == vm.uuid;
    });
    const bool there = copy != copies.end() && copy->copy != Copy::Absent;
    if (there) {
      absences_.erase(vm.id);
      if (vm.state == VmState::Lost && copy->copy == Copy::Running) copy_is_back(vm);
      const bool stands_still = copy->copy == Copy::Paused && !copy->sending &&
                                (vm.state == VmState::Lost || vm.state == VmState::Running);
      if (!stands_still || rows->stopped.contains(vm.id)) {
        standstills_.erase(vm.id);
      } else if (++standstills_[vm.id] >= kAbsencesBelieved) {
        standstills_.erase(vm.id);
        let_go_on(vm, host);
      }
    } else if (++absences_[vm.id] >= kAbsencesBelieved) {
      absences_.erase(vm.id);
      copy_is_gone(vm, host);
    }
  }
  for (const auto& copy : copies) {
    const auto row = std::find_if(rows->vms.begin(), rows->vms.end(),
                                  [&](const Vm& vm) { return vm.id == copy.key.id; });
    const bool known = row != rows->vms.end();
    if (known && (row->host == host.id || held(row->id) || !is_settled(row->id, asked))) continue;
    stray(host, copy, known ? std::optional<Vm>(*row) : std::nullopt);
  }
}

void HostMonitor::copy_is_gone(Vm vm, const Host& host) {
  vm.state = VmState::Failed;
  vm.reason =
      "its copy on '" + host.id.value + "' ended by itself (guest panic, or QEMU was killed)";
  vm.host.reset();
  auto kept = context_.ports.store.write(
      [&](store::Transaction& tx) { return put_vm(tx, context_.ports.clock, vm); });
  if (!kept) return;
  hang_up(vm);
  context_.ports.log.warn("hosts", "VM '" + vm.id.value + "': " + vm.reason);
  context_.changed();
}

void HostMonitor::hang_up(const Vm& vm) {
  if (const auto guest = find_guest(context_.ports.store, vm))
    context_.ports.guests.hang_up(*guest);
}

void HostMonitor::copy_is_back(Vm vm) {
  vm.state = VmState::Running;
  vm.reason = "";
  (void)context_.ports.store.write(
      [&](store::Transaction& tx) { return put_vm(tx, context_.ports.clock, vm); });
  context_.changed();
}

void HostMonitor::let_go_on(const Vm& vm, const Host& host) {
  auto driver = context_.ports.drivers.driver(host.id, host.address);
  if (!driver) return;
  context_.ports.log.warn("hosts", "VM '" + vm.id.value + "' stands still on '" + host.id.value +
                                       "' and nothing holds it (its agent died while a checkpoint "
                                       "was taken): it is told to go on");
  context_.ports.executor.run("host/" + host.id.value,
                              [driver = *driver, key = VmKey{vm.id, vm.uuid}] {
                                (void)driver->resume(key);  // else it is seen again
                              });
}

void HostMonitor::stray(const Host& host, const VmObservation& copy, const std::optional<Vm>& row) {
  // A copy of a VM whose row names another host, or none, or is of a later incarnation: left by an
  // operation for which this host was silent at its end. The row is the truth, so this copy must
  // not stay. It is ended only when it can't be the last one: the true one is known to run, or the
  // row says that this incarnation has ended, or was deleted. One that was never ours stays.
  const bool same = row && row->uuid == copy.key.uuid;
  // One that broke in post-copy holds pages that the other waits for.
  const bool true_one_runs = same && row->host && row->state == VmState::Running && !copy.sending;
  const bool has_ended =
      same && !row->host && (row->state == VmState::Stopped || row->state == VmState::Failed);
  // A copy that stands still, of a VM that is known to be nowhere, can only take memory.
  const bool left_over = same && !row->host && copy.copy == Copy::Paused;
  const auto ended = query<bool>(
      context_.ports.store, [&](const store::Reader& r) { return r.has_ended(copy.key.uuid); });
  const bool deleted = !row && ended && *ended;
  const bool must_go = true_one_runs || has_ended || left_over || deleted || (row && !same);
  if (must_go) {
    auto driver = context_.ports.drivers.driver(host.id, host.address);
    if (driver) {
      context_.ports.executor.run("host/" + host.id.value, [driver = *driver, key = copy.key] {
        (void)driver->destroy(key);
      });
    }
  }
  const MonotonicTime now = context_.ports.clock.now();
  auto& told = told_[host.id.value + "/" + copy.key.uuid];
  if (told.count() != 0 && now - told < kTellAgain) return;
  told = now;
  const std::string what = std::string(to_string(copy.copy));
  context_.ports.log.warn("hosts", "host '" + host.id.value + "' has a stray copy of VM '" +
                                       copy.key.id.value + "' (" + what + ")" +
                                       (must_go ? "; it is being ended" : ""));
  const nlohmann::json data{
      {"host", host.id.value}, {"uuid", copy.key.uuid}, {"copy", what}, {"ended", must_go}};
  (void)context_.ports.store.write([&](store::Transaction& tx) {
    return emit(tx, context_.ports.clock, "vm", copy.key.id.value, "vm.stray", data.dump());
  });
  context_.changed();
}

}  // namespace mare::engine
