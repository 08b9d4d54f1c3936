// The connection to the local libvirtd: opened at first use, opened again when libvirtd was
// restarted, with the event callbacks in place each time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hypervisor/libvirt/handles.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/units.h"

namespace mare::libvirt {

/// QEMU's own figures of a migration out of here that is over.
struct CompletedJob {
  Bytes transferred;
  std::optional<Microseconds> downtime;
};

/// What happened to a domain, told on the event loop's thread: return quickly, make no libvirt
/// call.
struct DomainEvents {
  std::function<void(const std::string& uuid)> paused_for_migration;
  std::function<void(const std::string& uuid)> post_copying;  // it runs at the destination
  std::function<void(const std::string& uuid)> resumed_by_migration;
  std::function<void(const std::string& uuid, int)> iteration;
  std::function<void(const std::string& uuid, const CompletedJob&)> sent;
  /// A connection stands, perhaps anew: events were missed before. On the thread that opened it.
  std::function<void(virConnectPtr)> connected;
};

/// A connection of its own, without events: for a call that takes long, since libvirtd serves only
/// a few calls of one client at a time. Unavailable when libvirtd does not answer.
Result<ConnectHandle> open_connection(const std::string& uri);

class Connection {
 public:
  Connection(std::string uri, DomainEvents events, Log& log);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The shared connection; Unavailable while libvirtd does not answer.
  Result<ConnectHandle> get();
  const std::string& uri() const { return uri_; }
  /// No callback runs, or will run, once this returns. Not for a callback to call.
  void stop_events();

  /// What callbacks see: libvirt may still be delivering one when the Connection ends.
  struct Listener {
    std::mutex mutex;
    DomainEvents events;
    bool closed = false;
  };

 private:
  struct Open {
    ConnectHandle handle;
    std::vector<int> callbacks;
  };
  Open listen(ConnectHandle handle);
  static void close(Open& open);

  const std::string uri_;
  Log& log_;
  std::shared_ptr<Listener> listener_;
  std::mutex mutex_;
  Open current_;
};

}  // namespace mare::libvirt
