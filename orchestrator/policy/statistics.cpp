#include "orchestrator/policy/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mare::policy {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = std::clamp(q, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

double robust_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = median(values);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::abs(value - middle));
  // Of a normal distribution 8 of 10 lie within 1.2816 deviations.
  const double by_half = median(deviations) / kHalfWithin;
  const double by_most = quantile(deviations, 0.8) / 1.2816;
  return std::max(by_half, by_most);
}

}  // namespace mare::policy
