#include "orchestrator/daemon/driver_directory.h"

#include <algorithm>

#include "hypervisor/remote/remote_driver.h"

namespace mare::daemon {

Result<std::shared_ptr<Driver>> Drivers::driver(const HostId& host, const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(host);
  if (known != known_.end() && known->second.address == address) return known->second.driver;
  auto made = make(host, address);
  if (!made) return made.error();
  known_[host] = Known{address, *made};
  return *made;
}

Result<std::shared_ptr<Driver>> Drivers::make(const HostId& host, const std::string& address) {
  if (sim::is_sim_address(address)) {
    auto driver = simulated_.driver(address);
    if (!driver) return driver.error();
    return std::shared_ptr<Driver>(std::move(*driver));
  }
  auto endpoint = Endpoint::parse(address);
  if (!endpoint) {
    Error error = endpoint.error();
    error.field = "address";
    error.remedy = "give an agent's address as 10.0.0.11:7412, or sim:///NAME for a simulated host";
    return error;
  }
  if (options_.ca.empty() || options_.certificate.empty() || options_.key.empty()) {
    return make_error(Code::FailedPrecondition,
                      "agents are reached over mutual TLS and this mared has no certificate",
                      "start mared with --ca, --cert and --key");
  }
  remote::RemoteOptions remote;
  remote.name = host.value;
  remote.address = address;
  remote.ca = options_.ca;
  remote.certificate = options_.certificate;
  remote.key = options_.key;
  auto driver = remote::make_remote_driver(remote, clock_, log_);
  if (!driver) return driver.error();
  return std::shared_ptr<Driver>(std::move(*driver));
}

void Drivers::forget(const HostId& host) {
  const std::lock_guard lock(mutex_);
  known_.erase(host);
}

bool Drivers::is_simulated(const VmId& vm) {
  if (simulated_.cluster().hosts().empty()) return false;
  const auto copies = simulated_.cluster().copies();
  return std::any_of(copies.begin(), copies.end(),
                     [&](const sim::TrueCopy& copy) { return copy.key.id == vm; });
}

}  // namespace mare::daemon
