// The connection to the local libvirtd: opened at first use, opened again when libvirtd was
// restarted, with the event callbacks in place each time.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "hypervisor/libvirt/handles.h"
#include "orchestrator/core/log.h"

namespace mare::libvirt {

/// What happened to a domain, told on the event loop's thread: return quickly, make no libvirt
/// call.
struct DomainEvents {
  std::function<void(const std::string& uuid)> paused_for_migration;
  std::function<void(const std::string& uuid)> resumed_by_migration;
  std::function<void(const std::string& uuid, int iteration)> iteration;
};

class Connection {
 public:
  Connection(std::string uri, DomainEvents events, Log& log);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The shared connection; Unavailable while libvirtd does not answer.
  Result<ConnectHandle> get();
  /// One more, without events: for a call that takes long, since libvirtd serves only a few calls
  /// of one client at a time.
  Result<ConnectHandle> open_another() const;

 private:
  void register_events(virConnectPtr connection);

  const std::string uri_;
  const DomainEvents events_;
  Log& log_;
  std::mutex mutex_;
  ConnectHandle current_;
};

}  // namespace mare::libvirt
