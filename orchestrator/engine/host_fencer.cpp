#include "orchestrator/engine/host_fencer.h"

#include <algorithm>

namespace mare::engine {
namespace {
constexpr auto kFenceLookAgain = std::chrono::milliseconds{100};
}  // namespace

std::string fence_note(const Settings& settings, const Host& host, int number) {
  // A host that was removed and added again counts from 1 again.
  return settings.checkpoints_directory + "/fenced/" + host.id.value + "-" +
         std::to_string(host.added.count()) + "-" + std::to_string(number);
}

Status begin_fence(store::Transaction& tx, const Clock& clock, const HostId& id) {
  auto host = tx.host(id);
  if (!host) return host.error();
  host->fence = HostFence::Begun;
  ++host->fences;
  return put_host(tx, clock, *host);
}

bool can_be_fenced(const Context& context, const Host& host) {
  return host.lease.count() > 0 || context.ports.fence_command != nullptr;
}

HostFencer::HostFencer(Context& context)
    : context_(context), tries_(context, [this](const Host& host, const std::string& words) {
        over_by_command(host, words);
      }) {}

void HostFencer::look() {
  auto hosts = query<std::vector<Host>>(context_.ports.store,
                                        [](const store::Reader& r) { return r.hosts(); });
  bool begun = !hosts.ok();
  if (hosts) {
    for (const auto& host : *hosts) {
      if (host.fence != HostFence::Begun) {
        watches_.erase(host.id);
        tries_.stop(host.id);
      }
      if (host.fence == HostFence::None) continue;
      begun = begun || host.fence == HostFence::Begun;
      go_on(host, *hosts);
    }
  }
  if (!begun || comes_back_) return;
  comes_back_ = true;
  context_.after(kFenceLookAgain, [this] {
    comes_back_ = false;
    look();
  });
}

void HostFencer::go_on(const Host& host, const std::vector<Host>& hosts) {
  if (host.fence == HostFence::Over) {
    // Operations that waited for the host may have left VMs Lost since.
    (void)context_.ports.store.write([&](store::Transaction& tx) { return free_vms(tx, host); });
    return;
  }
  if (!can_be_fenced(context_, host)) {
    // Begun by a mared that had a command.
    (void)take_back(host);
    return;
  }
  tries_.go_on(host);
  if (host.lease.count() > 0) wait_for_lease(host, hosts);
}

void HostFencer::wait_for_lease(const Host& host, const std::vector<Host>& hosts) {
  const MonotonicTime now = context_.ports.clock.now();
  Watch& watch = watches_.try_emplace(host.id, Watch{now, false, 0, std::nullopt}).first->second;
  if (!watch.noted) return order_note(host, hosts);
  // The last renewal counts from a stamp that was here before the fence began; the storage was read
  // without the note before that was written.
  const auto term = std::max(host.lease, context_.settings.lease);
  const MonotonicTime still_from = std::max(watch.since, *watch.noted) + term;
  if (now >= still_from + context_.settings.lease_margin) over(host);
}

/// Any host can write it: all see the same storage, but one may not see it just now, so they take
/// turns. When all were silent, those that are not any more are still called so: then each is
/// tried, the fenced one too.
void HostFencer::order_note(const Host& host, const std::vector<Host>& hosts) {
  Watch& watch = watches_.at(host.id);
  if (watch.asking) return;
  std::vector<const Host*> writers;
  for (const auto& other : hosts) {
    if (other.health == HostHealth::Up && other.fence == HostFence::None) writers.push_back(&other);
  }
  if (writers.empty()) {
    for (const auto& other : hosts) writers.push_back(&other);
  }
  const Host* writer = writers.at(watch.asked++ % writers.size());
  auto driver = context_.ports.drivers.driver(writer->id, writer->address);
  if (!driver) return;
  watch.asking = true;
  context_.ports.executor.run(
      std::string(kFenceLane) + writer->id.value,
      [this, inbox = context_.inbox, driver = *driver, id = host.id, number = host.fences,
       note = fence_note(context_.settings, host, host.fences)] {
        const bool written = driver->put_fence_note(note).ok();
        inbox->post([this, id, number, written] {
          const auto known = watches_.find(id);
          if (known == watches_.end()) return;
          known->second.asking = false;
          auto row =
              query<Host>(context_.ports.store, [&](const store::Reader& r) { return r.host(id); });
          if (!written || !row || row->fences != number) return;
          known->second.noted = context_.ports.clock.now();
        });
      });
}

bool HostFencer::take_back(Host host) {
  host.fence = HostFence::None;
  auto kept = context_.ports.store.write(
      [&](store::Transaction& tx) { return put_host(tx, context_.ports.clock, host); });
  if (!kept) return false;
  tries_.stop(host.id);
  context_.ports.log.info("hosts", "host '" + host.id.value +
                                       "' is not fenced: it holds no lease, and no fence command "
                                       "has turned it off");
  context_.changed();
  return true;
}

void HostFencer::over_by_command(Host host, const std::string& words) {
  context_.ports.log.warn("hosts", "the fence command has turned host '" + host.id.value + "' off" +
                                       (words.empty() ? "" : ": " + words));
  host.health_reason =
      with_command_words(host.health_reason, words.empty() ? "the host is off" : words);
  over(std::move(host));
}

void HostFencer::over(Host host) {
  host.fence = HostFence::Over;
  host.health_reason += "; it is fenced, nothing runs there";
  auto kept = context_.ports.store.write([&](store::Transaction& tx) -> Status {
    if (auto freed = free_vms(tx, host); !freed) return freed;
    return put_host(tx, context_.ports.clock, host);
  });
  if (!kept) return;  // looked at again
  tries_.stop(host.id);
  context_.ports.log.warn("hosts", "host '" + host.id.value + "' is fenced");
  context_.changed();
}

Status HostFencer::free_vms(store::Transaction& tx, const Host& host) {
  auto vms = tx.vms_on(host.id);
  if (!vms) return vms.error();
  for (auto& vm : *vms) {
    // Others belong to their operations.
    if (vm.state != VmState::Lost && vm.state != VmState::Running) continue;
    vm.state = VmState::Failed;
    vm.reason = "its host '" + host.id.value + "' fell silent and was fenced";
    vm.host.reset();
    context_.settled[vm.id] = context_.ports.clock.now();
    if (auto done = put_vm(tx, context_.ports.clock, vm); !done) return done;
  }
  return ok_status();
}

}  // namespace mare::engine
