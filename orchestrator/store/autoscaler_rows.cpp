// The rows of autoscalers. Rule and memory are read as a whole, never searched: JSON.
#include <nlohmann/json.hpp>

#include "orchestrator/store/rows.h"

namespace mare::store {
namespace {
using nlohmann::json;

json pace_json(const ScalePace& pace) {
  return {{"stabilisation_s", pace.stabilisation.count()},
          {"cooldown_s", pace.cooldown.count()},
          {"step", pace.step}};
}

ScalePace pace_from(const json& from) {
  ScalePace out;
  if (!from.is_object()) return out;
  out.stabilisation = Seconds{from.value("stabilisation_s", 0.0)};
  out.cooldown = Seconds{from.value("cooldown_s", 0.0)};
  out.step = from.value("step", 0);
  return out;
}

std::string setting_text(const AutoscaleSetting& setting) {
  const AutoscaleRule& rule = setting.rule;
  return json{{"source", to_string(setting.source)},
              {"total", setting.total},
              {"stale_after_s", setting.stale_after.count()},
              {"url", setting.prometheus.url},
              {"query", setting.prometheus.query},
              {"query_timeout_s", setting.prometheus.timeout.count()},
              {"target", rule.target},
              {"tolerance", rule.tolerance},
              {"min", rule.min},
              {"max", rule.max},
              {"up", pace_json(rule.up)},
              {"down", pace_json(rule.down)}}
      .dump();
}

AutoscaleSetting setting_from(const std::string& text) {
  AutoscaleSetting out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  out.source = metric_source_from(from.value("source", std::string())).value_or(out.source);
  out.total = from.value("total", out.total);
  out.stale_after = Seconds{from.value("stale_after_s", out.stale_after.count())};
  PrometheusQuery& asked = out.prometheus;
  asked.url = from.value("url", asked.url);
  asked.query = from.value("query", asked.query);
  asked.timeout = Seconds{from.value("query_timeout_s", asked.timeout.count())};
  out.rule.target = from.value("target", out.rule.target);
  out.rule.tolerance = from.value("tolerance", out.rule.tolerance);
  out.rule.min = from.value("min", out.rule.min);
  out.rule.max = from.value("max", out.rule.max);
  out.rule.up = pace_from(from.value("up", json()));
  out.rule.down = pace_from(from.value("down", json()));
  return out;
}

std::string memory_text(const AutoscaleMemory& memory) {
  json wishes = json::array();
  for (const auto& wish : memory.wishes) wishes.push_back({wish.at.count(), wish.desired});
  json out{{"wishes", std::move(wishes)}};
  if (memory.last_up) out["last_up"] = memory.last_up->count();
  if (memory.last_down) out["last_down"] = memory.last_down->count();
  return out.dump();
}

std::optional<Seconds> seconds_at(const json& from, const char* name) {
  const auto found = from.find(name);
  if (found == from.end() || !found->is_number()) return std::nullopt;
  return Seconds{found->get<double>()};
}

AutoscaleMemory memory_from(const std::string& text) {
  AutoscaleMemory out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  for (const auto& wish : from.value("wishes", json::array())) {
    if (!wish.is_array() || wish.size() != 2) continue;
    out.wishes.push_back({Seconds{wish[0].get<double>()}, wish[1].get<int>()});
  }
  out.last_up = seconds_at(from, "last_up");
  out.last_down = seconds_at(from, "last_down");
  return out;
}

/// A number or nothing. As text: the column's type has no room for nothing that is told from 0.
std::optional<double> number_from(const std::string& text) {
  const json from = json::parse(text, nullptr, false);
  if (!from.is_number()) return std::nullopt;
  return from.get<double>();
}

std::string number_text(const std::optional<double>& value) {
  return value ? json(*value).dump() : "";
}

}  // namespace

Autoscaler read_autoscaler(Statement& row) {
  Autoscaler out;
  out.pool = PoolId{row.text()};
  out.setting = setting_from(row.text());
  out.posted = number_from(row.text());
  out.posted_at = WallTime{row.integer()};
  out.memory = memory_from(row.text());
  out.looked = WallTime{row.integer()};
  out.metric = number_from(row.text());
  out.desired = row.number();
  out.reason = row.text();
  if (std::string operation = row.text(); !operation.empty()) {
    out.operation = OperationId{std::move(operation)};
  }
  return out;
}

void bind_row(Statement& to, const Autoscaler& autoscaler) {
  to.bind(autoscaler.pool.value).bind(setting_text(autoscaler.setting));
  to.bind(number_text(autoscaler.posted)).bind(autoscaler.posted_at.count());
  to.bind(memory_text(autoscaler.memory)).bind(autoscaler.looked.count());
  to.bind(number_text(autoscaler.metric)).bind(autoscaler.desired).bind(autoscaler.reason);
  to.bind(autoscaler.operation ? autoscaler.operation->value : std::string());
}

}  // namespace mare::store
