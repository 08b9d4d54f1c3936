#include "hypervisor/dirtylog/undisturbed.h"

#include <algorithm>

#include "hypervisor/dirtylog/page_set.h"

namespace mare::dirtylog {
namespace {

/// A fault may take less than was measured: some time its work took, too.
constexpr double kMostOfProgress = 0.8;

}  // namespace

std::vector<DirtyPoint> without_faults(std::vector<DirtyPoint> points,
                                       std::chrono::nanoseconds first_write, double granted,
                                       std::size_t vcpus) {
  const double each_us = std::chrono::duration<double, std::micro>(first_write).count();
  const auto cpus = static_cast<double>(std::max<std::size_t>(1, vcpus));
  const auto whole = [](double us) { return Microseconds{static_cast<Microseconds::rep>(us)}; };
  DirtyPoint before;
  for (DirtyPoint& point : points) {
    const auto progress = static_cast<double>(point.progress.count());
    const auto wall = static_cast<double>(point.wall.count());
    const double pages = static_cast<double>(point.unique.count) / static_cast<double>(kPageBytes);
    const double faults = std::min(each_us * pages, kMostOfProgress * progress);
    const double spare = std::max(0.0, cpus * wall - progress / std::clamp(granted, 0.1, 1.0));
    point.progress = std::max(before.progress, whole(progress - faults));
    point.wall =
        std::max(before.wall + Microseconds{1}, whole(wall - std::max(0.0, faults - spare) / cpus));
    before = point;
  }
  return points;
}

}  // namespace mare::dirtylog
