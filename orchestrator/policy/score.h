// How good the forecasts were: for /metrics, for REST and for the benches.
#pragma once

#include <optional>
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

/// Was the verdict right, by which a sending was to end by itself, or not to? `ended`: the total
/// time in which it did, none if it was stopped before its end; `limit`: a limit that was set to
/// its time, or, of one that was stopped, after what time that was. With a limit the question is
/// whether it ends within that: one that a limit forced to its end took longer. Open where the
/// forecast left it open: by end_unsure, or by an interval with the limit in it. None where there
/// is no verdict: the strategy need not converge, or neither `ended` nor `limit` is known.
std::optional<VerdictScore> score_verdict(const StrategyForecast& said,
                                          std::optional<Seconds> ended,
                                          std::optional<Seconds> limit);

struct VerdictCounts {
  int right = 0;
  int wrong = 0;
  int open = 0;
};
/// Of one strategy, if one is named.
VerdictCounts count_verdicts(const std::vector<ScoredVerdict>& verdicts,
                             std::optional<Strategy> strategy = {});

}  // namespace mare::policy
