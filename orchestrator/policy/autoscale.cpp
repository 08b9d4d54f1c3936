#include "orchestrator/policy/autoscale.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "orchestrator/policy/plan_words.h"

namespace mare::policy {
namespace {

constexpr double kMostVms = 1e6;

int wish_of(const AutoscaleRule& rule, int current, double metric) {
  const double ratio = metric / rule.target;
  // A pool of none has no ratio that could grow it: one VM stands for it.
  const int base = current == 0 && metric > 0 ? 1 : current;
  if (current > 0 && std::abs(ratio - 1) <= rule.tolerance + 1e-9) return current;
  // 3 * 50 / 50 must not become 4 by rounding.
  return static_cast<int>(std::clamp(std::ceil(base * ratio - 1e-9), 0.0, kMostVms));
}

using WishAt = std::vector<AutoscaleWish>::const_iterator;

/// A wish holds until the next one: looks are never exactly as far apart as a window is long.
bool held_within(const AutoscaleMemory& memory, WishAt wish, Seconds begin) {
  const auto next = std::next(wish);
  return next == memory.wishes.end() || next->at > begin;
}

/// The mildest of the wishes that held in the window: growing by the smallest, shrinking by the
/// largest.
int settled(const AutoscaleMemory& memory, Seconds now, Seconds window, int desired, bool up) {
  if (window.count() <= 0) return desired;
  int out = desired;
  for (auto wish = memory.wishes.begin(); wish != memory.wishes.end(); ++wish) {
    if (!held_within(memory, wish, now - window)) continue;
    out = up ? std::min(out, wish->desired) : std::max(out, wish->desired);
  }
  return out;
}

std::string arithmetic(const AutoscaleRule& rule, int current, double metric, int wish) {
  if (wish == current && current > 0) {
    return figure(metric, 2) + " is within " + percent(rule.tolerance) + " of the target " +
           figure(rule.target, 2);
  }
  return "ceil(" + std::to_string(std::max(current, 1)) + " * " + figure(metric, 2) + " / " +
         figure(rule.target, 2) + ") = " + std::to_string(wish);
}

/// Why a pool that would change does not, "" if nothing holds it.
std::string held_by(const ScalePace& pace, std::optional<Seconds> last, Seconds now) {
  if (!last || pace.cooldown.count() <= 0 || now - *last >= pace.cooldown) return {};
  return "the cooldown of " + figure(pace.cooldown.count(), 0) + " s has " +
         figure((pace.cooldown - (now - *last)).count(), 0) + " s to go";
}

void forget_old(const AutoscaleRule& rule, AutoscaleMemory& memory, Seconds now) {
  const Seconds window = std::max(rule.up.stabilisation, rule.down.stabilisation);
  WishAt first = memory.wishes.begin();
  while (first != memory.wishes.end() && !held_within(memory, first, now - window)) ++first;
  memory.wishes.erase(memory.wishes.begin(), first);
}

AutoscaleDecision stay(AutoscaleMemory memory, int current, int desired, std::string why) {
  return {current, desired, "stays at " + std::to_string(current) + ": " + std::move(why),
          std::move(memory)};
}

/// The change itself, no larger than a step.
AutoscaleDecision change(const AutoscaleRule& rule, AutoscaleMemory memory, Seconds now,
                         int current, int to, int desired, const std::string& why) {
  const bool up = to > current;
  const ScalePace& pace = up ? rule.up : rule.down;
  const std::string held = held_by(pace, up ? memory.last_up : memory.last_down, now);
  if (!held.empty()) {
    return stay(std::move(memory), current, desired,
                why + " asks for " + std::to_string(to) + ", but " + held);
  }
  int size = to;
  if (pace.step > 0) size = std::clamp(to, current - pace.step, current + pace.step);
  (up ? memory.last_up : memory.last_down) = now;
  std::string reason = std::string(up ? "grows" : "shrinks") + " from " + std::to_string(current) +
                       " to " + std::to_string(size) + ": " + why;
  if (size != to) reason += ", " + std::to_string(pace.step) + " at once";
  return {size, desired, std::move(reason), std::move(memory)};
}

}  // namespace

AutoscaleDecision autoscale(const AutoscaleRule& rule, AutoscaleMemory memory, Seconds now,
                            int current, std::optional<double> metric) {
  const auto within = [&rule](int size) { return std::clamp(size, rule.min, rule.max); };
  forget_old(rule, memory, now);
  if (current != within(current)) {
    // Limits are the user's word: they wait for no window and no cooldown.
    const int size = within(current);
    return {size, size,
            "goes from " + std::to_string(current) + " to " + std::to_string(size) +
                ": the limits are " + std::to_string(rule.min) + " to " + std::to_string(rule.max),
            std::move(memory)};
  }
  if (!metric || !std::isfinite(*metric) || *metric < 0 || rule.target <= 0) {
    return stay(std::move(memory), current, current, "there is no figure of the metric");
  }
  const int wish = wish_of(rule, current, *metric);
  const int desired = within(wish);
  std::string why = arithmetic(rule, current, *metric, wish);
  if (desired != wish) {
    why += ", limited to " + std::to_string(desired);
  }
  // Before the first wish there was one for what is: a window begins with it, not with a change.
  if (memory.wishes.empty()) memory.wishes.push_back({now, current});
  memory.wishes.push_back({now, desired});
  if (desired == current) return stay(std::move(memory), current, desired, why);
  const bool up = desired > current;
  const Seconds window = (up ? rule.up : rule.down).stabilisation;
  const int to = settled(memory, now, window, desired, up);
  if (up ? to <= current : to >= current) {
    return stay(std::move(memory), current, desired,
                why + ", but not for all of the last " + figure(window.count(), 0) + " s");
  }
  return change(rule, std::move(memory), now, current, to, desired, why);
}

}  // namespace mare::policy
