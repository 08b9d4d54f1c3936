// What holds of every replay, whatever the guest and the link.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "orchestrator/core/rng.h"
#include "orchestrator/policy/replay.h"
#include "tests/unit/policy/replay_input.h"

namespace mare::policy {
namespace {

struct Case {
  double total, zero, rate, wws, link;
};

Case any_case(std::uint64_t seed) {
  SeededRng rng(seed);
  const double total = (16 + 500 * rng.unit()) * kMega;
  return {total, 0.7 * total * rng.unit(), 40 * kMega * rng.unit(), 0.6 * total * rng.unit(),
          (5 + 115 * rng.unit()) * kMega};
}

ReplayInput of(const Case& c, const DirtyCurve& curve, Strategy strategy) {
  ReplayInput out = input(curve, strategy);
  out.total_bytes = c.total;
  out.zero_bytes = c.zero;
  out.link_rate = c.link;
  out.sending.rate_min = BytesPerSecond{c.link / 2};
  out.sending.rate_max = BytesPerSecond{c.link};
  return out;
}

RC_GTEST_PROP(Replay, NeverBelowTheWireLimit, (std::uint64_t seed)) {
  const Case c = any_case(seed);
  const DirtyCurve curve = writer(c.rate, c.wws, c.total);
  for (int i = 0; i < kStrategies; ++i) {
    const auto strategy = static_cast<Strategy>(i);
    const Replay out = replay(of(c, curve, strategy));
    const double wire = (c.total - c.zero) / c.link;
    RC_ASSERT(out.total_time_s >= wire);
    RC_ASSERT(out.sent_bytes >= c.total - c.zero);
    RC_ASSERT(out.total_time_s >= out.sent_bytes / c.link / (1 + 1e-9));
    RC_ASSERT(out.downtime_s > 0);
    RC_ASSERT(out.downtime_s <= out.total_time_s);
    RC_ASSERT(!out.rounds.empty());
  }
}

/// Its end; or, of rounds that leave now a little more, now a little less, and of which any may be
/// the last by chance, when the first of these began.
double settled_s(const Replay& replay) {
  for (std::size_t i = 1; i < replay.rounds.size(); ++i) {
    if (replay.rounds[i].left_bytes > replay.rounds[i - 1].left_bytes)
      return replay.rounds[i].began_s;
  }
  return replay.total_time_s;
}

// A round more makes the total longer and the downtime shorter: the total is monotone only up to
// the downtime limit's worth of it.
RC_GTEST_PROP(Replay, GrowsWithMemoryAndWwsAndFallsWithTheRate, (std::uint64_t seed)) {
  const Case c = any_case(seed);
  const double slack = 0.3 + 0.1;
  for (const Strategy strategy : {Strategy::PreCopy, Strategy::StopAndCopy, Strategy::PostCopy,
                                  Strategy::CheckpointRestart}) {
    const auto run = [&](const Case& x) {
      const DirtyCurve curve = writer(x.rate, x.wws, x.total);
      return replay(of(x, curve, strategy));
    };
    const Replay out = run(c);
    Case larger = c;
    larger.total *= 1.3;
    Case busier = c;
    busier.wws *= 1.3;
    busier.rate *= 1.3;  // as many rewrites a second of a larger set
    Case faster = c;
    faster.link *= 1.3;
    if (!out.converges) continue;
    for (const auto& [more, name] : {std::pair{run(larger), "memory"}, {run(busier), "wws"}}) {
      if (more.converges) RC_ASSERT(more.total_time_s >= settled_s(out) - slack);
    }
    const Replay quick = run(faster);
    RC_ASSERT(quick.converges);
    RC_ASSERT(settled_s(quick) <= out.total_time_s + slack);
  }
}

}  // namespace
}  // namespace mare::policy
