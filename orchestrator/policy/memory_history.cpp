#include "orchestrator/policy/memory_history.h"

#include "orchestrator/policy/dirty_curve.h"

namespace mare::policy {

std::vector<MemoryMoment> memory_history(const MemoryProfile& profile) {
  std::vector<MemoryMoment> out;
  for (const auto& cycle : profile.cycles) {
    if (cycle.points.empty()) continue;
    const Seconds seen_for = cycle.points.back().wall;
    if (seen_for < kShortestSeen) continue;
    MemoryProfile alone;
    alone.total = profile.total;
    alone.zero = profile.zero;
    alone.cycles = {cycle};
    const DirtyCurve curve = DirtyCurve::from(alone);
    out.push_back(
        {cycle.began, seen_for, curve.wws_bytes(), curve.flattens(), curve.dirty_rate(1)});
  }
  return out;
}

}  // namespace mare::policy
