// Operations: their state, their history, waiting for their end.
#include "rest/server/api.h"
#include "rest/server/drain_explanation.h"
#include "rest/wire/time.h"

namespace mare::rest {
namespace {

constexpr Milliseconds kLongestWait{60'000};
const char* const kKinds =
    "host.add, host.remove, host.drain, pool.create, pool.scale, pool.delete, vm.start, vm.stop, "
    "vm.migrate, job.run, forecast.make, plan.drain, plan.layout, layout.change, "
    "checkpoint.take, checkpoint.restore, recovery.run, plan.rebalance, cluster.rebalance, "
    "host.evacuate, plan.evacuate";

Result<Operation> find_operation(const Api& api, const Call& call) {
  return ask<Operation>(api.store, [&](const auto& r) { return r.operation(operation_id(call)); });
}

Response list_operations(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  store::OperationFilter filter;
  filter.target = query.text("target");
  filter.kind = query.name_of<OperationKind>("kind", operation_kind_from, kKinds);
  if (auto parent = query.text("parent")) filter.parent = OperationId{*parent};
  const auto state = query.text("state");
  const auto outcome = query.name_of<Outcome>(
      "outcome", outcome_from, "pending, succeeded, failed, cancelled, needs_operator");
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  const auto fetch = [&](std::size_t n) {
    filter.limit = n;
    return ask<std::vector<Operation>>(api.store,
                                       [&](const auto& r) { return r.operations(filter); });
  };
  return page_of<Operation>(
      call, page, 256, fetch,
      [&](const Operation& row) {
        return (!outcome || row.outcome == *outcome) && (!state || row.state == *state);
      },
      [](const Operation& row) { return row.id.value; },
      [](const Operation& row) { return wire::to_json(row); });
}

Answer get_operation(Api& api, const Call& call, const std::shared_ptr<Exchange>& exchange) {
  wire::Faults faults;
  QueryReader query(call, faults);
  std::optional<Milliseconds> wait;
  if (const auto written = query.text("wait")) {
    wait = wire::parse_duration(*written);
    if (!wait || *wait > kLongestWait) {
      query.fault("wait", "'" + *written + "' is no time; give up to 60s, as 30s or 500ms");
    }
  }
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  const auto operation = find_operation(api, call);
  if (!operation) return refuse(call, operation.error());
  const bool over = operation->finished() || !wait || wait->count() == 0;
  // Beyond the limit of waiters the answer is the present state; clients ask again anyway.
  if (!over && api.followers.add(exchange, OperationWait{operation->id, *wait})) return Later{};
  return json_response(200, wire::to_json(*operation));
}

Response history(const Api& api, const Call& call) {
  if (auto refused = no_parameters(call)) return *refused;
  using Lines = std::vector<OperationEvent>;
  const auto lines = ask<Lines>(api.store, [&](const store::Reader& r) -> Result<Lines> {
    const auto operation = r.operation(operation_id(call));  // An unknown one is not found.
    if (!operation) return operation.error();
    return r.history(operation->id);
  });
  if (!lines) return refuse(call, lines.error());
  wire::Json items = wire::Json::array();
  for (const auto& line : *lines) items.push_back(wire::to_json(line));
  return page_response(items, "");
}

Response explain_drain(const Api& api, const Call& call) {
  if (auto refused = no_parameters(call)) return *refused;
  const auto rows = ask<DrainRows>(
      api.store, [&](const store::Reader& r) { return read_drain(r, operation_id(call)); });
  return rows ? json_response(200, drain_explanation(*rows)) : refuse(call, rows.error());
}

Response cancel_operation(Api& api, const Call& call) {
  wire::EmptyBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.cancel(operation_id(call)));
}

}  // namespace

void add_operation_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/operations", "listOperations",
      [&api](const Call& call) { return list_operations(api, call); });
  router.add({"GET", "/api/v1/operations/{id}", "getOperation", false,
              [&api](const Call& call, const std::shared_ptr<Exchange>& exchange) {
                return get_operation(api, call, exchange);
              }});
  add(router, "GET", "/api/v1/operations/{id}/events", "getOperationEvents",
      [&api](const Call& call) { return history(api, call); });
  add(router, "GET", "/api/v1/operations/{id}/explanation", "explainDrain",
      [&api](const Call& call) { return explain_drain(api, call); });
  add(router, "POST", "/api/v1/operations/{id}:cancel", "cancelOperation",
      [&api](const Call& call) { return cancel_operation(api, call); });
}

}  // namespace mare::rest
