#include "orchestrator/policy/forecast.h"

#include <utility>

#include "orchestrator/policy/choice.h"
#include "orchestrator/policy/strategy_estimate.h"

namespace mare::policy {

Verdict forecast(const ForecastInput& input) {
  const Situation situation(input);
  std::vector<StrategyEstimate> estimates;
  estimates.reserve(input.offers.size());
  for (const auto& offer : input.offers) {
    StrategyEstimate one = estimate(situation, offer.strategy);
    one.forecast.offered = offer.offered;
    one.forecast.why_not = offer.offered ? ruled_out(situation, one) : offer.why_not;
    if (!offer.offered && one.forecast.why_not.empty()) {
      one.forecast.why_not = "a host does not offer it";
    }
    estimates.push_back(std::move(one));
  }
  const Choice choice = choose(situation, estimates);
  Verdict out;
  out.reason = choice.reason;
  if (choice.index) {
    out.choice = estimates[*choice.index].forecast.strategy;
    out.sending = estimates[*choice.index].sending;
  }
  for (auto& one : estimates) out.strategies.push_back(std::move(one.forecast));
  return out;
}

}  // namespace mare::policy
