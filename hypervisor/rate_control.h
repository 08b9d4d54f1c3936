// Pre-copy with rate control (Neves 2009, Eq. 4.1 and 4.2): slow while much is dirtied for nothing,
// faster from round to round, full speed for the last one. Pure; the backends set what it says.
#pragma once

#include "orchestrator/core/units.h"
#include "orchestrator/model/forecast.h"

namespace mare {

///   V_0 = V_min,  V_r = min(max(V_(r-1) + K * d_(r-1), V_min), V_max)
/// V_r: rate of round r; d_(r-1): dirty rate during the round before it (bytes/s).
class RateController {
 public:
  /// `switch_within`: what is left is sent at V_max when it fits into this time then.
  RateController(const Sending& sending, Milliseconds switch_within);

  BytesPerSecond rate() const { return rate_; }
  /// A round ended that took `duration`; `dirtied` is what it left for the next one. Returns that
  /// one's rate.
  BytesPerSecond next_round(Bytes dirtied, Microseconds duration);

 private:
  double gain_;
  Milliseconds switch_within_;
  BytesPerSecond min_;
  BytesPerSecond max_;
  BytesPerSecond rate_;
};

}  // namespace mare
