#include "hypervisor/dirtylog/joined_cycles.h"

#include <utility>

namespace mare::dirtylog {

void JoinedCycles::begin() {
  *this = JoinedCycles(longest_);
}

void JoinedCycles::next_cycle() {
  first_ = false;
  if (wall_before_ > longest_) return;
  before_.add(std::exchange(now_, {}));
  wall_before_ += std::exchange(wall_, Microseconds{0});
  progress_before_ += std::exchange(progress_, Microseconds{0});
}

void JoinedCycles::look(const PageSet& written, Microseconds wall, Microseconds progress) {
  if (wall_before_ > longest_ || written.empty()) return;
  now_ = written;
  wall_ = wall;
  progress_ = progress;
  if (first_) return;
  DirtyPoint point;
  point.wall = wall_before_ + wall;
  if (point.wall > longest_ || (!points_.empty() && point.wall <= points_.back().wall)) return;
  point.progress = progress_before_ + progress;
  PageSet all = before_;
  all.add(written);
  point.unique = Bytes{all.count() * kPageBytes};
  points_.push_back(point);
}

}  // namespace mare::dirtylog
