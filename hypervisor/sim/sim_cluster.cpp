#include "hypervisor/sim/sim_cluster.h"

#include <algorithm>
#include <utility>

#include "hypervisor/sim/world.h"

namespace mare::sim {
namespace {

/// The running guest of that name.
Result<std::shared_ptr<Guest>> running_guest(World& world, const VmId& vm) {
  const auto where = world.runs_on(vm);
  if (!where) return make_error(Code::NotFound, "no VM '" + vm.value + "' runs in the simulation");
  return world.hosts.at(*where).copies.at(vm).guest;
}

}  // namespace

std::string_view to_string(BrokenSwitch outcome) {
  switch (outcome) {
    case BrokenSwitch::SourceResumed:
      return "source resumed";
    case BrokenSwitch::SourcePaused:
      return "source paused";
    case BrokenSwitch::BothWait:
      return "both wait";
    case BrokenSwitch::BothPaused:
      return "both paused";
    case BrokenSwitch::HandedOver:
      return "handed over";
    case BrokenSwitch::CompletedUnsaid:
      return "completed unsaid";
  }
  return "?";
}

std::string_view to_string(EndCause cause) {
  switch (cause) {
    case EndCause::Destroyed:
      return "destroyed";
    case EndCause::PoweredOff:
      return "powered off";
    case EndCause::Panicked:
      return "panicked";
    case EndCause::HostDied:
      return "host died";
    case EndCause::PagesLost:
      return "pages lost";
    case EndCause::LeaseOver:
      return "ended with its host's lease";
  }
  return "?";
}

SimCluster::SimCluster(Clock& clock, Rng& rng) : world_(std::make_unique<World>(clock, rng)) {}
SimCluster::~SimCluster() = default;

Locked SimCluster::lock() const {
  return Locked(*world_);
}

// --- what it is made of

Status SimCluster::add_host(const HostId& host, const HostModel& model) {
  auto world = lock();
  if (world->find_host(host) != nullptr) {
    return make_error(Code::AlreadyExists, "simulated host '" + host.value + "' exists");
  }
  if (model.cpus < 1 || model.speed <= 0 || model.uplink.value <= 0) {
    return make_error(Code::InvalidArgument,
                      "simulated host '" + host.value + "' needs CPUs, a speed and an uplink");
  }
  world->hosts[host].model = model;
  return ok_status();
}

bool SimCluster::has_host(const HostId& host) const {
  return lock()->find_host(host) != nullptr;
}

std::vector<HostId> SimCluster::hosts() const {
  auto world = lock();
  std::vector<HostId> ids;
  for (const auto& [id, host] : world->hosts) ids.push_back(id);
  return ids;
}

Status SimCluster::set_link(const HostId& a, const HostId& b, BytesPerSecond bandwidth) {
  auto world = lock();
  for (const auto& id : {a, b}) {
    if (auto host = world->host(id); !host) return host.error();
  }
  world->links[std::minmax(a, b)] = bandwidth.value;
  world->share_links();
  return ok_status();
}

Status SimCluster::crowd_link(const HostId& a, const HostId& b, double share, int bursts) {
  auto world = lock();
  for (const auto& id : {a, b}) {
    if (auto host = world->host(id); !host) return host.error();
  }
  world->crowded_links[std::minmax(a, b)] = {share, bursts};
  return ok_status();
}

Status SimCluster::set_uplink(const HostId& id, BytesPerSecond bandwidth) {
  auto world = lock();
  auto host = world->host(id);
  if (!host) return host.error();
  (*host)->model.uplink = bandwidth;
  world->share_links();
  return ok_status();
}

Status SimCluster::set_speed(const HostId& id, double speed) {
  auto world = lock();
  auto host = world->host(id);
  if (!host) return host.error();
  (*host)->model.speed = speed;
  world->refresh_speed(id);
  return ok_status();
}

void SimCluster::set_vm_model(const VmModel& model) {
  lock()->vm_model = model;
}
void SimCluster::set_migration_model(const MigrationModel& model) {
  lock()->migration = model;
}
void SimCluster::set_capture_model(const CaptureModel& model) {
  lock()->capturing = model;
}
void SimCluster::set_faults(const FaultModel& model) {
  lock()->faults = model;
}

Status SimCluster::set_dirtying(const VmId& vm, double bytes_per_s, Bytes wws) {
  auto world = lock();
  auto guest = running_guest(*world, vm);
  if (!guest) return guest.error();
  (*guest)->past_writing.push_back(
      {world->now, (*guest)->model.dirty_bytes_per_s, (*guest)->model.wws});
  (*guest)->model.dirty_bytes_per_s = bytes_per_s;
  (*guest)->model.wws = wws;
  return ok_status();
}

// --- what happens to it

Status SimCluster::kill_host(const HostId& id) {
  auto world = lock();
  if (auto host = world->host(id); !host) return host.error();
  world->kill(id);
  return ok_status();
}

Status SimCluster::boot_host(const HostId& id) {
  auto world = lock();
  auto host = world->host(id);
  if (!host) return host.error();
  (*host)->up = true;
  (*host)->cut_until = (*host)->silent_until = Time{0};
  world->thaw(id);
  world->review_lease(id);
  return ok_status();
}

Status SimCluster::silence_host(const HostId& id, std::chrono::nanoseconds duration) {
  auto world = lock();
  auto host = world->host(id);
  if (!host) return host.error();
  (*host)->silent_until = std::max((*host)->silent_until, world->now + duration);
  return ok_status();
}

Status SimCluster::cut_host(const HostId& id, std::chrono::nanoseconds duration) {
  auto world = lock();
  if (auto host = world->host(id); !host) return host.error();
  world->cut(id, world->now + duration);
  return ok_status();
}

Status SimCluster::freeze_host(const HostId& id, std::chrono::nanoseconds duration) {
  auto world = lock();
  if (auto host = world->host(id); !host) return host.error();
  world->freeze(id, world->now + duration);
  return ok_status();
}

Status SimCluster::restart_agent(const HostId& id, std::chrono::nanoseconds duration) {
  auto world = lock();
  auto host = world->host(id);
  if (!host) return host.error();
  (*host)->silent_until = std::max((*host)->silent_until, world->now + duration);
  (*host)->ended.clear();
  (*host)->captures.clear();  // whose VMs stand still until somebody says otherwise
  (*host)->dropped.clear();
  for (auto& [vm, arrival] : (*host)->arrivals) {
    arrival.announces = false;
    arrival.announced.reset();
  }
  for (auto& [serial, move] : world->moves) {
    if (move.source == id) move.operation_known = false;
  }
  return ok_status();
}

Status SimCluster::panic_guest(const VmId& vm) {
  auto world = lock();
  auto guest = running_guest(*world, vm);
  if (!guest) return guest.error();
  world->panic(*guest);
  return ok_status();
}

Status SimCluster::oops_guest(const VmId& vm) {
  auto world = lock();
  auto guest = running_guest(*world, vm);
  if (!guest) return guest.error();
  ++(*guest)->kernel_faults;
  if ((*guest)->first_fault.empty()) (*guest)->first_fault = "Oops: 0000 [#1] (simulated)";
  return ok_status();
}

Status SimCluster::break_migration(const VmId& vm) {
  auto world = lock();
  for (auto& [serial, move] : world->moves) {
    if (move.ticket.vm.id != vm) continue;
    if (World::in_post_copy(move)) {
      world->starve(move, "broken on purpose");
      return ok_status();
    }
    if (!World::in_rounds(move)) {
      return make_error(Code::FailedPrecondition, "the migration of " + vm.value + " switches");
    }
    world->break_before_switch(move, "broken on purpose");
    return ok_status();
  }
  return make_error(Code::NotFound, "no migration of " + vm.value + " runs");
}

void SimCluster::break_next_switch(const VmId& vm, BrokenSwitch outcome) {
  lock()->next_switch[vm] = outcome;
}

void SimCluster::fail_next_calls(const HostId& id, int count, Code code, bool done) {
  auto world = lock();
  if (auto* host = world->find_host(id)) host->planned = {count, code, done};
}

Status SimCluster::damage_file(const std::string& path) {
  auto world = lock();
  const auto file = world->parts.find(path);
  if (file == world->parts.end()) return make_error(Code::NotFound, "no file " + path);
  ++file->second.checksum;
  return ok_status();
}

// --- what is true of it

std::vector<std::string> SimCluster::capture_files() const {
  auto world = lock();
  std::vector<std::string> paths;
  for (const auto& [path, file] : world->parts) paths.push_back(path);
  return paths;
}

bool SimCluster::capture_is_there(const std::string& path) const {
  return lock()->is_whole(path, false);
}

std::vector<std::string> SimCluster::standbys(const HostId& id) const {
  auto world = lock();
  std::vector<std::string> paths;
  const auto* host = world->find_host(id);
  if (host == nullptr) return paths;
  for (const auto& [vm, standby] : host->standbys) paths.push_back(standby.path);
  return paths;
}

std::vector<TrueCopy> SimCluster::copies() const {
  auto world = lock();
  std::vector<TrueCopy> all;
  for (const auto& [id, host] : world->hosts) {
    for (const auto& [vm, copy] : host.copies) {
      all.push_back({id, copy.guest->spec.key(), copy.copy, world->find_move(id, vm) != nullptr});
    }
  }
  return all;
}

std::vector<std::string> SimCluster::fence_notes() const {
  auto world = lock();
  return {world->fence_notes.begin(), world->fence_notes.end()};
}

Copy SimCluster::copy_on(const HostId& host, const VmId& vm) const {
  auto world = lock();
  const auto* copy = world->find_copy(host, vm);
  return copy == nullptr ? Copy::Absent : copy->copy;
}

std::optional<HostId> SimCluster::running_on(const VmId& vm) const {
  return lock()->runs_on(vm);
}

std::optional<Seconds> SimCluster::guest_progress(const VmId& vm) const {
  auto world = lock();
  for (const auto& [id, host] : world->hosts) {
    const auto found = host.copies.find(vm);
    if (found != host.copies.end()) return Seconds{found->second.guest->uptime.at(world->now)};
  }
  return std::nullopt;
}

bool SimCluster::guest_alive(const VmId& vm) const {
  auto world = lock();
  auto guest = running_guest(*world, vm);
  return guest && world->answers(**guest);
}

MonotonicTime SimCluster::looked_at(const VmId& vm) const {
  auto world = lock();
  auto guest = running_guest(*world, vm);
  return guest ? (*guest)->looked_at : MonotonicTime{0};
}

bool SimCluster::is_clone(const VmId& vm) const {
  auto world = lock();
  auto guest = running_guest(*world, vm);
  return guest && (*guest)->clone;
}

std::optional<MonotonicTime> SimCluster::next_event() const {
  return lock()->next_event();
}

std::vector<Violation> SimCluster::violations() const {
  return lock()->violations;
}

std::vector<Ending> SimCluster::endings(std::size_t skip) const {
  auto world = lock();
  const std::size_t forgotten = world->endings_ever - world->endings.size();
  const std::size_t first =
      std::min(skip > forgotten ? skip - forgotten : 0, world->endings.size());
  return {world->endings.begin() + static_cast<std::ptrdiff_t>(first), world->endings.end()};
}

std::vector<Violation> SimCluster::check_invariants() const {
  auto world = lock();
  world->check_books();
  return world->violations;
}

}  // namespace mare::sim
