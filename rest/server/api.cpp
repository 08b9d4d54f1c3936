#include "rest/server/api.h"

#include "rest/wire/json.h"

namespace mare::rest {

void add(Router& router, const std::string& method, const std::string& pattern,
         const std::string& operation_id, Plain handle, bool open) {
  router.add({method, pattern, operation_id, open,
              [handle = std::move(handle)](const Call& call, const std::shared_ptr<Exchange>&) {
                return Answer{handle(call)};
              }});
}

Response json_response(int status, const wire::Json& body) {
  return {status, "application/json", wire::to_text(body), {}};
}

Response problem(int status, const std::string& path, const Error& error,
                 const wire::Faults& faults) {
  Response out{status,
               std::string(wire::kProblemType),
               wire::to_text(wire::problem_json(error, status, path, faults)),
               {}};
  if (status == 401) out.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"mare\"");
  if (status == 503) out.headers.emplace_back("Retry-After", "1");
  return out;
}

Response refuse(const Call& call, const Error& error) {
  return problem(wire::status_of(error.code), call.request.path, error);
}

Response refuse(const Call& call, const wire::Faults& faults) {
  Error error = make_error(Code::InvalidArgument,
                           "the request has " + std::to_string(faults.size()) + " faults",
                           "correct what 'errors' lists");
  if (faults.size() == 1) {
    // Told in `detail` as well, for readers that look no further. A fault is "what; what to do".
    const wire::Fault& fault = faults.front();
    const auto end = fault.detail.find("; ");
    error.message =
        (fault.pointer.empty() ? "" : fault.pointer + " ") + fault.detail.substr(0, end);
    error.remedy = end == std::string::npos ? "correct it" : fault.detail.substr(end + 2);
  }
  return problem(400, call.request.path, error, faults);
}

Response accepted(const Call& call, const Result<Operation>& operation) {
  if (!operation) return refuse(call, operation.error());
  Response out = json_response(202, wire::to_json(*operation));
  out.headers.emplace_back("Location", "/api/v1/operations/" + operation->id.value);
  out.headers.emplace_back("Retry-After", "1");
  return out;
}

std::optional<Response> json_body(const Call& call, wire::Json& out) {
  const Request& request = call.request;
  if (request.body.empty()) {
    out = wire::Json::object();
    return std::nullopt;
  }
  const std::string type = request.header("content-type");
  const std::string bare = type.substr(0, type.find_first_of("; "));
  if (bare != "application/json") {
    return problem(415, request.path,
                   make_error(Code::InvalidArgument,
                              type.empty() ? "the body has no Content-Type"
                                           : "the body's Content-Type is '" + type + "'",
                              "send JSON and say so: 'Content-Type: application/json'"));
  }
  wire::Faults faults;
  auto parsed = wire::parse_json(request.body, faults);
  if (!parsed) return refuse(call, faults);
  out = std::move(*parsed);
  return std::nullopt;
}

OperationId operation_id(const Call& call) {
  return OperationId{call.captures.at("id")};
}

bool dry_run(const Call& call, wire::Faults& faults) {
  QueryReader query(call, faults);
  const bool dry = query.flag("dry_run");
  query.finish();
  return dry;
}

std::optional<Response> no_parameters(const Call& call) {
  wire::Faults faults;
  QueryReader(call, faults).finish();
  if (faults.empty()) return std::nullopt;
  return refuse(call, faults);
}

PageRequest read_page(QueryReader& query) {
  PageRequest page;
  page.limit = query.natural("limit", 1, 1000).value_or(page.limit);
  page.after = query.text("page_token").value_or("");
  return page;
}

Response page_response(const wire::Json& items, const std::string& next_page_token) {
  return json_response(
      200, wire::Json{{"items", items},
                      {"next_page_token", next_page_token.empty() ? wire::Json(nullptr)
                                                                  : wire::Json(next_page_token)}});
}

void add_all_routes(Router& router, Api& api) {
  add_host_routes(router, api);
  add_pool_routes(router, api);
  add_project_routes(router, api);
  add_rebalancing_routes(router, api);
  add_vm_routes(router, api);
  add_migration_routes(router, api);
  add_forecast_routes(router, api);
  add_job_routes(router, api);
  add_operation_routes(router, api);
  add_event_routes(router, api);
  add_alert_routes(router, api);
  add_system_routes(router, api);
}

}  // namespace mare::rest
