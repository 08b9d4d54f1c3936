#include "orchestrator/policy/checkpoint_interval.h"

#include <algorithm>
#include <cmath>

namespace mare::policy {
namespace {

// Before the first checkpoint its cost is not known: this is what one of small VMs takes.
constexpr Seconds kFirstCost{0.1};
// Even a job that seems to fail all the time gets some work done between two.
constexpr Seconds kShortest{1};
// Beyond any job; and it fits when added to a time.
constexpr Seconds kLongestInterval{30.0 * 86400};

}  // namespace

Seconds young_interval(Seconds cost, Seconds mtbf) {
  return Seconds{std::sqrt(2 * cost.count() * mtbf.count())};
}

Seconds daly_interval(Seconds cost, Seconds mtbf) {
  if (cost >= 2 * mtbf) return mtbf;
  const double share = cost.count() / (2 * mtbf.count());
  return young_interval(cost, mtbf) * (1 + std::sqrt(share) / 3 + share / 9) - cost;
}

double slowdown(Seconds interval, Seconds cost, Seconds mtbf, Seconds restart) {
  const double m = mtbf.count();
  return m / interval.count() * std::exp(restart.count() / m) *
         std::expm1((interval + cost).count() / m);
}

Seconds host_mtbf(int failures, Seconds observed, Seconds believed) {
  return (believed + std::max(observed, Seconds{0})) / (1 + std::max(failures, 0));
}

std::optional<WallTime> next_checkpoint(const CheckpointClock& clock) {
  Seconds period{0};
  switch (clock.plan.rule) {
    case CheckpointRule::Never:
      return std::nullopt;
    case CheckpointRule::Every:
      period = clock.plan.every;
      break;
    case CheckpointRule::Optimal: {
      const Seconds cost = clock.cost > Seconds{0} ? clock.cost : kFirstCost;
      // Any of its hosts ends it: rates add.
      const Seconds mtbf = clock.mtbf / std::max(clock.hosts, 1);
      // Daly counts the work between two; while one is being written the job works.
      period = daly_interval(cost, mtbf) + cost;
      break;
    }
  }
  period = std::clamp(std::max(period, clock.duration), kShortest, kLongestInterval);
  return clock.since + std::chrono::duration_cast<WallTime>(period);
}

}  // namespace mare::policy
