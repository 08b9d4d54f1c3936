// How long hosts leave mared without an answer: how near they come to being called silent.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "orchestrator/core/units.h"

namespace mare::engine {

/// Times from one answer of a host to its next, since the start of mared. Any thread.
class Silences {
 public:
  static constexpr std::array<double, 12> kBoundsS{0.3, 0.5,  0.55, 0.6, 0.7, 0.85,
                                                   1.0, 1.25, 1.5,  2.0, 3.0, 10.0};
  struct Counts {
    std::array<std::uint64_t, kBoundsS.size()> at_most{};  // of kBoundsS, each with all before it
    std::uint64_t all = 0;
    Seconds sum{0};
    Seconds longest{0};
  };

  void note(Seconds silence);
  Counts counts() const;

 private:
  mutable std::mutex mutex_;
  Counts counts_;
};

}  // namespace mare::engine
