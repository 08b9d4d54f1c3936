// A child process with its output on a pipe. Started by posix_spawn: fork would copy gRPC's locks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace mare::agent::test {

class Process {
 public:
  explicit Process(const std::vector<std::string>& argv);
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  /// Stops it; returns when it stands still, which on a busy machine is well after the signal.
  void stop() const;
  /// Reads its output (stdout and stderr) up to a line that contains `text` and returns that line;
  /// "" if its output ends or `limit_ms` passes before.
  std::string wait_for_line(const std::string& text, int limit_ms = 20'000);
  /// All that it has written until it ended.
  std::string read_all();
  /// Its exit code, or 128 + signal.
  int wait_exit();

 private:
  std::optional<std::string> next_line(int limit_ms);

  pid_t pid_ = -1;
  int out_ = -1;
  std::string pending_;
  std::optional<int> exit_;
};

}  // namespace mare::agent::test
