// From a host's address to its driver: an agent over gRPC, or a simulated host.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "orchestrator/daemon/options.h"
#include "orchestrator/engine/engine.h"

namespace mare::daemon {

class Drivers final : public engine::DriverDirectory {
 public:
  Drivers(const Options& options, Clock& clock, Rng& rng, Log& log);
  ~Drivers() override;

  Result<std::shared_ptr<Driver>> driver(const HostId& host, const std::string& address) override;
  void forget(const HostId& host) override;

 private:
  Result<std::shared_ptr<Driver>> make(const HostId& host, const std::string& address);

  const Options& options_;
  Clock& clock_;
  Rng& rng_;
  Log& log_;
  std::mutex mutex_;
  struct Known {
    std::string address;
    std::shared_ptr<Driver> driver;
  };
  std::map<HostId, Known> known_;
};

}  // namespace mare::daemon
