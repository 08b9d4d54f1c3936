#include "hypervisor/libvirt/rounds.h"

#include <algorithm>

namespace mare::libvirt {

void RoundKeeper::add(const Sample& sample) {
  // A sample that was read before the last one but arrived after it tells nothing new.
  if (closed_ || sample.iteration == 0 || sample.iteration < iteration_) return;
  if (sample.iteration != iteration_) {
    const bool first = rounds_.empty();
    if (!first) {
      Round& last = rounds_.back();
      last.duration = sample.elapsed - last.started;
      last.sent = sample.transferred - began_with_;
    }
    iteration_ = sample.iteration;
    began_with_ = first ? Bytes{0} : sample.transferred;
    Round next;
    next.index = static_cast<int>(sample.iteration) - 1;
    next.started = first ? Microseconds{0} : sample.elapsed;
    rounds_.push_back(next);
  }
  Round& now = rounds_.back();
  now.duration = sample.elapsed - now.started;
  now.sent = sample.transferred - began_with_;
  now.remaining = sample.remaining;
  if (sample.dirty_bytes_per_s > 0) now.dirty_bytes_per_s = sample.dirty_bytes_per_s;
}

void RoundKeeper::close(Bytes transferred, Microseconds elapsed) {
  if (closed_) return;
  closed_ = true;
  if (rounds_.empty()) return;
  Round& last = rounds_.back();
  last.duration = std::max(last.duration, elapsed - last.started);
  last.sent = std::max(last.sent, transferred - began_with_);
}

}  // namespace mare::libvirt
