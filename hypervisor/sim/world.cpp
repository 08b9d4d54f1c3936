#include "hypervisor/sim/world.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mare::sim {
namespace {

constexpr std::size_t kStopsKept = 64;
constexpr std::size_t kEndingsKept = 10'000;
constexpr std::size_t kViolationsKept = 100;

}  // namespace

Time nanoseconds_up(double span_s) {
  // Far beyond any run, and it still fits when added to another time.
  constexpr double kLongest = 1e9;
  return Time{static_cast<std::int64_t>(std::ceil(std::clamp(span_s, 0.0, kLongest) * 1e9))};
}

World::World(Clock& the_clock, Rng& the_rng) : clock(the_clock), rng(the_rng), now(clock.now()) {}

// --- time

void World::at(Time when, std::function<void()> what) {
  scheduled_.emplace(std::max(when, now), std::move(what));
}

WallTime World::wall(Time when) const {
  return clock.wall_now() - std::chrono::duration_cast<WallTime>(clock.now() - when);
}

std::optional<Time> World::next_event() const {
  std::optional<Time> next;
  if (!scheduled_.empty()) next = scheduled_.begin()->first;
  for (const auto& [serial, move] : moves) {
    const auto when = due(move);
    if (when && (!next || *when < *next)) next = when;
  }
  return next;
}

void World::catch_up() {
  const Time until = clock.now();
  for (auto next = next_event(); next && *next <= until; next = next_event()) {
    now = std::max(now, *next);
    if (!scheduled_.empty() && scheduled_.begin()->first <= now) {
      const auto what = std::move(scheduled_.begin()->second);
      scheduled_.erase(scheduled_.begin());
      what();
      continue;
    }
    const auto ready = std::find_if(moves.begin(), moves.end(), [&](const auto& entry) {
      const auto when = due(entry.second);
      return when && *when <= now;
    });
    MARE_ASSERT(ready != moves.end());
    step(ready->second);
  }
  now = std::max(now, until);
}

// --- hosts

SimHost* World::find_host(const HostId& id) {
  const auto found = hosts.find(id);
  return found == hosts.end() ? nullptr : &found->second;
}

Result<SimHost*> World::host(const HostId& id) {
  if (auto* found = find_host(id)) return found;
  return make_error(Code::NotFound, "the simulated cluster has no host '" + id.value + "'",
                    "add it first");
}

bool World::on_network(const SimHost& host) const {
  return host.up && host.cut_until <= now;
}
bool World::agent_answers(const SimHost& host) const {
  return on_network(host) && host.silent_until <= now;
}

Bytes World::used(const SimHost& host) const {
  Bytes sum;
  for (const auto& [vm, copy] : host.copies) {
    sum = sum + copy.guest->spec.memory + host.model.vm_overhead;
  }
  return sum;
}

Bytes World::free_memory(const SimHost& host) const {
  return host.model.memory - used(host);
}

void World::kill(const HostId& id) {
  SimHost& host = hosts.at(id);
  host.up = false;
  host.frozen = false;
  host.thaws.clear();
  host.lease = HostLease{};
  ++host.boots;
  host.captures.clear();  // what they wrote lies where it is
  host.standbys.clear();
  host.dropped.clear();
  while (!host.copies.empty()) {
    const VmId vm = host.copies.begin()->first;
    copy_goes(id, vm);
    // Ending its migration may have ended the copy too.
    if (find_copy(id, vm) != nullptr) remove_copy(id, vm, EndCause::HostDied);
  }
  host.arrivals.clear();
  host.ended.clear();
  refresh_runs();
}

void World::cut(const HostId& id, Time until) {
  SimHost& host = hosts.at(id);
  host.cut_until = std::max(host.cut_until, until);
  break_moves_of(id, "the connection between the hosts broke");
  refresh_runs();
  review_lease(id);
  at(host.cut_until, [this, id] {
    review_lease(id);
    refresh_runs();
  });
}

// --- copies

LocalCopy* World::find_copy(const HostId& host, const VmId& vm) {
  SimHost* where = find_host(host);
  if (where == nullptr) return nullptr;
  const auto found = where->copies.find(vm);
  return found == where->copies.end() ? nullptr : &found->second;
}

LocalCopy* World::find_copy(const HostId& host, const VmKey& key) {
  LocalCopy* copy = find_copy(host, key.id);
  return copy != nullptr && copy->guest->spec.uuid == key.uuid ? copy : nullptr;
}

void World::put_copy(const HostId& host, const std::shared_ptr<Guest>& guest, Copy copy) {
  SimHost& where = hosts.at(host);
  LocalCopy& here = where.copies[guest->spec.id];
  MARE_ASSERT(here.copy == Copy::Absent);
  here.guest = guest;
  here.copy = Copy::Incoming;
  here.faults_on_entry = guest->kernel_faults;
  if (used(where) > where.model.memory) {
    violate("host " + host.value + " holds more than its memory, with " + guest->spec.id.value);
  }
  give_way(where, guest->spec.id);
  change_copy(host, guest->spec.id, copy);
}

void World::change_copy(const HostId& host, const VmId& vm, Copy copy) {
  LocalCopy& here = hosts.at(host).copies.at(vm);
  const auto is_whole = [](Copy c) { return c == Copy::Running || c == Copy::Paused; };
  const Copy before = std::exchange(here.copy, copy);
  here.guest->whole += (is_whole(copy) ? 1 : 0) - (is_whole(before) ? 1 : 0);
  if (before == Copy::Running && copy != Copy::Running) note_running(vm, host, false);
  if (before != Copy::Running && copy == Copy::Running) {
    if (here.guest->doomed) violate("VM " + vm.value + " goes on with half of its memory");
    leave_loaded(here);
    outlive_parts(*here.guest);
    here.has_run = true;
    note_running(vm, host, true);
    guest_goes(here.guest);
  } else if (before == Copy::Running && copy != Copy::Running) {
    guest_stops(*here.guest);
  }
  refresh_speed(host);
}

void World::remove_copy(const HostId& host, const VmId& vm, EndCause cause, bool saved) {
  change_copy(host, vm, Copy::Absent);
  auto* capture = find_capture(host, vm);
  // Of one that stood still to leave, the file is all of it.
  if (capture != nullptr && !capture->waits_to_leave()) {
    fail_capture(host, *capture, "the VM ended");
  }
  SimHost& where = hosts.at(host);
  const std::shared_ptr<Guest> guest = where.copies.at(vm).guest;
  const CheckpointId from = where.copies.at(vm).loaded;
  if (const auto waiting = loaded.find(from); waiting != loaded.end()) {
    const auto entry = waiting->second.find(vm);
    if (entry != waiting->second.end() && entry->second == guest) waiting->second.erase(entry);
  }
  where.copies.erase(vm);
  refresh_speed(host);
  if (guest->whole > 0 || guest->gone) return;
  if (saved || is_in_a_part(*guest)) {
    guest->saved = true;
    guest->left = host;
    guest->left_by = saved ? EndCause::Destroyed : cause;
    return;
  }
  lose(guest, host, cause);
}

void World::lose(const std::shared_ptr<Guest>& guest, const HostId& host, EndCause cause) {
  guest->saved = false;
  guest->gone = true;
  endings.push_back({now, guest->spec.key(), host, guest->doomed ? EndCause::PagesLost : cause});
  ++endings_ever;
  if (endings.size() > kEndingsKept) endings.pop_front();
  guest_ended(guest);
}

void World::note_running(const VmId& vm, const HostId& host, bool runs_now) {
  auto& where = running_[vm];
  if (runs_now) {
    where.insert(host);
  } else {
    where.erase(host);
  }
  if (where.size() > 1) {
    std::string names;
    for (const auto& id : where) names += " " + id.value;
    violate("VM " + vm.value + " runs in " + std::to_string(where.size()) + " copies, on" + names);
  }
  if (where.empty()) running_.erase(vm);
}

void World::guest_stops(Guest& guest) {
  guest.uptime.set_rate(now, 0);
  guest.work.set_rate(now, 0);
  if (!guest.stopped) guest.stopped = now;
}

void World::guest_goes(const std::shared_ptr<Guest>& who) {
  Guest& guest = *who;
  if (guest.powering_off) {
    at(now, [this, who] { power_off(who); });
  }
  guest.uptime.set_rate(now, 1);
  if (!guest.stopped) return;
  guest.stops.push_back({*guest.stopped, now});
  guest.stopped.reset();
  if (guest.stops.size() > kStopsKept) guest.stops.pop_front();
}

void World::refresh_speed(const HostId& id) {
  SimHost& host = hosts.at(id);
  double wanted = 0;
  for (const auto& [vm, copy] : host.copies) {
    if (copy.copy == Copy::Running) wanted += copy.guest->spec.vcpus;
  }
  // More virtual CPUs than real ones share them evenly.
  const double share = wanted > host.model.cpus ? host.model.cpus / wanted : 1.0;
  for (auto& [vm, copy] : host.copies) {
    if (copy.copy != Copy::Running) continue;
    copy.guest->work.set_rate(now, host.model.speed * share * copy.guest->pace);
  }
  refresh_runs();
}

VmObservation World::observe(const HostId& host, const VmKey& key) {
  VmObservation seen;
  seen.key = key;
  const LocalCopy* copy = find_copy(host, key);
  if (copy == nullptr) return seen;
  seen.copy = copy->copy;
  seen.sending = find_move(host, key.id) != nullptr;
  seen.memory = copy->guest->spec.memory;
  seen.console_faults = copy->guest->kernel_faults - copy->faults_on_entry;
  if (seen.console_faults > 0) seen.console_first_fault = copy->guest->first_fault;
  return seen;
}

std::shared_ptr<Guest> World::new_guest(const VmSpec& spec, bool clone) {
  auto guest = std::make_shared<Guest>();
  guest->spec = spec;
  guest->model = vm_model;
  guest->clone = clone;
  if (clone) guest->model.boot = vm_model.clone_boot;
  guest->boot_id = make_uuid(rng);
  guest->uptime.since = now;
  guest->work.since = now;
  if (faults.boot_panics > 0 && rng.chance(faults.boot_panics)) {
    at(now + nanoseconds_up(guest->model.boot.count() * rng.unit()),
       [this, guest] { panic(guest); });
  }
  return guest;
}

std::optional<HostId> World::runs_on(const VmId& vm) const {
  const auto found = running_.find(vm);
  if (found == running_.end()) return std::nullopt;
  return *found->second.begin();
}

std::optional<HostId> World::runs_on(const Guest& guest) const {
  const auto found = running_.find(guest.spec.id);
  if (found == running_.end()) return std::nullopt;
  for (const auto& host : found->second) {
    if (hosts.at(host).copies.at(guest.spec.id).guest.get() == &guest) return host;
  }
  return std::nullopt;
}

bool World::answers(const Guest& guest) const {
  const auto where = runs_on(guest);
  if (!where || !on_network(hosts.at(*where))) return false;
  return guest.uptime.at(now) >= guest.model.boot.count();
}

void World::panic(const std::shared_ptr<Guest>& guest) {
  const auto where = runs_on(*guest);
  if (!where) return;
  const VmId vm = guest->spec.id;
  copy_goes(*where, vm);
  remove_copy(*where, vm, EndCause::Panicked);
}

void World::power_off(const std::shared_ptr<Guest>& guest) {
  const auto where = runs_on(*guest);
  if (!where) {
    guest->powering_off = true;
    return;
  }
  const VmId vm = guest->spec.id;
  copy_goes(*where, vm);
  remove_copy(*where, vm, EndCause::PoweredOff);
}

void World::violate(const std::string& what) {
  if (violations.size() < kViolationsKept) violations.push_back({now, what});
}

void World::check_books() {
  std::map<VmId, std::set<HostId>> running;
  for (const auto& [id, host] : hosts) {
    if (used(host) + standby_memory(host) > host.model.memory) {
      violate("host " + id.value + " holds more than its memory");
    }
    if (!host.up && !host.copies.empty()) violate("dead host " + id.value + " has copies");
    if (!host.up && !host.standbys.empty()) violate("dead host " + id.value + " has parts");
    for (const auto& [vm, copy] : host.copies) {
      if (copy.copy == Copy::Running) running[vm].insert(id);
      // What was received in part and never ran may be left behind.
      if (copy.guest->gone && copy.copy != Copy::Incoming)
        violate("a copy of " + vm.value + " outlived its guest");
    }
  }
  if (running != running_) violate("the count of running copies is wrong");
  for (const auto& [serial, move] : moves) {
    const VmKey key = move.ticket.vm.key();
    if (find_copy(move.source, key) == nullptr) {
      violate("a migration of " + key.id.value + " sends a copy that is not there");
    }
    if (find_copy(move.destination, key) == nullptr) {
      violate("a migration of " + key.id.value + " has no receiver");
    }
  }
}

}  // namespace mare::sim
