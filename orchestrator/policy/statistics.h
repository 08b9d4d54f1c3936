// Order statistics that single outliers don't move.
#pragma once

#include <vector>

namespace mare::policy {

/// q in [0, 1], linear between samples; 0 of nothing.
double quantile(std::vector<double> values, double q);
double median(const std::vector<double>& values);
/// Standard deviation if it were normal, from the larger of the median deviation and the width that
/// holds 8 of 10; 0 for fewer than two values.
double robust_deviation(const std::vector<double>& values);

/// Half the width of a 95% interval, in standard deviations.
inline constexpr double kTwoSided95 = 1.96;
/// Half of a normal distribution lies within so many standard deviations.
inline constexpr double kHalfWithin = 0.6745;

}  // namespace mare::policy
