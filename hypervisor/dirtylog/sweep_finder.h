// Whether a guest goes through the same memory again and again, in the order of its addresses or
// against it, by what each look at the dirty-page log finds new.
//
// Kernels hand out memory in blocks of 4 MiB, of which each is written upwards and the next one may
// lie below it. So what a look of a moment finds tells nothing: looks are put together until they
// hold several blocks, and it is told by how the centres of such chunks move. Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "hypervisor/dirtylog/page_set.h"
#include "hypervisor/dirtylog/sweep_steps.h"
#include "orchestrator/model/forecast.h"

namespace mare::dirtylog {

/// Chunks hold two blocks of the guest's kernel; a sweep of fewer than eight of them is sent in a
/// moment, too.
inline constexpr std::size_t kChunkPages = 2048;
inline constexpr std::size_t kLeastSwept = 8 * kChunkPages;

/// How a guest sweeps, by whatever tells it.
struct SweepSpeed {
  bool descending = false;
  double pages_per_s = 0;
};

/// Nothing if `pages` has none of `all`. Pure.
std::optional<Centre> centre_of(const PageSet& pages, const PageSet& all);

class SweepFinder {
 public:
  /// The log was armed anew: what it finds from now on does not go on from what it found.
  void begin_cycle(const PageSet& known);
  /// `written` since then, and `wall` time since then; of pages that were `known` then it is told
  /// whether the guest comes to them again.
  void look(const PageSet& written, Microseconds wall);
  struct Found {
    Sweep sweep;    // a period of 0: no such guest, or nobody knows yet
    PageSet pages;  // that it goes through; without a sweep, `written`
  };
  /// `written`: all pages that were written lately. What it goes through is what a cycle saw in
  /// which it came round, where there is one: among all pages are those of a boot or a set-up, too.
  Found found(const PageSet& written) const;
  /// Pure: one that goes through all of these at that speed.
  static Found over(const PageSet& pages, const SweepSpeed& speed);
  /// Pure: whether it has come to where it was at first, after so long; to less than kLeastSwept
  /// nobody comes.
  static bool has_come_round(Microseconds length, const Sweep& sweep);
  /// The same where it is known by other means that it sweeps.
  Found found(const PageSet& written, const SweepSpeed& speed) const;

 private:
  struct Seen {
    PageSet pages;
    Microseconds length{0};
  };
  struct Chunk {
    PageSet pages;
    std::size_t count = 0;
    Microseconds length{0};
    bool follows = false;  // the one before it, without a gap
    bool again = false;    // most of it had been written before this cycle
  };
  Sweep judged(const PageSet& swept) const;

  Chunk making_;
  std::deque<Seen> cycles_{1};  // by their last looks, newest first; without the shortest
  PageSet known_;
  std::deque<Chunk> chunks_;
};

}  // namespace mare::dirtylog
