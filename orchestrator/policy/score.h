// How good the forecasts were: for /metrics, for REST and for the benches.
#pragma once

#include <vector>

#include "orchestrator/policy/correction.h"
#include "orchestrator/policy/forecast.h"

namespace mare::policy {

struct QuantityScore {
  int moves = 0;            // with this quantity measured
  double median_error = 0;  // |forecast - actual| / actual
  double p95_error = 0;
  double median_off = 0;  // |forecast - actual|, s or bytes
  double p95_off = 0;
  double bias = 0;      // median of (forecast - actual) / actual
  double coverage = 0;  // share of moves whose interval held the outcome
};

struct Score {
  int moves = 0;
  QuantityScore total_time;
  QuantityScore sent_bytes;
  QuantityScore downtime;
  QuantityScore added_job_time;
  double coverage = 0;  // over all quantities that were measured
};

/// Only moves whose forecast said that they would end by themselves count: the figures of others
/// are of a forced end.
Score score(const std::vector<PastMove>& moves);
QuantityScore score(const std::vector<PastMove>& moves, Quantity quantity);

}  // namespace mare::policy
