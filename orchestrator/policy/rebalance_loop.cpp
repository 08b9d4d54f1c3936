#include "orchestrator/policy/rebalance_loop.h"

#include "orchestrator/policy/plan_words.h"

namespace mare::policy {
namespace {

std::string rules(int broken) {
  return std::to_string(broken) + (broken == 1 ? " hard rule is broken" : " hard rules are broken");
}

std::string span(Seconds time) {
  return figure(time.count(), 0) + " s";
}

}  // namespace

RebalanceDue rebalance_due(const RebalanceSetting& setting, std::optional<WallTime> above_since,
                           std::optional<WallTime> ended, const RebalanceLook& look) {
  const bool by_rule_only = setting.mode == RebalanceMode::Partial;
  const bool above = !by_rule_only && look.score >= setting.threshold;
  if (look.broken == 0 && !above) {
    if (by_rule_only) return {false, {}, "no hard rule is broken"};
    return {false, {}, "the score is below the threshold " + figure(setting.threshold, 4)};
  }
  RebalanceDue out;
  out.above_since = above_since.value_or(look.now);
  out.reason = look.broken > 0
                   ? rules(look.broken)
                   : "the score is not below the threshold " + figure(setting.threshold, 4);
  if (look.now - *out.above_since < setting.hold) {
    out.reason += ", not yet for " + span(setting.hold);
    return out;
  }
  const bool proposes = setting.mode == RebalanceMode::Manual;
  if (!proposes && ended && look.now - *ended < setting.cooldown) {
    out.reason += "; the cooldown of " + span(setting.cooldown) + " after the last round goes on";
    return out;
  }
  out.plan = true;
  return out;
}

}  // namespace mare::policy
