// mare-agent: a driver behind a gRPC service with mutual TLS.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "hypervisor/agent/announcer.h"
#include "hypervisor/agent/options.h"
#include "hypervisor/agent/service.h"
#ifdef MARE_WITH_LIBVIRT
#include "hypervisor/libvirt/libvirt_driver.h"
#endif
#include "hypervisor/sim/sim_cluster.h"

namespace mare::agent {
namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "mare-agent: %s\n", error.text().c_str());
  return 1;
}

Result<std::string> read_pem(const std::string& path) {
  const std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.str().find("-----BEGIN") == std::string::npos) {
    return make_error(Code::InvalidArgument, "'" + path + "' can't be read as PEM",
                      "make certificates as docs/agent.md says");
  }
  return text.str();
}

Result<std::shared_ptr<grpc::ServerCredentials>> credentials(const Options& options) {
  if (options.insecure) return grpc::InsecureServerCredentials();
  auto ca = read_pem(options.ca);
  if (!ca) return ca.error();
  auto certificate = read_pem(options.certificate);
  if (!certificate) return certificate.error();
  auto key = read_pem(options.key);
  if (!key) return key.error();
  grpc::SslServerCredentialsOptions ssl(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ssl.pem_root_certs = *ca;
  ssl.pem_key_cert_pairs.push_back({*key, *certificate});
  return grpc::SslServerCredentials(ssl);
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
  with.memory = options.memory;
  with.state_dir = options.state_directory;
  auto driver = libvirt::make_driver(with, *backend.announcer, clock, log);
  if (!driver) return driver.error();
  backend.driver = std::move(*driver);
  return backend;
#else
  return make_error(Code::Unsupported, "this agent was built without libvirt",
                    "install libvirt-dev and build again");
#endif
}

int serve(const Options& options) {
  SystemClock clock;
  Log log(clock, options.log_level);
  std::error_code failed;
  std::filesystem::create_directories(options.state_directory, failed);
  if (failed) {
    return fail(make_error(Code::Unavailable,
                           "cannot make " + options.state_directory + ": " + failed.message(),
                           "give another --state-dir"));
  }
  auto with = credentials(options);
  if (!with) return fail(with.error());
  auto backend =
      options.driver == "sim" ? make_sim(options, clock) : make_libvirt(options, clock, log);
  if (!backend) return fail(backend.error());

  Service service(*backend->driver);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen.text(), *with, &port);
  // Else a second agent would share the port with the first and each get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server || port == 0) {
    return fail(make_error(Code::Unavailable,
                           "cannot listen on " + options.listen.text() +
                               ": the port is taken, or the address is not of this host",
                           "end the other process, or give another --listen"));
  }
  log.info("agent", "host '" + options.name + "' (" + options.driver + "), listening on " +
                        options.listen.host + ":" + std::to_string(port));
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  int got = 0;
  sigwait(&ends, &got);
  log.info("agent", "ending; VMs and migrations go on");
  server->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(2, GPR_TIMESPAN)));
  server->Wait();
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
