// Whether a guest sweeps, and how quickly, by the content of some of the pages that it is known to
// write: within a second and at no cost for it, where to arm its log anew would be felt, and where
// faults would make it look slower than it is. Not thread-safe; without clocks of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hypervisor/dirtylog/page_samples.h"
#include "hypervisor/dirtylog/page_set.h"
#include "hypervisor/dirtylog/sweep_finder.h"
#include "orchestrator/core/clock.h"

namespace mare::dirtylog {

class SweepByContent {
 public:
  /// `written`: all that it writes, and perhaps more; of less than kLeastSwept nothing is found.
  explicit SweepByContent(PageSet written);

  /// Which of them to look at; none if nothing can be found.
  const std::vector<std::size_t>& samples() const { return samples_; }
  /// What they hold `at` that time. Looks are to be so near each other that it does not come half
  /// round between two.
  void look(std::vector<std::uint64_t> sums, MonotonicTime at);
  /// Pages that hold something else than at the first look, as the samples tell.
  std::size_t changed() const;
  /// None: it goes all over, or on and off, or too few steps were seen to tell.
  std::optional<SweepSpeed> found() const;

 private:
  struct Chunk {
    Change change;
    double took_s = 0;
  };

  std::size_t pages_;
  std::vector<std::size_t> samples_;
  std::size_t fewest_;  // that changed make a chunk
  std::vector<std::uint64_t> first_;
  std::size_t changed_ = 0;  // samples
  std::vector<std::uint64_t> sums_;
  MonotonicTime at_{0};  // of the end of the last chunk
  MonotonicTime last_look_{0};
  std::vector<Chunk> chunks_;
};

}  // namespace mare::dirtylog
