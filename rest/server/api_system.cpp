// Images, the description, metrics, health.
#include "rest/server/api.h"

namespace mare::rest {

std::string openapi_text();  // made by embed.cmake

namespace {

wire::Image image_of(const engine::ImageFacts& facts) {
  return {facts.name,       facts.version,  facts.min_memory,
          facts.size_bytes, facts.packages, facts.created};
}

Response list_images(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  return page_of<engine::ImageFacts>(
      call, page, kAllRows, [&](std::size_t) { return api.images.list(); },
      [](const auto&) { return true; }, [](const auto& image) { return image.name; },
      [](const auto& image) { return wire::to_json(image_of(image)); });
}

Response get_image(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto version = query.text("version").value_or("");
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  const auto found = api.images.find(call.captures.at("name"), version);
  if (!found) return refuse(call, found.error());
  return json_response(200, wire::to_json(image_of(*found)));
}

Response metrics(const Api& api, const Call& call) {
  const auto of_store = store_metrics(api.store);
  if (!of_store) return refuse(call, of_store.error());
  const auto of_forecasts = forecast_metrics(api.store);
  if (!of_forecasts) return refuse(call, of_forecasts.error());
  return {200,
          "text/plain; version=0.0.4; charset=utf-8",
          *of_store + *of_forecasts + silence_metrics(api.engine.silences()) +
              stream_metrics(api.followers.counts()) + api.metrics.text(),
          {}};
}

Response readiness(const Api& api, const Call& call) {
  const auto ready = api.engine.ready();
  if (ready) return json_response(200, wire::Json{{"status", "ready"}});
  // Whatever the reason is: a load balancer understands 503.
  return problem(503, call.request.path, ready.error());
}

}  // namespace

void add_system_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/images", "listImages",
      [&api](const Call& call) { return list_images(api, call); });
  add(router, "GET", "/api/v1/images/{name}", "getImage",
      [&api](const Call& call) { return get_image(api, call); });
  add(router, "GET", "/api/v1/openapi.json", "getDescription", [](const Call&) {
    return Response{200, "application/json", openapi_text(), {}};
  });
  add(router, "GET", "/metrics", "getMetrics",
      [&api](const Call& call) { return metrics(api, call); });
  add(
      router, "GET", "/healthz", "getHealth",
      [](const Call&) {
        return json_response(200, wire::Json{{"status", "ok"}, {"version", MARE_VERSION}});
      },
      true);
  add(
      router, "GET", "/readyz", "getReadiness",
      [&api](const Call& call) { return readiness(api, call); }, true);
}

}  // namespace mare::rest
