// mare-agent: a driver behind a gRPC service with mutual TLS.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "hypervisor/agent/announcer.h"
#include "hypervisor/agent/cpu_speed.h"
#include "hypervisor/agent/options.h"
#include "hypervisor/agent/server.h"
#ifdef MARE_WITH_LIBVIRT
#include "hypervisor/libvirt/libvirt_driver.h"
#endif
#include "hypervisor/sim/sim_cluster.h"
#include "netarp/sender.h"

namespace mare::agent {
namespace {

/// After SIGTERM: for calls under way. Idle connections use it up too, and mared should not count
/// more than one missed heartbeat for a restart.
constexpr Milliseconds kGrace{500};
/// Then for those that were broken off to leave the hypervisor, in seconds.
constexpr unsigned kLastCallsEndWithin = 5;

int fail(const Error& error) {
  std::fprintf(stderr, "mare-agent: %s\n", error.text().c_str());
  return 1;
}

/// gRPC logs on stderr in a format of its own; its lines are for debugging only, for every failure
/// is reported as an error of ours as well.
Log* grpc_sink = nullptr;
void forward_grpc_line(gpr_log_func_args* line) {
  if (grpc_sink != nullptr) grpc_sink->debug("grpc", line->message);
}

/// A driver with what it lives on.
struct Backend {
  std::unique_ptr<Announcer> announcer;
  std::unique_ptr<SeededRng> rng;
  std::unique_ptr<sim::SimCluster> cluster;
  std::unique_ptr<Driver> driver;
};

Result<Backend> make_sim(const Options& options, Clock& clock) {
  Backend backend;
  SystemRng seed;
  backend.rng = std::make_unique<SeededRng>(seed.next());
  backend.cluster = std::make_unique<sim::SimCluster>(clock, *backend.rng);
  sim::HostModel model;
  model.memory = options.memory;
  if (options.cpus > 0) model.cpus = options.cpus;
  model.migration_tls = options.migration_tls;
  auto added = backend.cluster->add_host(HostId{options.name}, model);
  if (!added) return added.error();
  backend.driver = sim::make_sim_driver(*backend.cluster, HostId{options.name});
  return backend;
}

Result<Backend> make_libvirt([[maybe_unused]] const Options& options, [[maybe_unused]] Clock& clock,
                             [[maybe_unused]] Log& log) {
#ifdef MARE_WITH_LIBVIRT
  Backend backend;
  if (options.announce) {
    auto sender = netarp::Sender::open(options.bridge, netarp::Schedule{}, clock, log);
    if (!sender) return sender.error();
    backend.announcer = std::make_unique<NetAnnouncer>(std::move(*sender));
  } else {
    backend.announcer = std::make_unique<SilentAnnouncer>();
  }
  libvirt::LibvirtOptions with;
  with.host_name = options.name;
  with.uri = options.libvirt_uri;
  with.bridge = options.bridge;
  with.migration_address = options.migration_address;
  with.migration_tls = options.migration_tls;
  with.memory = options.memory;
  with.cpu_speed = options.cpu_speed > 0 ? options.cpu_speed : measure_cpu_speed();
  with.state_dir = options.state_directory;
  with.dirty_log = options.dirty_log == "none"            ? dirtylog::LogChoice::None
                   : options.dirty_log == "page-sampling" ? dirtylog::LogChoice::PageSampling
                                                          : dirtylog::LogChoice::Auto;
  with.dirty_log_library = options.dirty_log_library;
  with.watchdog = options.watchdog;
  with.deadman_library = options.deadman_library;
  with.deadman_file = options.deadman_file;
  with.emulator = options.emulator;
  with.template_memory = options.template_memory;
  with.standby_memory = options.standby_memory;
  with.longest_lease = options.longest_lease;
  auto driver = libvirt::make_driver(with, *backend.announcer, clock, log);
  if (!driver) return driver.error();
  backend.driver = std::move(*driver);
  return backend;
#else
  return make_error(Code::Unsupported, "this agent was built without libvirt",
                    "install libvirt-dev and build again");
#endif
}

Result<ServerOptions> server_options(const Options& options, const Clock& clock) {
  ServerOptions with;
  with.listen = options.listen;
  with.controller = options.controller;
  if (!options.insecure) {
    auto tls =
        load_tls({options.ca, options.certificate, options.key}, options.name, clock.wall_now());
    if (!tls) return tls.error();
    with.tls = *tls;
  }
  return with;
}

Status make_state_directory(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (!failed) return ok_status();
  return make_error(Code::Unavailable, "can't make '" + path + "': " + failed.message(),
                    "give another --state-dir");
}

/// A call that hangs in the hypervisor can't be called back. Everything is found again by asking,
/// so an end without waiting for it loses nothing.
void end_at_once(int) {
  _exit(0);
}

void await_end(Server& server, Log& log) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  int got = 0;
  sigwait(&ends, &got);
  log.info("agent", "ending; VMs and migrations go on");
  signal(SIGALRM, end_at_once);
  alarm(kLastCallsEndWithin);
  server.shutdown(kGrace);
}

int serve(const Options& options) {
  static SystemClock clock;  // outlives the threads of gRPC, which log
  static Log log(clock, options.log_level);
  grpc_sink = &log;
  gpr_set_log_function(forward_grpc_line);
  auto with = server_options(options, clock);
  if (!with) return fail(with.error());
  if (options.driver != "sim") {
    if (auto made = make_state_directory(options.state_directory); !made) {
      return fail(made.error());
    }
  }
  auto backend =
      options.driver == "sim" ? make_sim(options, clock) : make_libvirt(options, clock, log);
  if (!backend) return fail(backend.error());
  auto server = start_server(*with, *backend->driver, log);
  if (!server) return fail(server.error());
  log.info("agent", "host '" + options.name + "' with driver " + options.driver);
  await_end(**server, log);
  return 0;
}

}  // namespace
}  // namespace mare::agent

int main(int argc, char** argv) {
  // Before any thread: they inherit the mask, and only the main thread waits for these.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto parsed = mare::agent::parse_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return mare::agent::serve(parsed.options);
}
