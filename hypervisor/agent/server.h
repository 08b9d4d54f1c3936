// The agent's gRPC server: a driver on a port, for the controller alone.
//
// Threads: gRPC's own, one for each call under way, at most kMaxThreads. Nothing survives it; calls
// under way when it ends are broken off (the caller sees OutcomeUnknown or Unavailable).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hypervisor/agent/tls_files.h"
#include "hypervisor/driver.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"

namespace mare::agent {

struct ServerOptions {
  Endpoint listen;              // port 0: any free one
  std::optional<TlsTexts> tls;  // none: no TLS at all
  /// The common name of the one certificate that may call. A host's own certificate is of the same
  /// CA; whoever steals it must not command the other hosts.
  std::string controller = "controller";
};

class Server {
 public:
  static constexpr int kMaxThreads = 64;

  virtual ~Server() = default;
  virtual int port() const = 0;
  /// Takes no more calls, waits up to `grace` for those under way, then breaks them off. Blocks
  /// while a broken-off call is still inside the driver.
  virtual void shutdown(Milliseconds grace) = 0;
};

/// Unavailable: the port is taken, or the address is not this host's. The driver must outlive it.
Result<std::unique_ptr<Server>> start_server(const ServerOptions& options, Driver& driver,
                                             Log& log);

}  // namespace mare::agent
