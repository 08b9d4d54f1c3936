// How many of this machine's CPUs are busy, between two looks at the kernel's counters.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace mare::dirtylog {

struct CpuTimes {
  double cpus = 0;
  double busy_s = 0;  // of all of them together, since boot
};
/// From the text of /proc/stat (proc_stat(5)). What waits for a disk is idle, what other guests of
/// the machine's own hypervisor took is busy. None: it is not such a text.
std::optional<CpuTimes> cpu_times_from(const std::string& text, double ticks_per_s);

/// Safe for any thread.
class CpuMeter {
 public:
  explicit CpuMeter(std::string file = "/proc/stat") : file_(std::move(file)) {}

  struct Use {
    double cpus = 0;  // 0: unknown
    double busy = 0;
  };
  /// From here on, unless another look began within kLeast before.
  void begin(std::chrono::nanoseconds now);
  /// Since the last begin(); what it said last if that was less than kLeast ago.
  Use look(std::chrono::nanoseconds now);

 private:
  static constexpr double kLeast = 0.5;  // s: the kernel counts in ticks of 10 ms

  std::optional<CpuTimes> read() const;

  const std::string file_;
  std::mutex mutex_;
  std::optional<CpuTimes> from_;
  std::chrono::nanoseconds began_{0};
  Use last_;
};

}  // namespace mare::dirtylog
