#include "orchestrator/policy/forecast.h"

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "orchestrator/policy/choice.h"
#include "orchestrator/policy/strategy_estimate.h"

namespace mare::policy {
namespace {

constexpr double kSameSpeed = 0.1;

/// How what runs on the VM goes on afterwards, which no figure of the move tells.
std::string pace_after(const ForecastInput& input) {
  if (input.destination_speed == 1) return "";
  char times[32];
  std::snprintf(times, sizeof times, "%.2f", input.destination_speed);
  return "; '" + input.destination.value + "' computes " + times + " times as fast as '" +
         input.source.value + "'";
}

}  // namespace

double relative_speed(double source, double destination) {
  if (!(source > 0) || !(destination > 0)) return 1;
  const double ratio = destination / source;
  return std::abs(ratio - 1) < kSameSpeed ? 1 : ratio;
}

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
  out.reason = choice.reason + (choice.index ? pace_after(input) : "");
  if (choice.index) {
    out.choice = estimates[*choice.index].forecast.strategy;
    out.sending = estimates[*choice.index].sending;
  }
  for (auto& one : estimates) out.strategies.push_back(std::move(one.forecast));
  return out;
}

}  // namespace mare::policy
