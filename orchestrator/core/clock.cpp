#include "orchestrator/core/clock.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <thread>

namespace mare {

MonotonicTime SystemClock::now() const {
  return std::chrono::steady_clock::now().time_since_epoch();
}

WallTime SystemClock::wall_now() const {
  return std::chrono::duration_cast<WallTime>(std::chrono::system_clock::now().time_since_epoch());
}

void SystemClock::sleep_for(std::chrono::nanoseconds duration) {
  std::this_thread::sleep_for(duration);
}

MonotonicTime ManualClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

WallTime ManualClock::wall_now() const {
  const std::lock_guard lock(mutex_);
  return epoch_ + std::chrono::duration_cast<WallTime>(now_ - up_);
}

void ManualClock::advance(std::chrono::nanoseconds duration) {
  const std::lock_guard lock(mutex_);
  now_ += duration;
}

std::string format_rfc3339(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto micros = static_cast<long>((time - seconds).count());
  const std::time_t stamp = static_cast<std::time_t>(seconds.count());
  std::tm parts{};
  gmtime_r(&stamp, &parts);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s.%06ldZ", date.data(), micros);
  return text.data();
}

}  // namespace mare
