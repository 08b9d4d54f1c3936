#include "tests/sim/said_verdict.h"

namespace mare::test {

policy::Verdict SaidVerdict::judge(const policy::ForecastInput& input) const {
  policy::Verdict out;
  for (const auto& offer : input.offers) {
    StrategyForecast one;
    one.strategy = offer.strategy;
    one.offered = offer.offered;
    one.why_not = offer.why_not;
    one.total_time_s = {2, 1, 3, 2};
    one.sent_bytes = {2e8, 1e8, 3e8, 2e8};
    one.added_job_time_s = {move_s, move_s, move_s, move_s};
    out.strategies.push_back(one);
  }
  if (movable) out.choice = Strategy::PreCopy;
  out.reason = movable ? "it is said so" : "Do not move: it is said so";
  return out;
}

}  // namespace mare::test
