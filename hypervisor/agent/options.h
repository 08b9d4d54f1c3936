// mare-agent's command line.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/units.h"

namespace mare::agent {

struct Options {
  std::string name;
  Endpoint listen;
  std::string driver = "libvirt";
  std::string libvirt_uri = "qemu:///system";
  std::string bridge = "br0";
  std::string migration_address;
  bool migration_tls = false;
  Bytes memory;
  int cpus = 0;
  double cpu_speed = 0;  // 0: measured
  std::string state_directory = "/var/lib/mare-agent";
  std::string dirty_log = "auto";
  std::string dirty_log_library;                   // libmare-dirtylog.so, "" for none
  std::string watchdog;                            // mare-watchdog, "" for none
  std::string deadman_library;                     // libmare-deadman.so, "" for none
  std::string deadman_file = "/run/mare/deadman";  // "" for none
  std::string emulator;                            // mare-qemu, "" for none
  std::string template_memory = "/dev/shm/mare-templates";
  std::string standby_memory = "/dev/shm/mare-standbys";
  Milliseconds longest_lease{0};  // 0: as mared says
  std::string ca;
  std::string certificate;
  std::string key;
  std::string controller = "controller";
  bool insecure = false;
  bool announce = true;
  LogLevel log_level = LogLevel::Info;
};

/// An exit code when the program should end at once (help, version, usage).
struct ParsedOptions {
  std::optional<int> exit_code;
  Options options;
};
ParsedOptions parse_options(int argc, char** argv);

}  // namespace mare::agent
