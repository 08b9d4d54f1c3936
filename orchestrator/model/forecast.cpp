#include "orchestrator/model/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "orchestrator/model/names.h"

namespace mare {
namespace {

constexpr std::array kStrategyNames{
    Name<Strategy>{Strategy::PreCopy, "pre-copy"},
    Name<Strategy>{Strategy::RateControlled, "rate-controlled"},
    Name<Strategy>{Strategy::Throttled, "throttled"},
    Name<Strategy>{Strategy::Compressed, "compressed"},
    Name<Strategy>{Strategy::PostCopy, "post-copy"},
    Name<Strategy>{Strategy::Hybrid, "hybrid"},
    Name<Strategy>{Strategy::StopAndCopy, "stop-and-copy"},
    Name<Strategy>{Strategy::CheckpointRestart, "checkpoint-restart"},
};
constexpr std::array kPriorityNames{
    Name<Priority>{Priority::LeastStall, "least-stall"},
    Name<Priority>{Priority::LeastTraffic, "least-traffic"},
    Name<Priority>{Priority::ByDeadline, "by-deadline"},
    Name<Priority>{Priority::Manual, "manual"},
};
constexpr std::array kLimitActionNames{
    Name<LimitAction>{LimitAction::Cancel, "cancel"},
    Name<LimitAction>{LimitAction::StopAndCopy, "stop-and-copy"},
    Name<LimitAction>{LimitAction::PostCopy, "post-copy"},
};
constexpr std::array kMomentNames{
    Name<Moment>{Moment::Now, "now"},
    Name<Moment>{Moment::Trough, "trough"},
    Name<Moment>{Moment::SafePoint, "safe-point"},
};
constexpr std::array kVerdictScoreNames{
    Name<VerdictScore>{VerdictScore::Right, "right"},
    Name<VerdictScore>{VerdictScore::Wrong, "wrong"},
    Name<VerdictScore>{VerdictScore::Open, "open"},
};
static_assert(kStrategyNames.size() == kStrategies);
static_assert(kVerdictScoreNames.size() == kVerdictScores);

}  // namespace

std::string_view to_string(Strategy strategy) {
  return name_of(kStrategyNames, strategy);
}
std::optional<Strategy> strategy_from(std::string_view text) {
  return value_of(kStrategyNames, text);
}
std::string strategy_names() {
  std::string out;
  for (int i = 0; i < kStrategies; ++i) {
    out += (i == 0 ? "" : ", ") + std::string(to_string(static_cast<Strategy>(i)));
  }
  return out;
}
std::string_view to_string(Priority priority) {
  return name_of(kPriorityNames, priority);
}
std::optional<Priority> priority_from(std::string_view text) {
  return value_of(kPriorityNames, text);
}
std::string_view to_string(LimitAction action) {
  return name_of(kLimitActionNames, action);
}
std::optional<LimitAction> limit_action_from(std::string_view text) {
  return value_of(kLimitActionNames, text);
}

std::string_view to_string(VerdictScore score) {
  return name_of(kVerdictScoreNames, score);
}
std::optional<VerdictScore> verdict_score_from(std::string_view text) {
  return value_of(kVerdictScoreNames, text);
}

std::string_view to_string(Moment moment) {
  return name_of(kMomentNames, moment);
}
Seconds usual_wait(Moment moment) {
  // A collective is some iterations away, or never comes; a trough may be minutes away.
  return Seconds{moment == Moment::SafePoint ? 5.0 : 600.0};
}
std::optional<Moment> moment_from(std::string_view text) {
  return value_of(kMomentNames, text);
}

bool may_be_one_link(BytesPerSecond one, BytesPerSecond other) {
  constexpr double kMost = 1.5;
  if (one.value <= 0 || other.value <= 0) return true;
  return std::max(one, other).value <= kMost * std::min(one, other).value;
}

PolicyChange default_policy() {
  const MovePolicy usual;
  PolicyChange out;
  out.priority = usual.priority;
  out.strategy.emplace();
  out.bandwidth_limit.emplace();
  out.downtime_limit.emplace();
  out.time_limit.emplace();
  out.at_limit = usual.at_limit;
  out.drop_page_cache = usual.drop_page_cache;
  out.knobs = usual.knobs;
  return out;
}

void set_knobs(Sending& sending, const Knobs& knobs) {
  const auto set = [](auto& value, const std::optional<double>& knob) {
    if (knob) value = static_cast<std::remove_reference_t<decltype(value)>>(*knob);
  };
  switch (sending.strategy) {
    case Strategy::RateControlled:
      set(sending.rate_min.value, knobs.rate_min);
      set(sending.rate_max.value, knobs.rate_max);
      set(sending.rate_gain, knobs.rate_gain);
      if (!knobs.rate_min) sending.rate_min = std::min(sending.rate_min, sending.rate_max);
      if (!knobs.rate_max) sending.rate_max = std::max(sending.rate_min, sending.rate_max);
      return;
    case Strategy::Throttled:
      set(sending.throttle_initial_percent, knobs.throttle_initial);
      set(sending.throttle_step_percent, knobs.throttle_step);
      return;
    case Strategy::Hybrid:
      set(sending.pre_copy_rounds, knobs.pre_copy_rounds);
      return;
    default:
      return;
  }
}

MovePolicy changed(MovePolicy policy, const PolicyChange& change) {
  const bool was_manual = policy.priority == Priority::Manual;
  const auto before = policy.strategy;
  if (change.priority) {
    policy.priority = *change.priority;
    if (policy.priority != Priority::Manual) policy.strategy.reset();
  }
  if (change.strategy) {
    policy.strategy = *change.strategy;
    if (policy.strategy) policy.priority = Priority::Manual;
    // Nobody names one any more, and nobody said by what else it is to be chosen.
    if (!policy.strategy && !change.priority && was_manual) policy.priority = MovePolicy{}.priority;
  }
  if (change.bandwidth_limit) policy.bandwidth_limit = *change.bandwidth_limit;
  if (change.downtime_limit) policy.downtime_limit = *change.downtime_limit;
  if (change.time_limit) policy.time_limit = *change.time_limit;
  if (change.at_limit) policy.at_limit = *change.at_limit;
  if (change.drop_page_cache) policy.drop_page_cache = *change.drop_page_cache;
  if (policy.strategy != before) policy.knobs = {};
  if (change.knobs) policy.knobs = *change.knobs;
  return policy;
}

double later_limit_share(int rounds) {
  if (rounds < kRoundsWithFirstLimit) return 0;
  const int step = (rounds - kRoundsWithFirstLimit) / kRoundsWithEachStep + 1;
  return std::min(1.0, static_cast<double>(step) / kStepsToLaterLimit);
}

Milliseconds risen_limit(Milliseconds first, Milliseconds later, int rounds) {
  const auto way = static_cast<double>((later - first).count());
  return first + Milliseconds{std::llround(later_limit_share(rounds) * way)};
}

}  // namespace mare
