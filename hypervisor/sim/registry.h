// Simulated hosts by address, for the daemon: "sim:///h1?memory_mib=4096&cpus=4&rate_mbps=1000".
// All hosts of one registry are one cluster. It lives in this process: a restart of mared finds the
// hosts empty, as after a power failure.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hypervisor/guest_port.h"
#include "hypervisor/sim/sim_cluster.h"

namespace mare::sim {

struct SimAddress {
  HostId host;
  HostModel model;
};

/// Does the address name a simulated host?
bool is_sim_address(std::string_view address);
/// InvalidArgument (field "address") names the part that is wrong.
Result<SimAddress> parse_sim_address(std::string_view address);

class SimRegistry {
 public:
  /// Both must outlive it.
  SimRegistry(Clock& clock, Rng& rng) : cluster_(clock, rng) {}
  /// The driver of that host, which is made at its first mention.
  Result<std::unique_ptr<Driver>> driver(std::string_view address);
  SimCluster& cluster() { return cluster_; }

 private:
  SimCluster cluster_;
};

}  // namespace mare::sim
