// One line per event: time, level, room, text. Log or return an error, never both.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "orchestrator/core/clock.h"

namespace mare {

enum class LogLevel { Debug, Info, Warning, Error };

/// Thread-safe. Writes to stderr unless given a sink.
class Log {
 public:
  using Sink = std::function<void(std::string_view line)>;
  explicit Log(const Clock& clock, LogLevel least = LogLevel::Info, Sink sink = {});

  void debug(std::string_view room, std::string_view text) { write(LogLevel::Debug, room, text); }
  void info(std::string_view room, std::string_view text) { write(LogLevel::Info, room, text); }
  void warn(std::string_view room, std::string_view text) { write(LogLevel::Warning, room, text); }
  void error(std::string_view room, std::string_view text) { write(LogLevel::Error, room, text); }

 private:
  void write(LogLevel level, std::string_view room, std::string_view text);

  const Clock& clock_;
  LogLevel least_;
  Sink sink_;
  std::mutex mutex_;
};

}  // namespace mare
