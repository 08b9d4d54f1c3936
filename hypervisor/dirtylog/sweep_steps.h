// Places on a circle, and whether a guest goes round it step by step: what is written at the end of
// what it sweeps and at its beginning is near each other. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

namespace mare::dirtylog {

/// The centre of pages among all that are swept.
struct Centre {
  double place = 0;  // in the order of addresses; 0 to 1
  double unity = 0;  // 1: all in one place; less where part of them is elsewhere
};

/// From one place to another, the shorter way: -0.5 to 0.5.
inline double step_between(double from, double to) {
  return (to - from) - std::round(to - from);
}

/// How the centres of chunks that were written one after the other move.
class SweepSteps {
 public:
  /// `share`: of all, the mean of the two chunks', which is how far it is from one centre to the
  /// next. A longer step than kLongest may be one back as well, and does not count. False:
  /// that, or one of them is in no place.
  bool add(const std::optional<Centre>& from, const std::optional<Centre>& to, double share) {
    if (share > kLongest) return false;
    ++count_;
    if (!from || !to || std::min(from->unity, to->unity) < kLeastUnity) return false;
    const double step = step_between(from->place, to->place);
    if (std::abs(step - share) <= kTolerance * share) ++up_;
    if (std::abs(step + share) <= kTolerance * share) ++down_;
    return true;
  }
  int count() const { return count_; }
  bool descending() const { return down_ > up_; }
  /// So many at least, and nearly all of them one way.
  bool agree(int fewest) const {
    return count_ >= fewest && std::max(up_, down_) >= kAgree * count_;
  }

 private:
  static constexpr double kLongest = 0.4;
  /// A chunk of a third of all is so far from being in one place.
  static constexpr double kLeastUnity = 0.7;
  /// Of the step: half a block of the guest's kernel up or down, and pages of others.
  static constexpr double kTolerance = 0.6;
  static constexpr double kAgree = 0.75;
  int count_ = 0;
  int up_ = 0;
  int down_ = 0;
};

}  // namespace mare::dirtylog
