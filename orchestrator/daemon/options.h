// mared's command line.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/core/log.h"
#include "orchestrator/core/net.h"
#include "orchestrator/engine/engine.h"

namespace mare::daemon {

struct Options {
  std::string state_directory = "/var/lib/mare";
  Endpoint listen{"127.0.0.1", 7410};
  bool allow_remote = false;
  std::string images = "/var/lib/mare/images";
  std::string nfs_images = "/images";
  std::string ca;
  std::string certificate;
  std::string key;
  int threads = 32;
  std::string fence_command;  // a program that turns a host off; "": none
  Milliseconds fence_command_timeout{10'000};
  LogLevel log_level = LogLevel::Info;
  engine::Settings settings;
};

/// An exit code when the program should end at once (help, version, usage).
struct ParsedOptions {
  std::optional<int> exit_code;
  Options options;
};
ParsedOptions parse_options(int argc, char** argv);

}  // namespace mare::daemon
