// mared: names the concrete classes, starts them in order, ends them in reverse.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "orchestrator/daemon/driver_directory.h"
#include "orchestrator/daemon/failpoints.h"
#include "orchestrator/daemon/fence_command.h"
#include "orchestrator/daemon/guests.h"
#include "orchestrator/daemon/image_catalog.h"
#include "orchestrator/daemon/options.h"
#include "orchestrator/daemon/prometheus.h"
#include "orchestrator/daemon/state_directory.h"
#include "orchestrator/daemon/thread_pool.h"
#include "rest/server/rest_server.h"

namespace mare::daemon {
namespace {

constexpr int kCallsPerLane = 3;
// As many hosts can hang at once, each call for 5 s, before another one's heartbeat waits.
constexpr int kThreadsForUrgent = 64;

int fail(const Error& error) {
  std::fprintf(stderr, "mared: %s\n", error.text().c_str());
  return 1;
}

int serve(const Options& options) {
  auto clock = std::make_shared<SystemClock>();
  SystemRng rng;
  Log log(*clock, options.log_level);

  auto directory = StateDirectory::open(options.state_directory);
  if (!directory) return fail(directory.error());
  auto token = directory->token(rng);
  if (!token) return fail(token.error());
  auto store = store::Store::open(directory->database());
  if (!store) return fail(store.error());
  const char* wanted = std::getenv("MARE_FAILPOINTS");
  auto failpoints =
      parse_failpoints(wanted == nullptr ? "" : wanted, options.state_directory, clock);
  if (!failpoints) return fail(failpoints.error());

  DirectoryCatalog images(options.images, options.nfs_images);
  SimCatalog catalog(images);
  Drivers drivers(options, *clock, rng, log);
  auto guests = make_guests(*clock, log, drivers);
  engine::Settings settings = options.settings;
  settings.jobs_directory = directory->jobs();

  std::unique_ptr<engine::FenceCommand> fence_command;
  if (!options.fence_command.empty()) {
    fence_command = std::make_unique<ProgramFenceCommand>(options.fence_command,
                                                          options.fence_command_timeout, *clock);
  }
  // The pool outlives the engine's thread and is joined first: its calls refer to everything above.
  auto pool = std::make_unique<ThreadPool>(options.threads, kCallsPerLane, kThreadsForUrgent);
  const auto ask = [clock](const PrometheusQuery& query) { return ask_prometheus(query, *clock); };
  engine::Engine engine({**store, drivers, *guests, catalog, *pool, *clock, rng, log,
                         policy::forecast, ask, fence_command.get()},
                        settings, *failpoints);
  if (auto recovered = engine.recover(); !recovered) return fail(recovered.error());
  rest::RestOptions rest_options;
  rest_options.listen = options.listen;
  rest_options.token = *token;
  rest_options.allow_remote = options.allow_remote;
  auto server = rest::RestServer::start(rest_options, engine, **store, catalog, *clock, log);
  if (!server) return fail(server.error());
  log.info("mared", std::string("version ") + MARE_VERSION + ", API at " + (*server)->url() +
                        ", state in " + options.state_directory);
  std::thread engine_thread([&engine] { engine.run(); });

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  int got = 0;
  sigwait(&ends, &got);
  log.info("mared", std::string("ending on ") + (got == SIGTERM ? "SIGTERM" : "SIGINT"));
  (*server)->stop();
  engine.stop();
  engine_thread.join();
  pool.reset();
  return 0;
}

}  // namespace
}  // namespace mare::daemon

int main(int argc, char** argv) {
  // Before any thread: they inherit the mask, and only the main thread waits for these.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto parsed = mare::daemon::parse_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return mare::daemon::serve(parsed.options);
}
