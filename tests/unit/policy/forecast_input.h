// What forecasts are made from in these tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "orchestrator/policy/forecast.h"
#include "tests/unit/policy/quantities.h"

namespace mare::policy {

/// A VM of 200 MB, of which 50 are zero, that rewrites `wws` at `rate`.
inline MemoryProfile steady_profile(double rate, double wws) {
  MemoryProfile out;
  out.source = "sim";
  out.total = Bytes{200'000'000};
  out.zero = Bytes{50'000'000};
  out.compressed_fraction = 0.5;
  for (int i = 0; i < 4; ++i) {
    DirtyCycle cycle;
    for (const double at : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 64.0}) {
      const double bytes = std::min(wws, rate * at) * (1 + 0.01 * i);
      cycle.points.push_back({micro(at), micro(at), Bytes{static_cast<std::uint64_t>(bytes)}});
    }
    out.cycles.push_back(cycle);
  }
  return out;
}

inline ForecastInput input(double rate, double wws) {
  ForecastInput out;
  out.source = HostId{"h1"};
  out.destination = HostId{"h2"};
  out.profile = steady_profile(rate, wws);
  out.link.goodput = BytesPerSecond{11.77e6};
  out.link.round_trip = Microseconds{400};
  for (int i = 0; i < kStrategies; ++i) out.offers.push_back({static_cast<Strategy>(i), true, ""});
  out.job = JobCoupling{"hpl", 4, 1};
  return out;
}

inline void offer_only(ForecastInput& in, const std::vector<Strategy>& strategies) {
  for (auto& offer : in.offers) {
    offer.offered =
        std::find(strategies.begin(), strategies.end(), offer.strategy) != strategies.end();
    offer.why_not = offer.offered ? "" : "the host is too old";
  }
}

inline const StrategyForecast& of(const Verdict& verdict, Strategy strategy) {
  for (const auto& one : verdict.strategies) {
    if (one.strategy == strategy) return one;
  }
  ADD_FAILURE() << "no such strategy";
  return verdict.strategies.front();
}

}  // namespace mare::policy
