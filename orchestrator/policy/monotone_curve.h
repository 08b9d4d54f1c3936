// A curve through points that never falls: monotone cubic interpolation (Fritsch and Carlson, SIAM
// J. Numer. Anal. 17, 1980). D(t) bends between two looks at the log, and straight lines would cut
// the corner: 5% too low midway between 2 and 5 s for a random writer.
#pragma once

#include <vector>

namespace mare::policy {

class MonotoneCurve {
 public:
  struct Knot {
    double x = 0;
    double y = 0;
  };
  MonotoneCurve() = default;
  /// Sorts by x, keeps the highest of equal ones, and raises what would fall.
  explicit MonotoneCurve(std::vector<Knot> knots);

  const std::vector<Knot>& knots() const { return knots_; }
  bool empty() const { return knots_.empty(); }
  /// Before the first knot its y; after the last one along the last segment's slope.
  double at(double x) const;
  double last_slope() const;

 private:
  std::vector<Knot> knots_;
  std::vector<double> tangents_;
};

}  // namespace mare::policy
