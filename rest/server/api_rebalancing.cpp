// How running VMs are kept well placed: the setting, what was seen, and a round by hand.
#include "rest/server/api.h"

namespace mare::rest {
namespace {

Response get_rebalancing(const Api& api, const Call& call) {
  if (auto refused = no_parameters(call)) return *refused;
  return entity(call, ask<Rebalancing>(api.store, [](const auto& r) { return r.rebalancing(); }));
}

Response put_rebalancing(Api& api, const Call& call) {
  wire::RebalancingBody body;
  if (auto refused = no_parameters(call)) return *refused;
  if (auto refused = read_body(call, body)) return *refused;
  return entity(call, api.engine.set_rebalancing(body.setting));
}

Response run_rebalancing(Api& api, const Call& call) {
  wire::EmptyBody body;
  if (auto refused = read_body(call, body)) return *refused;
  wire::Faults faults;
  const bool dry = dry_run(call, faults);
  if (!faults.empty()) return refuse(call, faults);
  if (dry) return accepted(call, api.engine.submit(engine::RebalanceForecastRequest{}));
  return accepted(call, api.engine.submit(engine::RebalanceRequest{}));
}

}  // namespace

void add_rebalancing_routes(Router& router, Api& api) {
  const std::string path = "/api/v1/rebalancing";
  add(router, "GET", path, "getRebalancing",
      [&api](const Call& call) { return get_rebalancing(api, call); });
  add(router, "PUT", path, "putRebalancing",
      [&api](const Call& call) { return put_rebalancing(api, call); });
  add(router, "POST", path + ":run", "runRebalancing",
      [&api](const Call& call) { return run_rebalancing(api, call); });
}

}  // namespace mare::rest
