#include "orchestrator/engine/move_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "orchestrator/model/knobs_json.h"

namespace mare::engine {
namespace {
using nlohmann::json;

// Rate control without a limit of the user's: up to 1 Gbit/s, and from a tenth of it.
constexpr BytesPerSecond kUsualRate{125e6};
constexpr double kFirstRate = 0.1;

template <typename T>
std::optional<T> number(const json& from, const char* name) {
  const auto found = from.find(name);
  if (found == from.end() || !found->is_number()) return std::nullopt;
  return found->get<T>();
}

template <typename T, typename Show>
void put(json& out, const char* name, const std::optional<std::optional<T>>& value, Show show) {
  if (value) out[name] = *value ? json(show(**value)) : json(nullptr);
}

/// `value` where that is stated, and not none.
template <typename T>
std::optional<std::optional<T>> stated(const json& from, const char* name,
                                       const std::optional<T>& value) {
  if (!from.contains(name)) return std::nullopt;
  return std::optional<std::optional<T>>{value};
}

std::string word(const json& from, const char* name) {
  const auto found = from.find(name);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string text_of(const MovePolicy& policy, bool force, const Timing& timing) {
  json out{{"priority", to_string(policy.priority)}, {"at_limit", to_string(policy.at_limit)}};
  if (policy.strategy) out["strategy"] = to_string(*policy.strategy);
  if (policy.bandwidth_limit) out["bandwidth_limit_bytes_per_s"] = policy.bandwidth_limit->value;
  if (policy.downtime_limit) out["downtime_limit_ms"] = policy.downtime_limit->count();
  if (policy.time_limit) out["time_limit_s"] = policy.time_limit->count();
  if (policy.drop_page_cache) out["drop_page_cache"] = true;
  if (policy.knobs != Knobs{}) out["knobs"] = knobs_json<json>(policy.knobs);
  if (force) out["force"] = true;
  if (timing.moment != Moment::Now) {
    out["moment"] = to_string(timing.moment);
    out["within_s"] = timing.within.count();
  }
  return out.dump();
}

Timing timing_from(const std::string& text) {
  Timing out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  out.moment = moment_from(word(from, "moment")).value_or(out.moment);
  out.within = Seconds{number<double>(from, "within_s").value_or(out.within.count())};
  return out;
}

bool is_forced(const std::string& text) {
  const json from = json::parse(text, nullptr, false);
  return from.is_object() && from.value("force", json(false)) == json(true);
}

MovePolicy move_policy_from(const std::string& text) {
  MovePolicy out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  out.priority = priority_from(word(from, "priority")).value_or(out.priority);
  out.at_limit = limit_action_from(word(from, "at_limit")).value_or(out.at_limit);
  out.strategy = strategy_from(word(from, "strategy"));
  if (auto limit = number<double>(from, "bandwidth_limit_bytes_per_s")) {
    out.bandwidth_limit = BytesPerSecond{*limit};
  }
  if (auto limit = number<std::int64_t>(from, "downtime_limit_ms")) {
    out.downtime_limit = Milliseconds{*limit};
  }
  if (auto limit = number<double>(from, "time_limit_s")) out.time_limit = Seconds{*limit};
  out.drop_page_cache = from.value("drop_page_cache", json(false)) == json(true);
  out.knobs = knobs_from(from, "knobs");
  return out;
}

std::string text_of(const PolicyChange& change) {
  json out = json::object();
  if (change.priority) out["priority"] = to_string(*change.priority);
  put(out, "strategy", change.strategy, [](Strategy one) { return to_string(one); });
  put(out, "bandwidth_limit_bytes_per_s", change.bandwidth_limit,
      [](BytesPerSecond limit) { return limit.value; });
  put(out, "downtime_limit_ms", change.downtime_limit,
      [](Milliseconds limit) { return limit.count(); });
  put(out, "time_limit_s", change.time_limit, [](Seconds limit) { return limit.count(); });
  if (change.at_limit) out["at_limit"] = to_string(*change.at_limit);
  if (change.drop_page_cache) out["drop_page_cache"] = *change.drop_page_cache;
  if (change.knobs) out["knobs"] = knobs_json<json>(*change.knobs);
  return out.dump();
}

PolicyChange policy_change_from(const std::string& text) {
  PolicyChange out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  const MovePolicy said = move_policy_from(text);
  out.priority = priority_from(word(from, "priority"));
  out.strategy = stated(from, "strategy", said.strategy);
  out.bandwidth_limit = stated(from, "bandwidth_limit_bytes_per_s", said.bandwidth_limit);
  out.downtime_limit = stated(from, "downtime_limit_ms", said.downtime_limit);
  out.time_limit = stated(from, "time_limit_s", said.time_limit);
  out.at_limit = limit_action_from(word(from, "at_limit"));
  if (from.contains("drop_page_cache")) out.drop_page_cache = said.drop_page_cache;
  if (from.contains("knobs")) out.knobs = said.knobs;
  return out;
}

namespace {

std::string plain(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

Status check_knobs(const MovePolicy& policy) {
  for (const auto& knob : kKnobs) {
    const auto& value = policy.knobs.*knob.value;
    if (!value) continue;
    const std::string name = "'" + std::string(knob.name) + "'";
    if (policy.strategy != knob.of) {
      const std::string of(to_string(knob.of));
      return field_error("knobs", name + " is a knob of " + of + " moves alone",
                         "name the strategy " + of + " with it, or leave it out");
    }
    const bool fits = *value >= knob.least && *value <= knob.most;
    if (!fits || (knob.whole && *value != std::floor(*value))) {
      return field_error("knobs", name + " can't be " + plain(*value),
                         std::string("give ") + (knob.whole ? "a whole number of " : "") +
                             plain(knob.least) + " to " + plain(knob.most));
    }
  }
  const auto& least = policy.knobs.rate_min;
  const auto& most = policy.knobs.rate_max;
  if (least && most && *least > *most) {
    return field_error("knobs",
                       "'rate_min_bytes_per_s' " + plain(*least) +
                           " is more than 'rate_max_bytes_per_s' " + plain(*most),
                       "give a smaller one, or leave one of them out");
  }
  for (const auto& rate : {least, most}) {
    if (rate && policy.bandwidth_limit && *rate > policy.bandwidth_limit->value) {
      return field_error("knobs",
                         "a rate of " + plain(*rate) +
                             " bytes/s is more than the bandwidth limit, " +
                             plain(policy.bandwidth_limit->value),
                         "give a smaller one, or a higher limit ('none' for none)");
    }
  }
  return ok_status();
}

}  // namespace

Status check(const MovePolicy& policy) {
  if (auto good = check_knobs(policy); !good) return good;
  if (policy.priority == Priority::Manual && !policy.strategy) {
    return field_error("priority", "'manual' leaves the choice to you", "name a strategy");
  }
  if (policy.bandwidth_limit && *policy.bandwidth_limit < kLeastBandwidthLimit) {
    return field_error("bandwidth_limit_bytes_per_s",
                       "a bandwidth limit under 1 MiB/s can't be set",
                       "give at least 1048576, or leave it out");
  }
  if (policy.downtime_limit &&
      (*policy.downtime_limit < Milliseconds{1} || *policy.downtime_limit > kMostDowntimeLimit)) {
    return field_error("downtime_limit_ms",
                       "a downtime limit of " + std::to_string(policy.downtime_limit->count()) +
                           " ms can't be set",
                       "give 1 to 2000000, or leave it out");
  }
  if (policy.time_limit &&
      (policy.time_limit->count() <= 0 || policy.time_limit->count() > kMostTime_s)) {
    return field_error(
        "time_limit_s",
        "a time limit of " + std::to_string(policy.time_limit->count()) + " s can't be set",
        "give more than 0 and at most 86400, or leave it out");
  }
  if (policy.strategy == Strategy::CheckpointRestart && policy.bandwidth_limit) {
    return field_error("bandwidth_limit_bytes_per_s",
                       "a move through a file can't be held to a bandwidth limit",
                       "leave it out ('none' if the pool has one), or choose stop-and-copy");
  }
  if (policy.strategy == Strategy::CheckpointRestart && policy.at_limit == LimitAction::PostCopy) {
    return field_error("at_limit", "a move through a file can't be switched to post-copy",
                       "choose stop-and-copy or cancel, or another strategy");
  }
  if (policy.strategy == Strategy::Compressed && policy.at_limit == LimitAction::PostCopy) {
    return field_error("at_limit", "a compressed migration can't be switched to post-copy",
                       "choose stop-and-copy or cancel, or another strategy");
  }
  return ok_status();
}

/// Room and places at both hosts are kept meanwhile.
constexpr double kMostForSafePoint_s = 30;

Status check(const Timing& timing) {
  const bool safe_point = timing.moment == Moment::SafePoint;
  const double most = safe_point ? kMostForSafePoint_s : kMostTime_s;
  if (timing.within.count() >= 1 && timing.within.count() <= most) return ok_status();
  return field_error(
      "within_s",
      std::string(safe_point ? "a safe point" : "a trough") + " can't be waited for " +
          std::to_string(timing.within.count()) + " s",
      safe_point ? "give 1 to 30: its place at both hosts is kept meanwhile" : "give 1 to 86400");
}

std::vector<Strategy> strategies_with(const HostFacts& facts, const std::string& checkpoints) {
  std::vector<Strategy> out = facts.strategies;
  // What is in a file is not encrypted.
  const bool composed = facts.captures_to_leave && !checkpoints.empty() && !facts.migration_tls;
  const bool listed = std::find(out.begin(), out.end(), Strategy::CheckpointRestart) != out.end();
  if (composed && !listed) out.push_back(Strategy::CheckpointRestart);
  return out;
}

Sending sending_for(const MovePolicy& policy) {
  Sending out;
  out.strategy = policy.strategy.value_or(Strategy::PreCopy);
  out.rate_max = policy.bandwidth_limit.value_or(kUsualRate);
  out.rate_min = BytesPerSecond{out.rate_max.value * kFirstRate};
  set_knobs(out, policy.knobs);
  out.allow_post_copy = policy.time_limit && policy.at_limit == LimitAction::PostCopy;
  return out;
}

}  // namespace mare::engine
