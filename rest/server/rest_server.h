// The REST API of mared: routes, authorisation, event streams, on top of the HTTP seam.
//
// Threads: requests run on the HTTP server's few threads and only commit or read rows; whatever
// lasts (event streams, outputs, waits for operations) is served by one follower thread. Nothing
// here survives a crash, nor needs to: clients go on from the last event's number.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/store/store.h"
#include "rest/server/http.h"

namespace mare::rest {

struct RestOptions {
  Endpoint listen{"127.0.0.1", 7410};  // port 0: a free one, url() tells which
  std::string token;                   // asked of every client; must not be empty
  bool allow_remote = false;           // plain HTTP on an address that isn't loopback
  HttpLimits limits;
  Milliseconds heartbeat{10'000};  // comment on a quiet event stream
  Milliseconds stall{30'000};      // a stream whose client takes nothing for so long is ended
  std::size_t most_streams = 64;   // event streams and followed outputs at a time
  std::size_t most_waiters = 256;  // ?wait= beyond that is answered at once
};

class RestServer {
 public:
  /// All arguments must outlive the server; the engine's on_change() is taken over.
  static Result<std::unique_ptr<RestServer>> start(const RestOptions& options,
                                                   engine::Engine& engine, store::Store& store,
                                                   engine::ImageCatalog& images, Clock& clock,
                                                   Log& log);
  ~RestServer();
  RestServer(const RestServer&) = delete;
  RestServer& operator=(const RestServer&) = delete;

  std::string url() const;  // "http://127.0.0.1:7410"
  /// Ends streams properly, answers those who wait, finishes replies under way. Idempotent.
  void stop();

 private:
  class Impl;
  explicit RestServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mare::rest
