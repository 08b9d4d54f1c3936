#include "orchestrator/policy/pause.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace mare::policy {
namespace {

/// Between the last look of a cycle and the beginning of the next one nothing is seen. That is
/// known to some milliseconds, as arming takes its time.
constexpr Microseconds kUnseen{100'000};
constexpr Microseconds kLooksOverlap{20'000};

bool goes_on(const DirtyCycle& one, const DirtyCycle& next) {
  if (one.points.empty()) return false;
  const auto gap = next.began - one.began - one.points.back().wall;
  return gap <= kUnseen && gap >= -kLooksOverlap;
}

/// The first of the cycles that follow on one another up to the newest.
std::size_t begin_of_chain(const std::vector<DirtyCycle>& cycles) {
  if (cycles.empty()) return 0;
  std::size_t first = cycles.size() - 1;
  while (first > 0 && goes_on(cycles[first - 1], cycles[first])) --first;
  return first;
}

}  // namespace

double longest_pause_s(const std::vector<DirtyCycle>& cycles, double bytes) {
  // From the beginning of a cycle on: what it wrote once in a cycle it may write again unseen.
  Microseconds longest{0};
  for (std::size_t first = begin_of_chain(cycles); first < cycles.size(); ++first) {
    double written = 0;  // by the cycles before this one
    bool pauses = true;
    for (std::size_t i = first; i < cycles.size() && pauses; ++i) {
      double here = 0;
      for (const DirtyPoint& point : cycles[i].points) {
        here = static_cast<double>(point.unique.count);
        pauses = written + here <= bytes;
        if (!pauses) break;
        longest = std::max(longest, cycles[i].began + point.wall - cycles[first].began);
      }
      written += here;
    }
  }
  return std::chrono::duration<double>(longest).count();
}

}  // namespace mare::policy
