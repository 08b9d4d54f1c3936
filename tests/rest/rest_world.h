// A running REST server on a free port, over the real engine and store and a simulated cluster in
// real time. Everything is quick: guests boot in a fraction of a second.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "hypervisor/sim/registry.h"
#include "hypervisor/sim/sim_guests.h"
#include "orchestrator/daemon/thread_pool.h"
#include "orchestrator/engine/engine.h"
#include "rest/server/rest_server.h"
#include "tests/rest/http_client.h"

namespace mare::test {

inline const std::string kToken = "0123456789abcdef0123456789abcdef";

class SimDrivers final : public engine::DriverDirectory {
 public:
  SimDrivers(Clock& clock, Rng& rng) : registry(clock, rng) {}
  Result<std::shared_ptr<Driver>> driver(const HostId& host, const std::string& address) override;
  void forget(const HostId& host) override { (void)host; }
  sim::SimRegistry registry;
};

/// Images "base" and "other".
class FixedImages final : public engine::ImageCatalog {
 public:
  Result<engine::ImageFacts> find(const std::string& name, const std::string& version) override;
  Result<std::vector<engine::ImageFacts>> list() override;
};

class RestWorld {
 public:
  explicit RestWorld(rest::RestOptions options = {});
  ~RestWorld();
  RestWorld(const RestWorld&) = delete;
  RestWorld& operator=(const RestWorld&) = delete;

  std::string url(const std::string& path) const { return server->url() + path; }
  int port() const;
  Got get(const std::string& path) const { return call("GET", path); }
  Got post(const std::string& path, const std::string& body) const;
  Got put(const std::string& path, const std::string& body) const;
  Got patch(const std::string& path, const std::string& body) const;
  Got call(const std::string& method, const std::string& path) const;
  std::vector<std::string> token_header() const { return {"Authorization: Bearer " + kToken}; }
  std::unique_ptr<Follow> follow(const std::string& path,
                                 std::vector<std::string> more_headers = {}) const;

  /// Waits for the operation of a 202; answers it ended. Fails the test unless `outcome`.
  wire::Json finish(const Got& accepted, const std::string& outcome = "succeeded") const;
  /// Adds simulated hosts h1..hN and waits for them.
  void add_hosts(int count);
  void add_pool(const std::string& id, int size);

  SystemClock clock;
  SeededRng rng{1};
  Log log;
  std::string directory;
  std::unique_ptr<store::Store> store;
  SimDrivers drivers;
  sim::SimGuests guests;
  FixedImages images;
  std::unique_ptr<daemon::ThreadPool> pool;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<rest::RestServer> server;

 private:
  Got with_json(const char* method, const std::string& path, const std::string& body) const;

  std::thread engine_thread_;
};

}  // namespace mare::test
