// Guests and moves for the replay's tests.
#pragma once

#include "orchestrator/policy/replay.h"
#include "tests/unit/policy/quantities.h"

namespace mare::policy {

inline constexpr double kPageWire = 1 + 8.0 / 4096;

/// A guest that rewrites `wws` at `rate`, running all the time.
inline DirtyCurve writer(double rate, double wws, double total, double share = 1) {
  if (rate <= 0 || wws <= 0) return DirtyCurve({{0, 0}, {100, 0}}, 1, total);
  const double full = wws / rate;
  return DirtyCurve({{0, 0}, {full, wws}, {2 * full, wws}, {200 * full, wws}}, share, total);
}

inline ReplayInput input(const DirtyCurve& curve, Strategy strategy = Strategy::PreCopy) {
  ReplayInput out;
  out.curve = &curve;
  out.total_bytes = 200 * kMega;
  out.link_rate = 10 * kMega;
  out.round_trip_s = 0.0005;
  out.sending.strategy = strategy;
  return out;
}

/// A compressed move of memory of which `fraction` is left, bytes/s of link.
inline ReplayInput compressed(const DirtyCurve& curve, double fraction, double link_rate) {
  ReplayInput out = input(curve, Strategy::Compressed);
  out.compressed_fraction = fraction;
  out.link_rate = link_rate;
  return out;
}

}  // namespace mare::policy
