#include "hypervisor/libvirt/tsc.h"

#include <chrono>
#include <cmath>
#include <optional>

namespace mare::libvirt {

#ifdef __x86_64__
namespace {

constexpr auto kSpan = std::chrono::milliseconds{100};
constexpr auto kTogether = std::chrono::microseconds{20};
constexpr int kTries = 1000;

struct Moment {
  unsigned long long ticks = 0;
  MonotonicTime time{0};
};

/// The counter and the clock as near together as it takes not to be interrupted between.
std::optional<Moment> look(Clock& clock) {
  for (int i = 0; i < kTries; ++i) {
    const MonotonicTime before = clock.now();
    const auto ticks = __builtin_ia32_rdtsc();
    const MonotonicTime after = clock.now();
    if (after - before < kTogether) return Moment{ticks, before + (after - before) / 2};
  }
  return std::nullopt;
}

}  // namespace

unsigned long tsc_khz(Clock& clock) {
  const auto begin = look(clock);
  clock.sleep_for(kSpan);
  const auto end = look(clock);
  if (!begin || !end || end->ticks <= begin->ticks || end->time <= begin->time) return 0;
  const double ms = std::chrono::duration<double, std::milli>(end->time - begin->time).count();
  return static_cast<unsigned long>(
      std::lround(static_cast<double>(end->ticks - begin->ticks) / ms));
}
#else
unsigned long tsc_khz(Clock& /*clock*/) {
  return 0;
}
#endif

}  // namespace mare::libvirt
