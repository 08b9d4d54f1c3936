#include "rest/wire/autoscale.h"

namespace mare::wire {
namespace {

constexpr double kMostVms = 1024;
constexpr double kMostTime_s = 86'400;
constexpr double kMostFigure = 1e15;
constexpr double kMostQueryTime_s = 10;

Json pace_json(const ScalePace& pace) {
  return Json{{"stabilisation_s", pace.stabilisation.count()},
              {"cooldown_s", pace.cooldown.count()},
              {"step", pace.step}};
}

void read_pace(ObjectReader& from, const std::string& name, ScalePace& pace, Faults& faults) {
  const Json* given = from.object(name, false);
  if (given == nullptr) return;
  ObjectReader reader(*given, from.pointer_to(name), Strictness::Strict, faults);
  const auto time = [&reader](const char* member, Seconds& value) {
    if (auto seconds = reader.number(member, false, {0, kMostTime_s})) value = Seconds{*seconds};
  };
  time("stabilisation_s", pace.stabilisation);
  time("cooldown_s", pace.cooldown);
  pace.step = static_cast<int>(reader.whole("step", false, {0, kMostVms}).value_or(pace.step));
  reader.finish();
}

void read_source(ObjectReader& from, AutoscaleSetting& setting) {
  if (auto name = from.text("source", false, {1, 64})) {
    const auto source = metric_source_from(*name);
    if (!source)
      from.fault("source", "'" + *name + "' is no source; give one of posted, queue, prometheus");
    setting.source = source.value_or(setting.source);
  }
  setting.total = from.flag("total", false).value_or(setting.total);
}

/// What is asked of Prometheus: needed for that source, and of no use to any other.
void read_query(ObjectReader& from, AutoscaleSetting& setting) {
  const bool needed = setting.source == MetricSource::Prometheus;
  PrometheusQuery& asked = setting.prometheus;
  const auto url = from.text("url", needed, {1, 2048});
  const auto query = from.text("query", needed, {1, 4096});
  const auto timeout = from.number("query_timeout_s", false, {0.1, kMostQueryTime_s});
  const auto stray = [&](const char* name, bool given) {
    if (given && !needed) from.fault(name, "is for the source prometheus only; leave it out");
  };
  stray("url", url.has_value());
  stray("query", query.has_value());
  stray("query_timeout_s", timeout.has_value());
  asked.url = url.value_or("");
  asked.query = query.value_or("");
  if (timeout) asked.timeout = Seconds{*timeout};
}

}  // namespace

Json to_json(const AutoscaleBody& body) {
  const AutoscaleSetting& setting = body.setting;
  Json out{{"source", to_string(setting.source)},
           {"total", setting.total},
           {"stale_after_s", setting.stale_after.count()},
           {"target", setting.rule.target},
           {"tolerance", setting.rule.tolerance},
           {"min", setting.rule.min},
           {"max", setting.rule.max},
           {"up", pace_json(setting.rule.up)},
           {"down", pace_json(setting.rule.down)}};
  if (setting.source == MetricSource::Prometheus) {
    out["url"] = setting.prometheus.url;
    out["query"] = setting.prometheus.query;
    out["query_timeout_s"] = setting.prometheus.timeout.count();
  }
  return out;
}

Json to_json(const MetricBody& body) {
  return Json{{"value", body.value}};
}

Json to_json(const Autoscaler& autoscaler) {
  Json out = to_json(AutoscaleBody{autoscaler.setting});
  out["pool"] = autoscaler.pool.value;
  out["posted"] = number_or_null(autoscaler.posted);
  out["posted_at"] = time_json(autoscaler.posted_at);
  out["looked"] = time_json(autoscaler.looked);
  out["metric"] = number_or_null(autoscaler.metric);
  out["desired"] = autoscaler.looked.count() == 0 ? Json(nullptr) : Json(autoscaler.desired);
  out["reason"] = autoscaler.reason.empty() ? Json(nullptr) : Json(autoscaler.reason);
  out["operation"] = autoscaler.operation ? Json(autoscaler.operation->value) : Json(nullptr);
  return out;
}

void read(const Json& json, AutoscaleBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  AutoscaleRule& rule = body.setting.rule;
  read_source(from, body.setting);
  read_query(from, body.setting);
  if (auto seconds = from.number("stale_after_s", false, {1, kMostTime_s})) {
    body.setting.stale_after = Seconds{*seconds};
  }
  rule.target = from.number("target", true, {1e-9, kMostFigure}).value_or(rule.target);
  rule.tolerance = from.number("tolerance", false, {0, 0.99}).value_or(rule.tolerance);
  rule.min = static_cast<int>(from.whole("min", false, {1, kMostVms}).value_or(rule.min));
  rule.max = static_cast<int>(from.whole("max", true, {1, kMostVms}).value_or(rule.max));
  if (faults.empty() && rule.max < rule.min) {
    from.fault("max", "is below min; give at least " + std::to_string(rule.min));
  }
  read_pace(from, "up", rule.up, faults);
  read_pace(from, "down", rule.down, faults);
  from.finish();
}

void read(const Json& json, MetricBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  body.value = from.number("value", true, {0, kMostFigure}).value_or(0);
  from.finish();
}

}  // namespace mare::wire
