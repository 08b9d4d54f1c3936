// What the routes share: where they get things from, and how they answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/engine/engine.h"
#include "orchestrator/store/store.h"
#include "rest/server/ask.h"
#include "rest/server/followers.h"
#include "rest/server/metrics.h"
#include "rest/server/router.h"
#include "rest/wire/autoscale.h"
#include "rest/wire/bodies.h"
#include "rest/wire/entities.h"
#include "rest/wire/forecasts.h"
#include "rest/wire/problem.h"
#include "rest/wire/projects.h"
#include "rest/wire/reader.h"
#include "rest/wire/rebalancing.h"

namespace mare::rest {

struct Api {
  engine::Engine& engine;
  store::Store& store;
  engine::ImageCatalog& images;
  Followers& followers;
  HttpMetrics& metrics;
};

// One file each. `api` outlives the router.
void add_host_routes(Router& router, Api& api);
void add_pool_routes(Router& router, Api& api);
void add_project_routes(Router& router, Api& api);
void add_rebalancing_routes(Router& router, Api& api);
void add_vm_routes(Router& router, Api& api);
void add_migration_routes(Router& router, Api& api);
void add_forecast_routes(Router& router, Api& api);
void add_job_routes(Router& router, Api& api);
void add_operation_routes(Router& router, Api& api);
void add_event_routes(Router& router, Api& api);
void add_alert_routes(Router& router, Api& api);
void add_system_routes(Router& router, Api& api);
void add_all_routes(Router& router, Api& api);

/// A handler that answers at once.
using Plain = std::function<Response(const Call&)>;
void add(Router& router, const std::string& method, const std::string& pattern,
         const std::string& operation_id, Plain handle, bool open = false);

Response json_response(int status, const wire::Json& body);
Response problem(int status, const std::string& path, const Error& error,
                 const wire::Faults& faults = {});
Response refuse(const Call& call, const Error& error);
Response refuse(const Call& call, const wire::Faults& faults);
/// 202 with the operation and where to look for it.
Response accepted(const Call& call, const Result<Operation>& operation);

template <typename T>
Response entity(const Call& call, const Result<T>& found) {
  return found ? json_response(200, wire::to_json(*found)) : refuse(call, found.error());
}

/// A refusal (415, 400) when the body can't be had as JSON. An empty body counts as {}.
std::optional<Response> json_body(const Call& call, wire::Json& out);

/// A refusal, or the body checked for shape and range.
template <typename Body>
std::optional<Response> read_body(const Call& call, Body& body) {
  wire::Json json;
  if (auto refused = json_body(call, json)) return refused;
  wire::Faults faults;
  wire::read(json, body, faults);
  if (faults.empty()) return std::nullopt;
  return refuse(call, faults);
}

/// Of a path that ends with an operation's, or a migration's, id.
OperationId operation_id(const Call& call);
/// ?dry_run=true, for routes that take no other parameter.
bool dry_run(const Call& call, wire::Faults& faults);
/// A refusal for query parameters, for routes that take none.
std::optional<Response> no_parameters(const Call& call);

struct PageRequest {
  std::size_t limit = 500;
  std::string after;  // id of the last row seen
};
PageRequest read_page(QueryReader& query);
Response page_response(const wire::Json& items, const std::string& next_page_token);

inline constexpr std::size_t kAllRows = 1'000'000'000;

/// One page of a list. `fetch(n)` answers its first n rows; more are asked for until the page is
/// full, beginning with `first` (kAllRows for lists that are fetched whole anyway).
template <typename T>
Response page_of(const Call& call, const PageRequest& page, std::size_t first,
                 const std::function<Result<std::vector<T>>(std::size_t)>& fetch,
                 const std::function<bool(const T&)>& wanted,
                 const std::function<std::string(const T&)>& id_of,
                 const std::function<wire::Json(const T&)>& show) {
  for (std::size_t n = first;; n *= 8) {
    const auto rows = fetch(n);
    if (!rows) return refuse(call, rows.error());
    const bool whole = rows->size() < n;
    bool started = page.after.empty();
    std::size_t count = 0;
    std::string last;
    wire::Json items = wire::Json::array();
    for (const auto& row : *rows) {
      if (!started) {
        started = id_of(row) == page.after;
        continue;
      }
      if (!wanted(row)) continue;
      if (++count > page.limit) return page_response(items, last);
      items.push_back(show(row));
      last = id_of(row);
    }
    if (!whole) continue;
    if (!started) {
      return refuse(call, {{"?page_token", "'" + page.after +
                                               "' is not in the list any more; "
                                               "begin again without it"}});
    }
    return page_response(items, "");
  }
}

}  // namespace mare::rest
