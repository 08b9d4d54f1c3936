// When a VM that writes in phases is going to write least: ALMA's idea (Baruchi et al., 2013-16),
// on the cycles that the watcher has seen anyhow.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

#include "orchestrator/policy/dirty_curve.h"
#include "orchestrator/policy/monotone_curve.h"
#include "orchestrator/policy/statistics.h"

namespace mare::policy {
namespace {

constexpr std::size_t kLeastCycles = 6;    // three periods of two, or two of three
constexpr double kLeastCorrelation = 0.5;  // by chance 24 samples stay below 0.4 (95%)
constexpr double kDeep = 0.7;

struct Look {
  WallTime began{0};
  double bytes = 0;
};

std::vector<Look> looks_of(const std::vector<DirtyCycle>& cycles) {
  std::vector<Look> out;
  for (const auto& cycle : cycles) {
    std::vector<MonotoneCurve::Knot> knots{{0, 0}};
    for (const auto& point : cycle.points) {
      knots.push_back({std::chrono::duration<double>(point.wall).count(),
                       static_cast<double>(point.unique.count)});
    }
    if (knots.back().x < kTroughWindow) continue;  // unfinished
    out.push_back({cycle.began, MonotoneCurve(std::move(knots)).at(kTroughWindow)});
  }
  return out;
}

/// Of the series with itself, `lag` later; 0 if nothing varies.
double correlation(const std::vector<Look>& looks, std::size_t lag, double mean) {
  double together = 0;
  double squares = 0;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    squares += (looks[i].bytes - mean) * (looks[i].bytes - mean);
    if (i >= lag) together += (looks[i].bytes - mean) * (looks[i - lag].bytes - mean);
  }
  const double n = static_cast<double>(looks.size());
  return squares > 0 ? together / squares * n / (n - static_cast<double>(lag)) : 0;
}

/// In cycles; 0 if there is none. A multiple of a period correlates as well: the first that does.
std::size_t period_of(const std::vector<Look>& looks) {
  double mean = 0;
  for (const auto& look : looks) mean += look.bytes / static_cast<double>(looks.size());
  std::size_t best = 0;
  double best_value = kLeastCorrelation;
  for (std::size_t lag = 2; 2 * lag <= looks.size(); ++lag) {
    const double value = correlation(looks, lag, mean);
    if (value > best_value * (best == 0 ? 1 : 1.1)) {
      best = lag;
      best_value = value;
    }
  }
  return best;
}

struct Phase {
  std::size_t last = 0;  // index of its latest look
  double bytes = 0;
};

Phase deepest(const std::vector<Look>& looks, std::size_t period) {
  Phase best;
  for (std::size_t phase = 0; phase < period; ++phase) {
    std::vector<double> values;
    std::size_t last = 0;
    for (std::size_t i = phase; i < looks.size(); i += period) {
      values.push_back(looks[i].bytes);
      last = i;
    }
    const double middle = median(values);
    if (phase == 0 || middle < best.bytes) best = {last, middle};
  }
  return best;
}

}  // namespace

std::optional<Trough> next_trough(const std::vector<DirtyCycle>& cycles, WallTime now,
                                  WallTime deadline) {
  const auto looks = looks_of(cycles);
  if (looks.size() < kLeastCycles) return std::nullopt;
  const std::size_t period = period_of(looks);
  if (period == 0) return std::nullopt;
  std::vector<double> all;
  for (const auto& look : looks) all.push_back(look.bytes);
  const Phase phase = deepest(looks, period);
  const double usual = median(all);
  const WallTime cycle =
      (looks.back().began - looks.front().began) / static_cast<long>(looks.size() - 1);
  const WallTime step = cycle * static_cast<long>(period);
  if (phase.bytes > kDeep * usual || step.count() <= 0) return std::nullopt;
  WallTime at = looks[phase.last].began;
  if (at < now) at += step * ((now - at + step - WallTime{1}) / step);
  if (at > deadline) return std::nullopt;
  return Trough{at, std::chrono::duration_cast<Seconds>(step),
                std::chrono::duration_cast<Seconds>(cycle), phase.bytes, usual};
}

std::vector<DirtyCycle> cycles_of(const std::vector<DirtyCycle>& cycles, const Trough& trough) {
  std::vector<DirtyCycle> out;
  for (const auto& cycle : cycles) {
    const Seconds apart = std::chrono::duration_cast<Seconds>(cycle.began - trough.at);
    const double off = std::remainder(apart.count(), trough.period.count());
    if (std::abs(off) < trough.lasts.count() / 2) out.push_back(cycle);
  }
  return out;
}

}  // namespace mare::policy
