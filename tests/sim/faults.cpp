#include "tests/sim/faults.h"

namespace mare::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Below the 60 s after which the engine may give up on a silent host: a job must survive these.
constexpr std::uint64_t kLongestOutage_s = 25;

}  // namespace

Faults::Faults(SimWorld& world) : world_(world), rng_(world.scenario) {
  // A third of the worlds is calm, a third has bad links, a third is bad all over.
  sim::FaultModel faults;
  const auto roughness = rng_.below(3);
  if (roughness >= 1) {
    faults.call_refused = 0.02;
    faults.call_unanswered = 0.02;
    faults.guest_unanswered = 0.03;
    faults.precopy_breaks = 0.2;
    faults.switch_breaks = 0.2;
    faults.post_copy_breaks = 0.2;
    faults.capture_fails = 0.05;
  }
  if (roughness == 2) {
    faults.call_refused = 0.08;
    faults.call_unanswered = 0.08;
    faults.start_fails = 0.1;
    faults.boot_panics = 0.05;
    faults.capture_fails = 0.2;
    faults.switch_breaks = 0.5;
    faults.post_copy_breaks = 0.5;
  }
  world_.cluster.set_faults(faults);
  sim::MigrationModel model;
  model.handover = milliseconds{rng_.below(200)};
  model.cancel_wins_in_switch = 0.5;
  world_.cluster.set_migration_model(model);
}

HostId Faults::some_host() {
  const auto hosts = world_.cluster.hosts();
  return hosts[rng_.below(hosts.size())];
}

VmId Faults::some_vm() {
  const auto copies = world_.cluster.copies();
  return copies.empty() ? VmId{} : copies[rng_.below(copies.size())].key.id;
}

void Faults::strike() {
  if (rng_.chance(0.5)) {
    host_fault();
  } else {
    vm_fault();
  }
}

void Faults::host_fault() {
  const HostId host = some_host();
  const auto now = world_.clock.now();
  if (const auto dead = dead_since_.find(host); dead != dead_since_.end()) {
    if (now - dead->second < seconds{5}) return;
    static_cast<void>(world_.cluster.boot_host(host));
    dead_since_.erase(dead);
    ++counts_["host boots"];
    return;
  }
  if (now < busy_until_[host]) return;
  const auto outage = milliseconds{rng_.below(kLongestOutage_s * 1000)};
  // Some quiet after it, so that two outages are not one long one.
  busy_until_[host] = now + outage + seconds{10};
  switch (rng_.below(7)) {
    case 6:
      static_cast<void>(world_.cluster.freeze_host(host, outage));
      ++counts_["host freezes"];
      break;
    case 0:
      static_cast<void>(world_.cluster.kill_host(host));
      dead_since_[host] = now;
      ++counts_["host dies"];
      break;
    case 1:
      static_cast<void>(world_.cluster.cut_host(host, outage));
      ++counts_["host cut off"];
      break;
    case 2:
      static_cast<void>(world_.cluster.silence_host(host, outage));
      ++counts_["agent silent"];
      break;
    case 3:
      static_cast<void>(world_.cluster.set_uplink(host, BytesPerSecond{2e6 + 200e6 * rng_.unit()}));
      ++counts_["link changes"];
      break;
    default:
      static_cast<void>(world_.cluster.restart_agent(host, milliseconds{rng_.below(3000)}));
      ++counts_["agent restarts"];
      break;
  }
}

void Faults::vm_fault() {
  const VmId vm = some_vm();
  if (vm.empty()) return;
  switch (rng_.below(8)) {
    case 0:
      if (world_.cluster.panic_guest(vm)) ++counts_["guest panics"];
      break;
    case 1:
      if (world_.cluster.oops_guest(vm)) ++counts_["guest oopses"];
      break;
    case 2:
    case 3:
      if (world_.cluster.break_migration(vm)) ++counts_["migration broken"];
      break;
    case 4:
    case 5:
      world_.cluster.break_next_switch(
          vm, static_cast<sim::BrokenSwitch>(rng_.below(sim::kBrokenSwitches)));
      ++counts_["switch to break"];
      break;
    default:
      static_cast<void>(
          world_.cluster.set_dirtying(vm, 100e6 * rng_.unit(), mebibytes(1 + rng_.below(128))));
      ++counts_["dirtying changes"];
      break;
  }
}

void Faults::heal() {
  world_.cluster.set_faults({});
  for (const auto& host : world_.cluster.hosts()) {
    static_cast<void>(world_.cluster.boot_host(host));
    static_cast<void>(world_.cluster.set_uplink(host, BytesPerSecond{125e6}));
  }
  dead_since_.clear();
}

}  // namespace mare::test
