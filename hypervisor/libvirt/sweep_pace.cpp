#include "hypervisor/libvirt/sweep_pace.h"

#include <algorithm>
#include <cmath>

namespace mare::libvirt {
namespace {

constexpr double kLeastGone = 0.125;
// Beyond these it is not the same guest any more, or not at one place.
constexpr double kQuickest = 0.6;
constexpr double kSlowest = 2.5;

}  // namespace

void SweepPace::saw(const Sighting& one, const Sweep& sweep) {
  if (!first_) {
    first_ = last_ = one;
    return;
  }
  const double step = sweep.descending ? last_.place - one.place : one.place - last_.place;
  const double part = step - std::floor(step);
  // Whole times through between two sightings that are far apart, by the pace that was told.
  const double expected =
      (one.at - last_.at) / std::chrono::duration<double, std::micro>(sweep.period);
  // A look just after another one may seem to be behind it.
  const double whole = std::round(expected - part);
  gone_ += part + whole;
  last_ = one;
}

SweepSwitch SweepPace::seen(const SweepSwitch& told) const {
  if (!first_ || gone_ < kLeastGone) return told;
  const auto period =
      std::chrono::duration_cast<std::chrono::duration<double>>(last_.at - first_->at) / gone_;
  const double slower =
      std::clamp(period / std::chrono::duration<double>(told.sweep.period), kQuickest, kSlowest);
  SweepSwitch out = told;
  const auto scaled = [slower](auto span) {
    return decltype(span){static_cast<typename decltype(span)::rep>(
        std::llround(slower * static_cast<double>(span.count())))};
  };
  out.sweep.period = scaled(told.sweep.period);
  for (auto& wait : out.waits) wait = scaled(wait);
  return out;
}

}  // namespace mare::libvirt
