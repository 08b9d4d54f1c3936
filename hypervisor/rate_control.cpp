#include "hypervisor/rate_control.h"

#include <algorithm>

namespace mare {
namespace {

// Slower than this no link is worth a migration, and libvirt counts in whole MiB/s.
constexpr double kLeast = 1024.0 * 1024.0;

double seconds(Microseconds span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

RateController::RateController(const Sending& sending, Milliseconds switch_within)
    : gain_(std::max(0.0, sending.rate_gain)),
      switch_within_(switch_within),
      min_{std::max(kLeast, sending.rate_min.value)},
      max_{std::max(min_.value, sending.rate_max.value)},
      rate_(min_) {}

BytesPerSecond RateController::next_round(Bytes dirtied, Microseconds duration) {
  const double left = static_cast<double>(dirtied.count);
  if (left <= max_.value * seconds(switch_within_)) {
    rate_ = max_;
  } else if (duration.count() > 0) {
    rate_.value =
        std::clamp(rate_.value + gain_ * left / seconds(duration), min_.value, max_.value);
  }
  return rate_;
}

}  // namespace mare
