// A migration page by page, with bitmaps, for the replay to be checked against: written from QEMU's
// rules, sharing nothing with orchestrator/policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "orchestrator/core/rng.h"
#include "orchestrator/model/forecast.h"

namespace mare::policy::test {

inline constexpr double kPage = 4096;

/// A guest that writes pages; what it writes depends on its progress alone.
struct Workload {
  enum class Kind { Random, Sweep, HotAndCold, Everywhere };
  Kind kind = Kind::Random;
  std::size_t pages = 4096;
  std::size_t zero_pages = 0;  // in runs, anywhere
  std::size_t wws_pages = 512;
  double writes_per_s = 1000;  // of progress
  double share = 1;            // progress a second of wall time
  std::uint64_t seed = 1;
};

struct Move {
  double link_pages_per_s = 2000;  // normal pages with their headers
  double downtime_limit_s = 0.3;
  bool throttled = false;
  double throttle_initial = 0.2;
  double throttle_step = 0.1;
};

struct Truth {
  bool converged = true;
  int rounds = 0;
  double total_time_s = 0;
  double sent_bytes = 0;
  double downtime_s = 0;
};

/// Writes at random, along a sweep, ...; `write` gets the page's index.
class Guest {
 public:
  Guest(const Workload& workload, std::uint64_t seed);
  template <typename Write>
  void run(double progress_s, Write write) {
    owed_ += progress_s * workload_.writes_per_s;
    for (; owed_ >= 1; owed_ -= 1) write(next());
  }

 private:
  std::size_t next();
  const Workload& workload_;
  SeededRng rng_;
  double owed_ = 0;
  std::size_t position_ = 0;
};

/// The move, until `most_s` at most.
Truth simulate(const Workload& workload, const Move& move, double most_s);
/// What a watcher sees of the same workload on other days.
MemoryProfile watch(const Workload& workload, int cycles, double cycle_s);
/// Any of a wide range, also such as never converge.
Workload any_workload(SeededRng& rng);
Move any_move(SeededRng& rng, const Workload& workload);

}  // namespace mare::policy::test
