// Pools: their sizes, and the rules that these follow.
#include "rest/server/api.h"

namespace mare::rest {
namespace {

PoolId pool_id(const Call& call) {
  return PoolId{call.captures.at("id")};
}

Response list_pools(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  return page_of<Pool>(
      call, page, kAllRows,
      [&](std::size_t) {
        return ask<std::vector<Pool>>(api.store, [](const auto& r) { return r.pools(); });
      },
      [](const auto&) { return true; }, [](const auto& pool) { return pool.id.value; },
      [](const auto& pool) { return wire::to_json(pool); });
}

Response create_pool(Api& api, const Call& call) {
  wire::PoolBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.submit(engine::PoolCreateRequest{
                            body.id, body.image, body.size, body.memory, body.vcpus, body.hosts,
                            body.move_policy, body.project}));
}

Response patch_pool(Api& api, const Call& call) {
  wire::PoolPatchBody body;
  if (auto refused = no_parameters(call)) return *refused;
  if (auto refused = read_body(call, body)) return *refused;
  if (body.size) {
    return accepted(call, api.engine.submit(engine::PoolScaleRequest{pool_id(call), *body.size,
                                                                     body.best_effort}));
  }
  return entity(call, api.engine.set_move_policy(pool_id(call), *body.move_policy));
}

Response delete_pool(Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const bool force = query.flag("force");
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  return accepted(call, api.engine.submit(engine::PoolDeleteRequest{pool_id(call), force}));
}

Response put_autoscale(Api& api, const Call& call) {
  wire::AutoscaleBody body;
  if (auto refused = no_parameters(call)) return *refused;
  if (auto refused = read_body(call, body)) return *refused;
  return entity(call, api.engine.set_autoscale(pool_id(call), body.setting));
}

Response get_autoscale(const Api& api, const Call& call) {
  if (auto refused = no_parameters(call)) return *refused;
  return entity(call, ask<Autoscaler>(api.store, [&](const auto& r) -> Result<Autoscaler> {
                  if (auto pool = r.pool(pool_id(call)); !pool) return pool.error();
                  return r.autoscaler(pool_id(call));
                }));
}

Response delete_autoscale(Api& api, const Call& call) {
  if (auto refused = no_parameters(call)) return *refused;
  const auto gone = api.engine.clear_autoscale(pool_id(call));
  if (!gone) return refuse(call, gone.error());
  return entity(call, ask<Pool>(api.store, [&](const auto& r) { return r.pool(pool_id(call)); }));
}

Response post_metric(Api& api, const Call& call) {
  wire::MetricBody body;
  if (auto refused = no_parameters(call)) return *refused;
  if (auto refused = read_body(call, body)) return *refused;
  return entity(call, api.engine.post_metric(pool_id(call), body.value));
}

}  // namespace

void add_pool_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/pools", "listPools",
      [&api](const Call& call) { return list_pools(api, call); });
  add(router, "POST", "/api/v1/pools", "createPool",
      [&api](const Call& call) { return create_pool(api, call); });
  add(router, "GET", "/api/v1/pools/{id}", "getPool", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return entity(call, ask<Pool>(api.store, [&](const auto& r) { return r.pool(pool_id(call)); }));
  });
  add(router, "PATCH", "/api/v1/pools/{id}", "patchPool",
      [&api](const Call& call) { return patch_pool(api, call); });
  add(router, "DELETE", "/api/v1/pools/{id}", "deletePool",
      [&api](const Call& call) { return delete_pool(api, call); });
  const std::string rule = "/api/v1/pools/{id}/autoscale";
  add(router, "GET", rule, "getAutoscale",
      [&api](const Call& call) { return get_autoscale(api, call); });
  add(router, "PUT", rule, "putAutoscale",
      [&api](const Call& call) { return put_autoscale(api, call); });
  add(router, "DELETE", rule, "deleteAutoscale",
      [&api](const Call& call) { return delete_autoscale(api, call); });
  add(router, "POST", "/api/v1/pools/{id}/metrics", "postPoolMetric",
      [&api](const Call& call) { return post_metric(api, call); });
}

}  // namespace mare::rest
