// The heartbeat's part in the leases of hosts: docs/adr/0008.
#include <algorithm>

#include "orchestrator/engine/host_fencer.h"
#include "orchestrator/engine/host_monitor.h"
#include "orchestrator/engine/plan.h"

namespace mare::engine {

namespace {

/// Hosts that are to fail: their jobs will need to know when their VMs are over.
Result<std::set<HostId>> threatened_hosts(const store::Reader& reader) {
  store::OperationFilter filter;
  filter.kind = OperationKind::HostEvacuate;
  filter.unfinished_only = true;
  auto going = reader.operations(filter);
  if (!going) return going.error();
  std::set<HostId> out;
  for (const auto& operation : *going) out.insert(HostId{operation.target});
  return out;
}

Result<std::set<HostId>> hosts_to_lease(const store::Reader& reader) {
  store::OperationFilter filter;
  filter.kind = OperationKind::JobRun;
  filter.unfinished_only = true;
  filter.limit = 100000;
  auto running = reader.operations(filter);
  if (!running) return running.error();
  auto threatened = threatened_hosts(reader);
  if (!threatened) return threatened.error();
  std::set<HostId> out;
  for (const auto& operation : *running) {
    auto job = reader.job(JobId{operation.target});
    if (!job) return job.error();
    std::set<HostId> on;
    for (const auto& id : job->vms) {
      auto vm = reader.vm(id);
      if (vm && vm->host) on.insert(*vm->host);
    }
    const bool fails = std::any_of(on.begin(), on.end(),
                                   [&](const HostId& id) { return threatened->contains(id); });
    bool protect = fails || job->checkpoints.rule != CheckpointRule::Never;
    if (!protect) {
      auto back = comes_back(reader, *job);
      if (!back) return back.error();
      protect = *back;
    }
    if (protect) out.insert(on.begin(), on.end());
  }
  return out;
}

}  // namespace

Result<std::set<HostId>> HostMonitor::to_be_leased() const {
  return query<std::set<HostId>>(context_.ports.store, hosts_to_lease);
}

/// Nothing when what must be durable first could not be written.
std::optional<HostMonitor::Word> HostMonitor::lease_word(Host host, bool leased) {
  Watch& watch = watches_[host.id];
  Word word;
  if (host.fence != HostFence::None) return word;  // never renewed again
  if (!leased && host.lease.count() > 0) {
    // First it counts as one that can't be fenced, then its agent learns it.
    host.lease = Milliseconds{0};
    auto kept = context_.ports.store.write(
        [&](store::Transaction& tx) { return put_host(tx, context_.ports.clock, host); });
    if (!kept) return std::nullopt;
    watch.withdrawn = false;
  }
  word.any = leased || !watch.withdrawn;
  word.ticket.stamp = watch.stamp;
  word.ticket.term = context_.settings.lease;
  word.ticket.enforced = leased;
  word.ticket.note = fence_note(context_.settings, host, host.fences + 1);
  return word;
}

void HostMonitor::lease_answered(const HostId& id, const Word& word,
                                 const Result<LeaseAnswer>& answer) {
  Watch& watch = watches_[id];
  if (!answer) {
    // A host that holds no leases has none to be withdrawn.
    if (answer.error().code == Code::Unsupported) watch.withdrawn = true;
    return;
  }
  watch.stamp = answer->stamp;
  watch.withdrawn = answer->granted && !word.ticket.enforced;
  auto host = query<Host>(context_.ports.store, [&](const store::Reader& r) { return r.host(id); });
  if (!host || host->fence != HostFence::None) return;
  Milliseconds holds = host->lease;
  if (!answer->granted) {
    // A word that came late takes nothing back.
    if (answer->enforced) return;
    // It may have been booted since, and knows nothing of a lease any more.
    holds = Milliseconds{0};
  } else if (word.ticket.enforced) {
    holds = std::max(holds, word.ticket.term);
  }
  if (holds == host->lease) return;
  host->lease = holds;
  (void)context_.ports.store.write(
      [&](store::Transaction& tx) { return put_host(tx, context_.ports.clock, *host); });
}

void HostMonitor::lift(const Host& host, const std::vector<VmObservation>& copies) {
  Watch& watch = watches_[host.id];
  auto driver = context_.ports.drivers.driver(host.id, host.address);
  auto own = query<std::vector<Vm>>(context_.ports.store,
                                    [&](const store::Reader& r) { return r.vms_on(host.id); });
  if (watch.lifting || !driver || !own) return;
  // In use again it would be turned off with new VMs.
  if (context_.fencer->is_being_turned_off(host.id)) return;
  std::vector<VmKey> left;
  for (const auto& copy : copies) {
    // Those of operations that waited for the host are theirs.
    const bool theirs = std::any_of(own->begin(), own->end(), [&](const Vm& vm) {
      return vm.id == copy.key.id && vm.uuid == copy.key.uuid;
    });
    if (!theirs && copy.copy != Copy::Absent) left.push_back(copy.key);
  }
  watch.lifting = true;
  const LeaseTicket none{"", context_.settings.lease, false, ""};
  context_.ports.executor.run(std::string(kBeatLane) + host.id.value,
                              [this, inbox = context_.inbox, driver = *driver, id = host.id, left,
                               none, note = fence_note(context_.settings, host, host.fences)] {
                                bool empty = true;
                                for (const auto& key : left)
                                  empty = driver->destroy(key).ok() && empty;
                                auto stamped = driver->renew_lease(none);
                                LeaseTicket ticket = none;
                                if (stamped) ticket.stamp = stamped->stamp;
                                auto withdrawn = driver->renew_lease(ticket);
                                const bool has_none =
                                    withdrawn ? withdrawn->granted
                                              : withdrawn.error().code == Code::Unsupported;
                                empty = empty && has_none;
                                // Its number is never used again: one that stays is only litter.
                                if (empty) (void)driver->remove_fence_note(note);
                                inbox->post([this, id, empty] { lifted(id, empty); });
                              });
}

void HostMonitor::lifted(const HostId& id, bool empty) {
  const auto watch = watches_.find(id);
  if (watch == watches_.end()) return;
  watch->second.lifting = false;
  if (!empty) return;
  watch->second.withdrawn = true;
  watch->second.stamp.clear();
  auto host = query<Host>(context_.ports.store, [&](const store::Reader& r) { return r.host(id); });
  if (!host || host->fence != HostFence::Over) return;
  host->fence = HostFence::None;
  host->lease = Milliseconds{0};
  auto kept = context_.ports.store.write(
      [&](store::Transaction& tx) { return put_host(tx, context_.ports.clock, *host); });
  if (kept) context_.ports.log.info("hosts", "host '" + id.value + "' is no longer fenced");
}

}  // namespace mare::engine
