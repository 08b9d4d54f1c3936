#include "orchestrator/engine/silences.h"

#include <algorithm>

namespace mare::engine {

void Silences::note(Seconds silence) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kBoundsS.size(); ++i) {
    counts_.at_most[i] += silence.count() <= kBoundsS[i] ? 1 : 0;
  }
  ++counts_.all;
  counts_.sum += silence;
  counts_.longest = std::max(counts_.longest, silence);
}

Silences::Counts Silences::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace mare::engine
