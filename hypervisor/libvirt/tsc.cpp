#include "hypervisor/libvirt/tsc.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace mare::libvirt {

#ifdef __x86_64__
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSpan = std::chrono::milliseconds{100};
constexpr auto kTogether = std::chrono::microseconds{20};
constexpr int kTries = 1000;

struct Moment {
  unsigned long long ticks = 0;
  Clock::time_point time;
};

/// The counter and the clock as near together as it takes not to be interrupted between.
std::optional<Moment> now() {
  for (int i = 0; i < kTries; ++i) {
    const auto before = Clock::now();
    const auto ticks = __rdtsc();
    const auto after = Clock::now();
    if (after - before < kTogether) return Moment{ticks, before + (after - before) / 2};
  }
  return std::nullopt;
}

}  // namespace

unsigned long tsc_khz() {
  const auto begin = now();
  std::this_thread::sleep_for(kSpan);
  const auto end = now();
  if (!begin || !end || end->ticks <= begin->ticks) return 0;
  const double ms = std::chrono::duration<double, std::milli>(end->time - begin->time).count();
  return static_cast<unsigned long>(
      std::lround(static_cast<double>(end->ticks - begin->ticks) / ms));
}
#else
unsigned long tsc_khz() {
  return 0;
}
#endif

}  // namespace mare::libvirt
