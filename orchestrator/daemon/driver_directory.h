// From a host's address to its driver: an agent over gRPC, or a simulated host.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "hypervisor/sim/registry.h"
#include "orchestrator/daemon/options.h"
#include "orchestrator/engine/engine.h"

namespace mare::daemon {

class Drivers final : public engine::DriverDirectory {
 public:
  Drivers(const Options& options, Clock& clock, Rng& rng, Log& log)
      : options_(options), clock_(clock), log_(log), simulated_(clock, rng) {}

  Result<std::shared_ptr<Driver>> driver(const HostId& host, const std::string& address) override;
  void forget(const HostId& host) override;

  sim::SimCluster& simulated() { return simulated_.cluster(); }
  /// Does a simulated host have a copy of that VM?
  bool is_simulated(const VmId& vm);

 private:
  Result<std::shared_ptr<Driver>> make(const HostId& host, const std::string& address);

  struct Known {
    std::string address;
    std::shared_ptr<Driver> driver;
  };
  const Options& options_;
  Clock& clock_;
  Log& log_;
  std::mutex mutex_;
  sim::SimRegistry simulated_;
  std::map<HostId, Known> known_;
};

}  // namespace mare::daemon
