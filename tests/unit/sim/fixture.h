// Two hosts, a clock that stands still, and short words for what every test does.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "hypervisor/sim/sim_cluster.h"
#include "hypervisor/sim/sim_guests.h"

namespace mare::sim {

using namespace std::chrono_literals;

class SimTest : public ::testing::Test {
 protected:
  SimTest() : rng(7), cluster(clock, rng), guests(cluster) {
    EXPECT_TRUE(cluster.add_host(h1));
    EXPECT_TRUE(cluster.add_host(h2));
    one = make_sim_driver(cluster, h1);
    two = make_sim_driver(cluster, h2);
  }

  static VmSpec spec(int index, Bytes memory = mebibytes(128)) {
    VmSpec vm;
    vm.id = VmId{"demo-" + std::to_string(index)};
    vm.uuid = "uuid-" + std::to_string(index);
    vm.ip = Ipv4Address{0x0a4d0100U + 10U + static_cast<std::uint32_t>(index)};
    vm.memory = memory;
    vm.kernel_args = "quiet mare.token=secret mare.ip=" + vm.ip.text() + "/24";
    return vm;
  }
  static GuestAddress address(const VmSpec& vm) { return {vm.id, vm.ip, "secret"}; }
  static MigrationTicket ticket(const VmSpec& vm, const std::string& operation) {
    MigrationTicket made;
    made.operation = OperationId{operation};
    made.vm = vm;
    return made;
  }
  /// Prepares at `to` and begins at `from`.
  static Status send(Driver& from, Driver& to, const MigrationTicket& what) {
    auto endpoint = to.prepare_incoming(what);
    if (!endpoint) return endpoint.error();
    return from.begin_outgoing(what, *endpoint);
  }
  Copy at(Driver& host, const VmSpec& vm) {
    auto seen = host.observe(vm.key());
    EXPECT_TRUE(seen.ok());
    return seen ? seen->copy : Copy::Unknown;
  }
  void TearDown() override {
    for (const auto& violation : cluster.check_invariants()) ADD_FAILURE() << violation.what;
  }

  HostId h1{"h1"};
  HostId h2{"h2"};
  ManualClock clock;
  SeededRng rng;
  SimCluster cluster;
  SimGuests guests;
  std::unique_ptr<Driver> one;
  std::unique_ptr<Driver> two;
};

}  // namespace mare::sim
