#include "orchestrator/daemon/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "orchestrator/daemon/fence_command.h"

namespace mare::daemon {
namespace {

/// CLI11 reports the text that this returns; "" means fine.
template <typename T>
auto check() {
  return [](const std::string& text) -> std::string {
    auto parsed = T::parse(text);
    return parsed ? "" : parsed.error().text();
  };
}

constexpr double kDay_s = 86400;
constexpr double kFenceTimeout_s = 10;

constexpr const char* kFooter =
    "Files: STATE/mare.db (all state), STATE/token (the API's bearer token), STATE/jobs "
    "(outputs).\n"
    "Signals: TERM and INT end it; unfinished operations go on at the next start.\n"
    "Example:\n"
    "  mared --state-dir /var/lib/mare --vm-subnet 10.20.1.0/24 --vm-prefix-length 16 \\\n"
    "        --nfs-server 10.20.0.2 --ca ca.pem --cert controller.pem --key controller.key";

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  std::string listen = options.listen.text();
  std::string subnet = "10.77.1.0/24";
  std::string level = "info";
  double boot_timeout = options.settings.boot_timeout.count();
  double unreachable_timeout = options.settings.unreachable_timeout.count();
  double auto_spread = options.settings.auto_spread.count();
  double host_mtbf_days = options.settings.host_mtbf.count() / kDay_s;
  // A word about a lease is one heartbeat old when it counts, and the next is as far away: of 2 s
  // that leaves a second for a busy machine. Down after 2 s.
  options.settings.heartbeat = Milliseconds{500};
  options.settings.heartbeat_misses = 3;
  long heartbeat_ms = options.settings.heartbeat.count();
  long lease_ms = options.settings.lease.count();
  double fence_timeout = kFenceTimeout_s;

  CLI::App app{
      "mared: the Maré daemon. Keeps the state, drives the hosts' agents, serves the REST API."};
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("mared ") + MARE_VERSION);
  app.add_option("--state-dir", options.state_directory, "Where everything is kept")
      ->capture_default_str();
  app.add_option("--listen", listen, "Address and port of the REST API; port 0 takes a free one")
      ->check(check<Endpoint>())
      ->capture_default_str();
  app.add_flag("--allow-remote", options.allow_remote,
               "Serve plain HTTP beyond loopback (better: nginx with TLS in front, docs/api.md)");
  app.add_option("--images", options.images, "Images, by the same path here and on the hosts")
      ->capture_default_str();
  app.add_option("--nfs-server", options.settings.nfs_server,
                 "NFS server's address as guests reach it");
  app.add_option("--nfs-images", options.nfs_images, "Export of --images")->capture_default_str();
  app.add_option("--nfs-jobs", options.settings.nfs_jobs,
                 "Export of the jobs' directory, and its path in guests")
      ->capture_default_str();
  app.add_option("--checkpoints", options.settings.checkpoints_directory,
                 "Checkpoints of jobs, by the same path on all hosts, which share it")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--checkpoint-compress",
         [&options](const std::string& how) {
           options.settings.compress_checkpoints = how == "zstd";
         },
         "How parts of checkpoints are packed: zstd or none")
      ->check(CLI::IsMember({"zstd", "none"}))
      ->default_str("zstd");
  app.add_option("--host-mtbf-days", host_mtbf_days,
                 "Believed mean time between a host's failures, until some are seen")
      ->check(CLI::Range(0.001, 36500.0))
      ->capture_default_str();
  app.add_option("--vm-subnet", subnet, "VMs get their addresses from here")
      ->check(check<Ipv4Subnet>())
      ->capture_default_str();
  app.add_option("--vm-prefix-length", options.settings.vm_prefix_length,
                 "Prefix length of the VMs' network")
      ->check(CLI::Range(1, 30))
      ->capture_default_str();
  app.add_option("--ca", options.ca, "CA of the agents' certificates (PEM)")
      ->check(CLI::ExistingFile);
  app.add_option("--cert", options.certificate, "This daemon's certificate (PEM)")
      ->check(CLI::ExistingFile);
  app.add_option("--key", options.key, "Its key (PEM)")->check(CLI::ExistingFile);
  app.add_option("--threads", options.threads, "For calls to hosts and guests")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  app.add_option("--heartbeat-ms", heartbeat_ms, "How often each host is asked")
      ->check(CLI::Range(50L, 60000L))
      ->capture_default_str();
  app.add_option("--heartbeat-misses", options.settings.heartbeat_misses,
                 "Misses in a row until a host is down")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--lease-ms", lease_ms,
                 "Of hosts with ranks of jobs that take checkpoints: VMs end there when so long "
                 "neither mared nor the checkpoints' storage said that they may run")
      ->check(CLI::Range(500L, 600000L))
      ->capture_default_str();
  auto* fence_command = app.add_option(
      "--fence-command", options.fence_command,
      "Program that turns a silent host off (IPMI, Redfish), called with the host's name; status "
      "0: it is off");
  fence_command->check(check_fence_command);
  app.add_option("--fence-command-timeout", fence_timeout,
                 "How long it may take (10s, 500ms) before it is killed and tried again")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}}))
      ->check(CLI::Range(0.1, 300.0))
      ->needs(fence_command)
      ->default_str("10s");
  app.add_option("--boot-timeout", boot_timeout, "Seconds for a guest to answer after its start")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  app.add_flag("--clones,!--no-clones", options.settings.clones,
               "VMs start as clones of templates where hosts have them (default), or boot always");
  app.add_option("--unreachable-timeout", unreachable_timeout,
                 "Seconds that an operation waits for a silent host before it gives up")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--migrations-per-host", options.settings.move_caps.per_host,
                 "Migrations at once that leave or enter a host; more wait for their turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--migrations-per-link", options.settings.move_caps.per_link,
                 "Of them, those between the same two hosts in the same direction")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--auto-spread", auto_spread,
                 "Seconds after hosts came in which running jobs that gain by it spread to them; "
                 "0: never")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--log-level", level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // CLI11 reports by exceptions, help included
    const int code = app.exit(error);
    parsed.exit_code = code == 0 ? 0 : 2;
    return parsed;
  }
  options.listen = *Endpoint::parse(listen);
  options.settings.vm_subnet = *Ipv4Subnet::parse(subnet);
  options.settings.boot_timeout = Seconds{boot_timeout};
  options.settings.unreachable_timeout = Seconds{unreachable_timeout};
  options.settings.auto_spread = Seconds{auto_spread};
  options.settings.host_mtbf = Seconds{host_mtbf_days * kDay_s};
  options.fence_command_timeout = std::chrono::round<Milliseconds>(Seconds{fence_timeout});
  if (app.count("--lease-ms") == 0) lease_ms = std::max(lease_ms, 2 * heartbeat_ms);
  if (lease_ms < 2 * heartbeat_ms) {
    std::fprintf(stderr, "mared: --lease-ms must be at least twice --heartbeat-ms\n");
    parsed.exit_code = 2;
    return parsed;
  }
  options.settings.heartbeat = Milliseconds{heartbeat_ms};
  options.settings.lease = Milliseconds{lease_ms};
  options.log_level = level == "debug"     ? LogLevel::Debug
                      : level == "info"    ? LogLevel::Info
                      : level == "warning" ? LogLevel::Warning
                                           : LogLevel::Error;
  return parsed;
}

}  // namespace mare::daemon
