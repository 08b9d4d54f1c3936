#include "orchestrator/core/log.h"

#include <cstdio>

namespace mare {
namespace {
std::string_view name(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return "debug";
    case LogLevel::Info:
      return "info";
    case LogLevel::Warning:
      return "warning";
    case LogLevel::Error:
      return "error";
  }
  return "error";
}
}  // namespace

Log::Log(const Clock& clock, LogLevel least, Sink sink)
    : clock_(clock), least_(least), sink_(std::move(sink)) {}

void Log::write(LogLevel level, std::string_view room, std::string_view text) {
  if (level < least_) return;
  std::string line = format_rfc3339(clock_.wall_now());
  line.append(" ").append(name(level)).append(" ").append(room).append(": ").append(text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';  // a line is an event; foreign text may not forge one
  }
  const std::lock_guard lock(mutex_);
  if (sink_) {
    sink_(line);
    return;
  }
  line.push_back('\n');
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace mare
