#include "orchestrator/policy/choice.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>

namespace mare::policy {
namespace {

// Differences smaller than these are not worth the link's time. With 50 ms an idle job went
// compressed over 1 Gbit/s, for 18 to 28 ms more of its time as said, and lost 0.24 s (median of 18
// moves), where plain pre-copy took 0.19 from it (9).
constexpr double kSameAdded_s = 0.02;
constexpr double kSameShare = 0.03;
// What has no way back is taken only if it saves more than such forecasts are wrong by: a fifth of
// 90 hybrid moves of nine runs cost their jobs over 0.45 s more or less than was said, of 57
// pre-copy ones over 0.29, and a half of 70 post-copy ones over 0.26.
constexpr double kWayBack_s = 0.25;

using Estimates = std::vector<StrategyEstimate>;
using Indices = std::vector<std::size_t>;

std::string number(double value, const char* unit) {
  std::array<char, 48> text{};
  const double size = std::abs(value);
  const int digits = size < 9.995 ? 2 : (size < 99.95 ? 1 : 0);
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, unit);
  return text.data();
}

std::string name(const StrategyEstimate& estimate) {
  return std::string(to_string(estimate.forecast.strategy));
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

bool returns_never(const StrategyEstimate& estimate) {
  return estimate.forecast.strategy == Strategy::PostCopy ||
         estimate.forecast.strategy == Strategy::Hybrid;
}

Indices possible(const Estimates& estimates) {
  Indices out;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    if (estimates[i].forecast.why_not.empty()) out.push_back(i);
  }
  return out;
}

template <typename Figure>
double lowest(const Indices& among, Figure figure) {
  double out = std::numeric_limits<double>::infinity();
  for (const std::size_t i : among) out = std::min(out, figure(i));
  return out;
}

/// Keeps those whose figure is the least, or not worth telling apart from it.
template <typename Figure>
Indices least(const Indices& among, double same, Figure figure) {
  const double best = lowest(among, figure);
  Indices out;
  for (const std::size_t i : among) {
    if (figure(i) <= best + std::max(same, kSameShare * best)) out.push_back(i);
  }
  return out;
}

/// Those with a way back, if what has none saves too little against the best of them.
template <typename Figure>
Indices with_way_back(const Estimates& estimates, const Indices& among, Figure added) {
  Indices back = among;
  std::erase_if(back, [&](std::size_t i) { return returns_never(estimates[i]); });
  return lowest(back, added) <= lowest(among, added) + kWayBack_s ? back : among;
}

std::size_t best_of(const Situation& situation, const Estimates& estimates, Indices among) {
  const auto added = [&](std::size_t i) { return estimates[i].forecast.added_job_time_s.value; };
  const auto bytes = [&](std::size_t i) { return estimates[i].forecast.sent_bytes.value; };
  const auto time = [&](std::size_t i) { return estimates[i].forecast.total_time_s.value; };
  const auto risk = [&](std::size_t i) { return returns_never(estimates[i]) ? 1.0 : 0.0; };
  const MovePolicy& policy = situation.input.policy;
  if (policy.priority == Priority::LeastTraffic) {
    among = least(least(among, 0, bytes), kSameAdded_s, added);
    return least(least(least(among, 0.5, risk), 0, bytes), 0, time).front();
  }
  if (policy.priority == Priority::ByDeadline && !policy.time_limit) among = least(among, 0, time);
  among = least(with_way_back(estimates, among, added), kSameAdded_s, added);
  among = least(among, 0.5, risk);
  // Of what sends as much the quicker: a rate that begins low takes longer for nothing.
  return least(least(among, 0, bytes), 0, time).front();
}

/// "6.1 s of added job time, 12 s in all, 140 MB, 85 ms of downtime".
std::string figures(const Situation& situation, const StrategyForecast& forecast) {
  return say_time(forecast.added_job_time_s.value) +
         (situation.input.job ? " of added job time" : " of the VM's time lost") + " (at most " +
         say_time(forecast.added_job_time_s.high) + "), " + say_time(forecast.total_time_s.value) +
         " in all, " + say_bytes(forecast.sent_bytes.value) + ", " +
         say_time(forecast.downtime_s.value) + " of downtime";
}

std::string runner_up(const Situation& situation, const Estimates& estimates, std::size_t taken) {
  Indices rest = possible(estimates);
  std::erase(rest, taken);
  if (rest.empty()) return "nothing else is possible";
  const auto& next = estimates[best_of(situation, estimates, rest)];
  return "the next best, " + name(next) + ", would take " +
         say_time(next.forecast.added_job_time_s.value) + " of it, " +
         say_time(next.forecast.total_time_s.value) + " in all and " +
         say_bytes(next.forecast.sent_bytes.value);
}

Choice do_not_move(std::string why) {
  return {std::nullopt, "Do not move: " + std::move(why)};
}

/// Nothing is possible: the reason of the one that comes nearest.
Choice nothing_possible(const Situation& situation, const Estimates& estimates) {
  Indices offered;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    if (estimates[i].forecast.offered) offered.push_back(i);
  }
  if (offered.empty()) {
    const std::string why = estimates.empty() ? "" : estimates.front().forecast.why_not;
    return do_not_move("no strategy is offered by both hosts" +
                       (why.empty() ? "" : " (" + name(estimates.front()) + ": " + why + ")"));
  }
  const auto& nearest = estimates[best_of(situation, estimates, offered)];
  return do_not_move("no strategy keeps the policy; the nearest, " + name(nearest) +
                     ", is out: " + nearest.forecast.why_not);
}

Choice choose_manual(const Situation& situation, const Estimates& estimates) {
  const auto wanted = situation.input.policy.strategy;
  if (!wanted) return do_not_move("the policy is manual and names no strategy");
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    const auto& forecast = estimates[i].forecast;
    if (forecast.strategy != *wanted) continue;
    if (!forecast.offered) {
      return do_not_move(name(estimates[i]) +
                         " was asked for and is not offered: " + forecast.why_not);
    }
    const std::string may = forecast.end_unsure ? "may" : "would";
    const std::string warning =
        forecast.converges ? ""
                           : ", and " + may + " not end by itself: these are the figures of a stop";
    return {i, capital(name(estimates[i])) + " was asked for: " + figures(situation, forecast) +
                   warning};
  }
  return do_not_move(std::string(to_string(*wanted)) + " was asked for and is not offered");
}

std::string dirty_against_link(const Situation& situation) {
  const double rate = situation.middle.dirty_rate(1);
  return "the guest writes " + say_bytes(rate) + "/s, the link carries " +
         say_bytes(situation.input.link.goodput.value) + "/s";
}

std::string out_by_time(const MovePolicy& policy, const StrategyEstimate& estimate) {
  if (!policy.time_limit) return "";
  const double limit = policy.time_limit->count();
  const Estimate& time = estimate.forecast.total_time_s;
  if (policy.priority == Priority::ByDeadline && time.high > limit) {
    return "it may take " + say_time(time.high) + ", and the time limit is " + say_time(limit);
  }
  if (estimate.replay.cancelled || (policy.at_limit == LimitAction::Cancel && time.value > limit)) {
    return "it would be cancelled at its time limit of " + say_time(limit);
  }
  return "";
}

}  // namespace

std::string say_time(double seconds) {
  return std::abs(seconds) < 0.9995 ? number(seconds * 1000, "ms") : number(seconds, "s");
}

std::string say_bytes(double bytes) {
  if (bytes >= 1e9) return number(bytes / 1e9, "GB");
  return bytes >= 1e6 ? number(bytes / 1e6, "MB") : number(bytes / 1e3, "kB");
}

std::string ruled_out(const Situation& situation, const StrategyEstimate& estimate) {
  const MovePolicy& policy = situation.input.policy;
  if (policy.priority == Priority::Manual) return "";
  if (!(situation.input.link.goodput.value > 0)) return "the link was not measured";
  if (!estimate.forecast.converges && (!policy.time_limit || estimate.replay.cancelled)) {
    return "it would not end by itself: " + dirty_against_link(situation);
  }
  if (auto why = out_by_time(policy, estimate); !why.empty()) return why;
  if (policy.downtime_limit) {
    const double limit = std::chrono::duration<double>(*policy.downtime_limit).count();
    const double downtime = estimate.forecast.downtime_s.value;
    if (downtime > limit) {
      return "its downtime of " + say_time(downtime) + " is over the limit of " + say_time(limit);
    }
  }
  return "";
}

Choice choose(const Situation& situation, const Estimates& estimates) {
  const MovePolicy& policy = situation.input.policy;
  if (policy.priority == Priority::Manual) return choose_manual(situation, estimates);
  const Indices among = possible(estimates);
  if (among.empty()) return nothing_possible(situation, estimates);
  const std::size_t taken = best_of(situation, estimates, among);
  const std::string sweeps =
      estimates[taken].sending.sweep_switch.waits.empty()
          ? ""
          : "; it switches when the guest, which goes through its memory in order, comes to what "
            "was sent after it had been there";
  const std::string watched =
      situation.middle.watched() ? "" : "; how the VM writes was not watched, so this is a guess";
  return {taken, capital(name(estimates[taken])) + " for " +
                     std::string(to_string(policy.priority)) + ": " +
                     figures(situation, estimates[taken].forecast) + "; " +
                     runner_up(situation, estimates, taken) + sweeps + watched};
}

}  // namespace mare::policy
