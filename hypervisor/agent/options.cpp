#include "hypervisor/agent/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "hypervisor/libvirt/preloads.h"

namespace mare::agent {
namespace {

std::string check_endpoint(const std::string& text) {
  auto parsed = Endpoint::parse(text);
  return parsed ? "" : parsed.error().text();
}

/// A file that belongs to this program, beside it: installed (sbin and lib/mare) or in a build
/// tree.
/// "" if it is not there.
std::string find_beside(const std::string& name, std::initializer_list<const char*> places) {
  std::error_code failed;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* place : places) {
    const auto path = (here / place / name).lexically_normal();
    if (std::filesystem::is_regular_file(path, failed)) return path.string();
  }
  return "";
}

/// What an option with the choices auto and none comes to.
std::string chosen_file(const std::string& given, const std::string& name,
                        std::initializer_list<const char*> places) {
  if (given == "auto") return find_beside(name, places);
  return given == "none" ? "" : given;
}

/// What only several options together can tell; "" means fine.
std::string contradiction(const Options& options) {
  const std::string& host = options.listen.host;
  const bool loopback = host.starts_with("127.") || host == "localhost" || host == "[::1]";
  if (options.insecure) {
    return loopback ? "" : "--insecure is for loopback only: give --ca, --cert and --key";
  }
  if (options.ca.empty() || options.certificate.empty() || options.key.empty()) {
    return "mutual TLS needs --ca, --cert and --key";
  }
  if (!libvirt::can_preload(options.deadman_library)) {
    return "--deadman-library '" + options.deadman_library +
           "' has a space or a colon, and can't be preloaded: give another, or none";
  }
  if (options.driver == "libvirt" && options.migration_address.empty()) {
    return "--driver libvirt needs --migration-address, where other hosts reach this one";
  }
  return "";
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  std::string listen;
  std::string level = "info";
  std::uint64_t memory_mib = 0;
  bool silent = false;
  CLI::App app{"mare-agent: drives the hypervisor of one host for mared."};
  app.footer(
      "The agent keeps nothing that can't be read again from the hypervisor: it may be restarted "
      "at any time,\n"
      "VMs and running migrations go on.\n"
      "Exit codes: 0 ended by SIGTERM or SIGINT, 1 can't serve, 2 wrong usage.\n"
      "Example:\n"
      "  mare-agent --name h1 --listen 10.20.0.11:7412 --migration-address 10.20.0.11 --bridge br0 "
      "\\\n"
      "             --memory-mib 65536 --ca ca.pem --cert h1.pem --key h1.key");
  app.set_version_flag("--version", std::string("mare-agent ") + MARE_VERSION);
  app.add_option("--name", options.name, "This host's name; its certificate must carry it")
      ->required();
  app.add_option("--listen", listen, "Address and port of the gRPC service")
      ->required()
      ->check(check_endpoint);
  app.add_option("--driver", options.driver, "libvirt, or sim for a host that is only simulated")
      ->check(CLI::IsMember({"libvirt", "sim"}))
      ->capture_default_str();
  app.add_option("--libvirt-uri", options.libvirt_uri, "Of the local libvirt daemon")
      ->capture_default_str();
  app.add_option("--bridge", options.bridge, "VMs are attached to it and announced on it")
      ->capture_default_str();
  app.add_option("--migration-address", options.migration_address,
                 "Other hosts send VMs to this address, best one of a network of their own");
  app.add_flag("--migration-tls", options.migration_tls,
               "Send and take VMs encrypted; needs certificates in QEMU's pki directory, and the "
               "same on every host (docs/libvirt.md)");
  app.add_option("--memory-mib", memory_mib, "What VMs may use in all")
      ->required()
      ->check(CLI::Range(64, 1 << 30));
  app.add_option("--cpus", options.cpus, "CPUs for VMs; 0: all of the machine")
      ->check(CLI::Range(0, 65536));
  app.add_option("--cpu-speed", options.cpu_speed,
                 "What a CPU of this host does in a second, against those of the others, in any "
                 "unit that all hosts share (SPECrate, say); 0: measured at each start. Give it on "
                 "all hosts or on none")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--state-dir", options.state_directory, "Consoles and other files of VMs")
      ->capture_default_str();
  app.add_option("--dirty-log", options.dirty_log,
                 "How VMs' memory is watched; auto: exactly where the kernel can (Linux 6.7), else "
                 "by page-sampling")
      ->check(CLI::IsMember({"auto", "page-sampling", "none"}))
      ->capture_default_str();
  std::string library = "auto";
  app.add_option("--dirty-log-library", library,
                 "libmare-dirtylog.so, which VMs preload so that their memory can be watched "
                 "exactly; auto: "
                 "beside this program; none: new VMs start without it")
      ->capture_default_str();
  std::string watchdog = "auto";
  app.add_option("--watchdog", watchdog,
                 "mare-watchdog, which ends this host's VMs when its lease is over, also when the "
                 "agent was killed; auto: beside this program; none: this host holds no leases")
      ->capture_default_str();
  std::string deadman = "auto";
  app.add_option(
         "--deadman-library", deadman,
         "libmare-deadman.so, which VMs preload so that the kernel ends them when the lease "
         "is over and agent and watchdog were killed or stopped; auto: beside this program; "
         "none: new VMs start without it")
      ->capture_default_str();
  app.add_option(
         "--deadman-file", options.deadman_file,
         "Where that is told until when VMs may run: a file of this agent alone, on a tmpfs, "
         "readable for QEMU's user")
      ->capture_default_str();
  std::string emulator = "auto";
  app.add_option("--emulator", emulator,
                 "mare-qemu, by which libvirt starts templates and their clones; auto: beside this "
                 "program; none: VMs boot on this host")
      ->capture_default_str();
  app.add_option("--template-memory", options.template_memory,
                 "A directory of this agent alone, on a tmpfs, for the memory of templates, some "
                 "140 MB each; '': in --state-dir, and then a checkpoint of VMs that are clones "
                 "stops them until it is written")
      ->capture_default_str();
  app.add_option("--standby-memory", options.standby_memory,
                 "A directory of this agent alone, on a tmpfs, for checkpoints of VMs of other "
                 "hosts, as far as VMs leave room; '': none are kept")
      ->capture_default_str();
  long lease_ms = 0;
  app.add_option("--lease-ms", lease_ms,
                 "No longer lease than that is taken; 0: as long as mared says (its --lease-ms, "
                 "2000)")
      ->check(CLI::Range(0L, 600000L))
      ->capture_default_str();
  app.add_option("--ca", options.ca, "CA of mared's and this agent's certificates (PEM)");
  app.add_option("--cert", options.certificate, "This agent's certificate (PEM)");
  app.add_option("--key", options.key, "Its key (PEM)");
  app.add_option("--controller-name", options.controller,
                 "Common name of the one certificate that may command this agent")
      ->capture_default_str();
  app.add_flag("--insecure", options.insecure, "No TLS; on loopback only, for tests");
  app.add_flag("--no-announce", silent, "Send no gratuitous ARP; for experiments only");
  app.add_option("--log-level", level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // CLI11 reports by exceptions, help included
    parsed.exit_code = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  options.listen = *Endpoint::parse(listen);
  options.memory = mebibytes(memory_mib);
  options.announce = !silent;
  options.dirty_log_library =
      chosen_file(library, "libmare-dirtylog.so", {".", "../lib/mare", "../dirtylog"});
  options.watchdog = chosen_file(watchdog, "mare-watchdog", {".", "../leases"});
  options.deadman_library =
      chosen_file(deadman, "libmare-deadman.so", {".", "../lib/mare", "../leases"});
  if (deadman == "auto" && !libvirt::can_preload(options.deadman_library)) {
    options.deadman_library.clear();
  }
  // One without the other, or without leases, is of no use.
  if (options.watchdog.empty()) options.deadman_library.clear();
  if (options.deadman_library.empty()) options.deadman_file.clear();
  options.emulator = chosen_file(emulator, "mare-qemu", {".", "../libvirt"});
  options.longest_lease = Milliseconds{lease_ms};
  options.log_level = level == "debug"     ? LogLevel::Debug
                      : level == "info"    ? LogLevel::Info
                      : level == "warning" ? LogLevel::Warning
                                           : LogLevel::Error;
  if (const auto trouble = contradiction(options); !trouble.empty()) {
    std::fprintf(stderr, "mare-agent: %s\n", trouble.c_str());
    parsed.exit_code = 2;
  }
  return parsed;
}

}  // namespace mare::agent
