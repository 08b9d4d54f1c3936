#include "tests/sim/said_verdict.h"

namespace mare::test {

policy::Verdict same_for_all(const policy::ForecastInput& input, const StrategyForecast& figures) {
  policy::Verdict out;
  for (const auto& offer : input.offers) {
    StrategyForecast one = figures;
    one.strategy = offer.strategy;
    one.offered = offer.offered;
    one.why_not = offer.why_not;
    out.strategies.push_back(one);
  }
  return out;
}

void choose(policy::Verdict& verdict, std::optional<Strategy> choice) {
  verdict.choice = choice;
  if (choice) verdict.sending.strategy = *choice;
  verdict.reason = choice ? "it is said so" : "Do not move: it is said so";
}

policy::Verdict SaidVerdict::judge(const policy::ForecastInput& input) const {
  StrategyForecast figures;
  figures.total_time_s = {2, 1, 3, 2};
  figures.sent_bytes = {2e8, 1e8, 3e8, 2e8};
  figures.added_job_time_s = {move_s, move_s, move_s, move_s};
  policy::Verdict out = same_for_all(input, figures);
  choose(out, movable ? std::optional(Strategy::PreCopy) : std::nullopt);
  return out;
}

}  // namespace mare::test
