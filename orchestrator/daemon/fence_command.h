// `mared --fence-command`: a program of the user's turns a silent host off (docs/checkpoints.md).
#pragma once

#include <string>

#include "orchestrator/engine/engine.h"

namespace mare::daemon {

/// Can it be run? "" when it can, else what is wrong and what to do about it: for the command line.
std::string check_fence_command(const std::string& program);

/// Any thread, several calls at once. Nothing survives it: a program that runs when mared is killed
/// goes on by itself.
class ProgramFenceCommand final : public engine::FenceCommand {
 public:
  /// After `timeout` (above 0) the program and all of its process group are killed.
  ProgramFenceCommand(std::string program, Milliseconds timeout, const Clock& clock)
      : program_(std::move(program)), timeout_(timeout), clock_(clock) {}

  /// Runs it without a shell: argument the host's name; MARE_HOST, MARE_HOST_ADDRESS and
  /// MARE_FENCE_NUMBER in its environment; nothing on stdin; in a process group of its own. Exit
  /// status 0: the host is off.
  Result<std::string> turn_off(const engine::FenceOrder& order) override;

 private:
  std::string program_;
  Milliseconds timeout_;
  const Clock& clock_;
};

}  // namespace mare::daemon
