// Alerts of a monitoring system, in the form of Prometheus' Alertmanager: a host that is said to
// fail is evacuated.
#include "rest/server/api.h"

namespace mare::rest {
namespace {

constexpr std::uint64_t kUsualWarning_s = 60;
constexpr std::uint64_t kLongestWarning_s = 86'400;

/// An alert that is posted again goes on with what it began; what one of them can't have done
/// holds up no other. Only when nothing at all was begun the first refusal is the answer.
Response take_alerts(Api& api, const Call& call) {
  wire::AlertsBody body;
  if (auto refused = read_body(call, body)) return *refused;
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto within = query.natural("within_s", 1, kLongestWarning_s).value_or(kUsualWarning_s);
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  wire::Json operations = wire::Json::array();
  wire::Json refusals = wire::Json::array();
  std::optional<Error> first;
  for (const auto& alert : body.alerts) {
    const auto accepted = api.engine.submit(
        engine::EvacuateRequest{alert.host, Seconds{static_cast<double>(within)}, alert.says});
    if (accepted) {
      operations.push_back(wire::to_json(*accepted));
      continue;
    }
    refusals.push_back({{"host", alert.host.value},
                        {"code", to_string(accepted.error().code)},
                        {"detail", accepted.error().text()}});
    if (!first) first = accepted.error();
  }
  if (first && operations.empty()) return refuse(call, *first);
  return json_response(
      200,
      wire::Json{{"operations", operations}, {"refused", refusals}, {"ignored", body.ignored}});
}

}  // namespace

void add_alert_routes(Router& router, Api& api) {
  add(router, "POST", "/api/v1/alerts", "postAlerts",
      [&api](const Call& call) { return take_alerts(api, call); });
}

}  // namespace mare::rest
