// The only place that reads the time or waits. Tests and the simulator pass a ManualClock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

namespace mare {

/// Since an arbitrary origin; for durations and deadlines.
using MonotonicTime = std::chrono::nanoseconds;
/// Since 1970-01-01 UTC; for records only.
using WallTime = std::chrono::microseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime now() const = 0;
  virtual WallTime wall_now() const = 0;
  /// Blocks the caller (a ManualClock advances instead).
  virtual void sleep_for(std::chrono::nanoseconds duration) = 0;
};

class SystemClock final : public Clock {
 public:
  MonotonicTime now() const override;
  WallTime wall_now() const override;
  void sleep_for(std::chrono::nanoseconds duration) override;
};

/// Stands still until told. Thread-safe.
class ManualClock final : public Clock {
 public:
  /// `up`: what now() begins with, as a machine's own clock that has run for so long.
  explicit ManualClock(WallTime epoch = WallTime{1'700'000'000'000'000}, MonotonicTime up = {})
      : now_(up), up_(up), epoch_(epoch) {}
  MonotonicTime now() const override;
  WallTime wall_now() const override;
  void sleep_for(std::chrono::nanoseconds duration) override { advance(duration); }
  void advance(std::chrono::nanoseconds duration);

 private:
  mutable std::mutex mutex_;
  MonotonicTime now_;
  const MonotonicTime up_;
  WallTime epoch_;
};

/// "2026-11-21T04:00:00.123456Z" (RFC 3339).
std::string format_rfc3339(WallTime time);

}  // namespace mare
