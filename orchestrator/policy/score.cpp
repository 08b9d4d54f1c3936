#include "orchestrator/policy/score.h"

#include <algorithm>
#include <cmath>

#include "orchestrator/policy/overrun.h"
#include "orchestrator/policy/statistics.h"

namespace mare::policy {

QuantityScore score(const std::vector<PastMove>& moves, Quantity quantity) {
  std::vector<double> errors;
  std::vector<double> off;
  std::vector<double> signs;
  QuantityScore out;
  int held = 0;
  for (const auto& move : moves) {
    const auto actual = outcome_of(move, quantity);
    if (!actual || !move.forecast.converges) continue;
    const Estimate& said = estimate_of(move.forecast, quantity);
    ++out.moves;
    off.push_back(std::abs(said.value - *actual));
    if (said.low <= *actual && *actual <= said.high) ++held;
    if (!(*actual > 0)) continue;  // no share of nothing
    errors.push_back(off.back() / *actual);
    signs.push_back((said.value - *actual) / *actual);
  }
  if (out.moves == 0) return out;
  out.median_error = median(errors);
  out.p95_error = quantile(errors, 0.95);
  out.median_off = median(off);
  out.p95_off = quantile(off, 0.95);
  out.bias = median(signs);
  out.coverage = static_cast<double>(held) / out.moves;
  return out;
}

Score score(const std::vector<PastMove>& moves) {
  Score out;
  out.moves = static_cast<int>(std::count_if(
      moves.begin(), moves.end(), [](const PastMove& move) { return move.forecast.converges; }));
  out.total_time = score(moves, Quantity::TotalTime);
  out.sent_bytes = score(moves, Quantity::SentBytes);
  out.downtime = score(moves, Quantity::Downtime);
  out.added_job_time = score(moves, Quantity::AddedJobTime);
  double held = 0;
  int measured = 0;
  for (const auto* one : {&out.total_time, &out.sent_bytes, &out.downtime, &out.added_job_time}) {
    held += one->coverage * one->moves;
    measured += one->moves;
  }
  if (measured > 0) out.coverage = held / measured;
  return out;
}

std::optional<VerdictScore> score_verdict(const StrategyForecast& said,
                                          std::optional<Seconds> ended,
                                          std::optional<Seconds> limit) {
  if (!must_converge(said.strategy) || (!ended && !limit)) return std::nullopt;
  const Estimate& time_s = said.total_time_s;
  const bool straddles =
      limit && said.converges && time_s.low <= limit->count() && limit->count() <= time_s.high;
  if (said.end_unsure || straddles) return VerdictScore::Open;
  const bool was_to_end = said.converges && (!limit || time_s.value < limit->count());
  const bool did_end = ended && (!limit || *ended <= *limit);
  return was_to_end == did_end ? VerdictScore::Right : VerdictScore::Wrong;
}

VerdictCounts count_verdicts(const std::vector<ScoredVerdict>& verdicts,
                             std::optional<Strategy> strategy) {
  VerdictCounts out;
  for (const auto& one : verdicts) {
    if (strategy && one.strategy != *strategy) continue;
    if (one.score == VerdictScore::Right) ++out.right;
    if (one.score == VerdictScore::Wrong) ++out.wrong;
    if (one.score == VerdictScore::Open) ++out.open;
  }
  return out;
}

}  // namespace mare::policy
