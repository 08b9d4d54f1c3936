#include "rest/wire/policies.h"

#include "orchestrator/model/knobs_json.h"

namespace mare::wire {
namespace {

constexpr NumberRule kBandwidths{kLeastBandwidthLimit.value, kMostBandwidthLimit.value};
constexpr NumberRule kDowntimes{1, static_cast<double>(kMostDowntimeLimit.count())};

template <typename T, typename Show>
void put(Json& out, const char* name, const std::optional<std::optional<T>>& value, Show show) {
  if (value) out[name] = *value ? Json(show(**value)) : Json(nullptr);
}

void read_strategy(ObjectReader& from, PolicyChange& change) {
  if (from.null("strategy")) change.strategy.emplace();
  auto name = from.text("strategy", false, {1, 64});
  if (!name) return;
  const auto strategy = strategy_from(*name);
  if (!strategy) {
    from.fault("strategy", "'" + *name + "' is no strategy; give one of " + strategy_names());
    return;
  }
  change.strategy = strategy;
}

void read_priority(ObjectReader& from, PolicyChange& change) {
  if (from.null("priority")) change.priority = MovePolicy{}.priority;
  auto name = from.text("priority", false, {1, 64});
  if (!name) return;
  change.priority = priority_from(*name);
  if (change.priority) return;
  from.fault("priority", "'" + *name +
                             "' is no priority; give one of least-stall, least-traffic, " +
                             "by-deadline, manual");
}

void read_limits(ObjectReader& from, PolicyChange& change) {
  if (from.null("bandwidth_limit_bytes_per_s")) change.bandwidth_limit.emplace();
  if (auto limit = from.number("bandwidth_limit_bytes_per_s", false, kBandwidths)) {
    change.bandwidth_limit = BytesPerSecond{*limit};
  }
  if (from.null("downtime_limit_ms")) change.downtime_limit.emplace();
  if (auto limit = from.whole("downtime_limit_ms", false, kDowntimes)) {
    change.downtime_limit = Milliseconds{*limit};
  }
  if (from.null("time_limit_s")) change.time_limit.emplace();
  if (auto limit = from.number("time_limit_s", false, {0.1, 86'400})) {
    change.time_limit = Seconds{*limit};
  }
}

void read_action(ObjectReader& from, PolicyChange& change) {
  if (from.null("at_limit")) change.at_limit = MovePolicy{}.at_limit;
  auto name = from.text("at_limit", false, {1, 64});
  if (!name) return;
  change.at_limit = limit_action_from(*name);
  if (change.at_limit) return;
  from.fault("at_limit",
             "'" + *name + "' can't be done; give one of cancel, stop-and-copy, post-copy");
}

void read_knobs(ObjectReader& from, PolicyChange& change) {
  if (from.null("knobs")) change.knobs.emplace();
  const Json* object = from.object("knobs", false);
  if (object == nullptr) return;
  change.knobs.emplace();
  ObjectReader members = from.inside("knobs", *object);
  for (const auto& knob : kKnobs) {
    const std::string name(knob.name);
    const NumberRule rule{knob.least, knob.most};
    if (knob.whole) {
      if (auto value = members.whole(name, false, rule)) {
        (*change.knobs).*knob.value = static_cast<double>(*value);
      }
    } else if (auto value = members.number(name, false, rule)) {
      (*change.knobs).*knob.value = *value;
    }
  }
  members.finish();
}

}  // namespace

Json to_json(const Knobs& knobs) {
  return knobs == Knobs{} ? Json(nullptr) : knobs_json<Json>(knobs);
}

Json to_json(const PolicyChange& change) {
  Json out = Json::object();
  if (change.priority) out["priority"] = to_string(*change.priority);
  put(out, "strategy", change.strategy, [](Strategy one) { return to_string(one); });
  put(out, "bandwidth_limit_bytes_per_s", change.bandwidth_limit,
      [](BytesPerSecond limit) { return limit.value; });
  put(out, "downtime_limit_ms", change.downtime_limit,
      [](Milliseconds limit) { return limit.count(); });
  put(out, "time_limit_s", change.time_limit, [](Seconds limit) { return limit.count(); });
  if (change.at_limit) out["at_limit"] = to_string(*change.at_limit);
  if (change.drop_page_cache) out["drop_page_cache"] = *change.drop_page_cache;
  if (change.knobs) out["knobs"] = to_json(*change.knobs);
  return out;
}

void read(ObjectReader& from, PolicyChange& change) {
  read_priority(from, change);
  read_strategy(from, change);
  read_limits(from, change);
  read_action(from, change);
  if (from.null("drop_page_cache")) change.drop_page_cache = MovePolicy{}.drop_page_cache;
  if (auto drop = from.flag("drop_page_cache", false)) change.drop_page_cache = *drop;
  read_knobs(from, change);
}

void read(const Json& json, const std::string& pointer, PolicyChange& change, Faults& faults) {
  ObjectReader from(json, pointer, Strictness::Strict, faults);
  read(from, change);
  from.finish();
}

}  // namespace mare::wire
