// Leases of hosts, as docs/adr/0008 has them: a host's copies run on while mared or the shared
// storage has confirmed it within the term. What ends them does not need the agent. And hosts that
// freeze: nothing on them takes a step, and what their kernel does first afterwards is to look at
// its timers.
#include <algorithm>
#include <charconv>

#include "hypervisor/sim/world.h"

namespace mare::sim {
namespace {

std::string stamp_of(const SimHost& host, Time now) {
  return std::to_string(host.boots) + "/" + std::to_string(now.count());
}

/// Nothing when it is of another boot, or none.
std::optional<Time> time_of(const SimHost& host, const std::string& stamp) {
  const std::string prefix = std::to_string(host.boots) + "/";
  if (!stamp.starts_with(prefix)) return std::nullopt;
  Time::rep count = 0;
  const char* end = stamp.data() + stamp.size();
  const auto [stop, error] = std::from_chars(stamp.data() + prefix.size(), end, count);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return Time{count};
}

}  // namespace

LeaseAnswer World::renew_lease(const HostId& id, const LeaseTicket& ticket) {
  SimHost& host = hosts.at(id);
  LeaseAnswer answer;
  answer.stamp = stamp_of(host, now);
  answer.enforced = host.lease.enforced;
  const auto stamped = time_of(host, ticket.stamp);
  if (!stamped || *stamped + ticket.term <= now) return answer;
  answer.granted = true;
  answer.enforced = ticket.enforced;
  HostLease& lease = host.lease;
  if (!ticket.enforced) {
    lease = HostLease{};
    return answer;
  }
  if (lease.note != ticket.note) lease.storage_lost.reset();
  lease.enforced = true;
  lease.term = ticket.term;
  lease.note = ticket.note;
  lease.said_until = std::max(lease.said_until, *stamped + ticket.term);
  review_lease(id);
  return answer;
}

bool World::storage_confirms(const SimHost& host) const {
  return on_network(host) && !host.frozen && !fence_notes.contains(host.lease.note);
}

/// The latest at which it can be: what the storage said last may have been read just before.
Time World::lease_end(const SimHost& host) {
  if (!host.lease.storage_lost) return Time::max();
  return std::max(host.lease.said_until, *host.lease.storage_lost + host.lease.term);
}

bool World::may_run(const SimHost& host) const {
  return !host.lease.enforced || host.lease.said_until > now || storage_confirms(host);
}

void World::review_lease(const HostId& id) {
  SimHost& host = hosts.at(id);
  if (!host.up || !host.lease.enforced) return;
  if (!host.lease.storage_lost && !storage_confirms(host)) host.lease.storage_lost = now;
  const Time end = lease_end(host);
  if (end <= now && !host.frozen) return lease_is_over(id);
  if (storage_confirms(host)) {
    host.lease.storage_lost.reset();
  } else if (end > now) {
    at(end, [this, id] { review_lease(id); });
  }
}

void World::lease_is_over(const HostId& id) {
  SimHost& host = hosts.at(id);
  while (!host.copies.empty()) {
    const VmId vm = host.copies.begin()->first;
    copy_goes(id, vm);
    if (find_copy(id, vm) != nullptr) remove_copy(id, vm, EndCause::LeaseOver);
  }
  host.arrivals.clear();
  refresh_runs();
}

void World::freeze(const HostId& id, Time until) {
  SimHost& host = hosts.at(id);
  if (!host.up || host.frozen) return;
  for (auto& [vm, capture] : host.captures) {
    if (capture.active()) fail_capture(id, capture, "its host froze");
  }
  cut(id, until);
  host.frozen = true;
  for (const auto& [vm, copy] : host.copies) {
    if (copy.copy == Copy::Running) host.thaws.insert(vm);
  }
  for (const auto& vm : host.thaws) change_copy(id, vm, Copy::Paused);
  review_lease(id);
  at(until, [this, id] { thaw(id); });
}

void World::thaw(const HostId& id) {
  SimHost& host = hosts.at(id);
  if (!host.up || !host.frozen) return;
  host.frozen = false;
  // Before any VM's next step: the timers. They ran out while the storage was out of reach.
  if (host.lease.enforced && lease_end(host) <= now) lease_is_over(id);
  for (const auto& vm : std::exchange(host.thaws, {})) {
    const LocalCopy* copy = find_copy(id, vm);
    if (copy == nullptr || copy->copy != Copy::Paused) continue;
    if (copy->guest->doomed) {
      remove_copy(id, vm, EndCause::PagesLost);
    } else {
      change_copy(id, vm, Copy::Running);
    }
  }
  review_lease(id);
  refresh_runs();
}

void World::check_no_other(const HostId& here, const VmId& vm) {
  for (const auto& [id, host] : hosts) {
    if (id == here) continue;
    const auto copy = host.copies.find(vm);
    if (copy == host.copies.end()) continue;
    if (copy->second.copy != Copy::Running && !host.thaws.contains(vm)) continue;
    // A frozen one whose lease is over ends before it takes another step.
    if (host.frozen && host.lease.enforced && lease_end(host) <= now) continue;
    violate("VM " + vm.value + " is put back on " + here.value + " while it runs on " + id.value +
            ", or is about to");
  }
}

}  // namespace mare::sim
