#include "orchestrator/policy/monotone_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace mare::policy {
namespace {

using Knots = std::vector<MonotoneCurve::Knot>;

Knots tidy(Knots knots) {
  std::sort(knots.begin(), knots.end(),
            [](const auto& a, const auto& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  Knots out;
  for (const auto& knot : knots) {
    const double y = out.empty() ? knot.y : std::max(out.back().y, knot.y);
    if (!out.empty() && knot.x <= out.back().x) {
      out.back().y = y;
    } else {
      out.push_back({knot.x, y});
    }
  }
  return out;
}

double slope(const Knots& knots, std::size_t segment) {
  return (knots[segment + 1].y - knots[segment].y) / (knots[segment + 1].x - knots[segment].x);
}

/// One-sided slopes at the ends, harmonic means between: 0 where the curve turns flat.
std::vector<double> tangents_of(const Knots& knots) {
  const std::size_t n = knots.size();
  std::vector<double> out(n, 0);
  if (n < 2) return out;
  out.front() = slope(knots, 0);
  out.back() = slope(knots, n - 2);
  for (std::size_t i = 1; i + 1 < n; ++i) {
    const double left = slope(knots, i - 1);
    const double right = slope(knots, i);
    if (left <= 0 || right <= 0) continue;
    const double h0 = knots[i].x - knots[i - 1].x;
    const double h1 = knots[i + 1].x - knots[i].x;
    out[i] = 3 * (h0 + h1) / ((2 * h1 + h0) / left + (h1 + 2 * h0) / right);
  }
  return out;
}

}  // namespace

MonotoneCurve::MonotoneCurve(std::vector<Knot> knots)
    : knots_(tidy(std::move(knots))), tangents_(tangents_of(knots_)) {}

double MonotoneCurve::last_slope() const {
  return knots_.size() < 2 ? 0 : slope(knots_, knots_.size() - 2);
}

double MonotoneCurve::at(double x) const {
  if (knots_.empty()) return 0;
  if (x <= knots_.front().x) return knots_.front().y;
  if (x >= knots_.back().x) return knots_.back().y + last_slope() * (x - knots_.back().x);
  const auto above =
      std::upper_bound(knots_.begin(), knots_.end(), x,
                       [](double value, const Knot& knot) { return value < knot.x; });
  const auto i = static_cast<std::size_t>(above - knots_.begin()) - 1;
  const double h = knots_[i + 1].x - knots_[i].x;
  const double t = (x - knots_[i].x) / h;
  const double from =
      (1 + 2 * t) * (1 - t) * (1 - t) * knots_[i].y + t * (1 - t) * (1 - t) * h * tangents_[i];
  const double to = t * t * (3 - 2 * t) * knots_[i + 1].y - t * t * (1 - t) * h * tangents_[i + 1];
  return std::clamp(from + to, knots_[i].y, knots_[i + 1].y);
}

}  // namespace mare::policy
