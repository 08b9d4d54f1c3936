// Hosts.
#include "rest/server/api.h"

namespace mare::rest {
namespace {

HostId host_id(const Call& call) {
  return HostId{call.captures.at("id")};
}

wire::HostRecord with_use(const Host& host, const std::vector<Vm>& vms) {
  wire::HostRecord out{host, {}};
  for (const auto& vm : vms) {
    if (vm.host != host.id) continue;
    ++out.use.vms;
    out.use.memory_allocated = out.use.memory_allocated + vm.memory + host.vm_overhead;
  }
  return out;
}

Result<wire::HostRecord> find_host(const store::Store& store, const HostId& id) {
  return ask<wire::HostRecord>(store, [&](const store::Reader& r) -> Result<wire::HostRecord> {
    const auto host = r.host(id);
    if (!host) return host.error();
    const auto vms = r.vms_on(id);
    if (!vms) return vms.error();
    return with_use(*host, *vms);
  });
}

Response list_hosts(const Api& api, const Call& call) {
  using Records = std::vector<wire::HostRecord>;
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  const auto fetch = [&](std::size_t) {
    return ask<Records>(api.store, [](const store::Reader& r) -> Result<Records> {
      const auto hosts = r.hosts();
      if (!hosts) return hosts.error();
      const auto vms = r.vms();
      if (!vms) return vms.error();
      Records out;
      for (const auto& host : *hosts) out.push_back(with_use(host, *vms));
      return out;
    });
  };
  return page_of<wire::HostRecord>(
      call, page, kAllRows, fetch, [](const auto&) { return true; },
      [](const auto& row) { return row.host.id.value; },
      [](const auto& row) { return wire::to_json(row); });
}

Response add_host(Api& api, const Call& call) {
  wire::HostBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.submit(engine::HostAddRequest{body.id, body.address}));
}

Response drain_host(Api& api, const Call& call) {
  wire::DrainBody body;
  if (auto refused = read_body(call, body)) return *refused;
  wire::Faults faults;
  const bool dry = dry_run(call, faults);
  if (!faults.empty()) return refuse(call, faults);
  if (dry) {
    return accepted(call,
                    api.engine.submit(engine::DrainForecastRequest{host_id(call), body.policy}));
  }
  return accepted(call, api.engine.submit(engine::HostDrainRequest{host_id(call), body.policy}));
}

Response evacuate_host(Api& api, const Call& call) {
  wire::EvacuationBody body;
  if (auto refused = read_body(call, body)) return *refused;
  wire::Faults faults;
  const bool dry = dry_run(call, faults);
  if (!faults.empty()) return refuse(call, faults);
  if (dry) {
    return accepted(
        call, api.engine.submit(engine::EvacuationForecastRequest{host_id(call), body.within}));
  }
  return accepted(
      call, api.engine.submit(engine::EvacuateRequest{host_id(call), body.within, body.reason}));
}

Response activate_host(Api& api, const Call& call) {
  wire::EmptyBody body;
  if (auto refused = read_body(call, body)) return *refused;
  const auto host = api.engine.activate(host_id(call));
  if (!host) return refuse(call, host.error());
  return entity(call, find_host(api.store, host->id));
}

}  // namespace

void add_host_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/hosts", "listHosts",
      [&api](const Call& call) { return list_hosts(api, call); });
  add(router, "POST", "/api/v1/hosts", "addHost",
      [&api](const Call& call) { return add_host(api, call); });
  add(router, "GET", "/api/v1/hosts/{id}", "getHost", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return entity(call, find_host(api.store, host_id(call)));
  });
  add(router, "DELETE", "/api/v1/hosts/{id}", "removeHost", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return accepted(call, api.engine.submit(engine::HostRemoveRequest{host_id(call)}));
  });
  add(router, "POST", "/api/v1/hosts/{id}:drain", "drainHost",
      [&api](const Call& call) { return drain_host(api, call); });
  add(router, "POST", "/api/v1/hosts/{id}:evacuate", "evacuateHost",
      [&api](const Call& call) { return evacuate_host(api, call); });
  add(router, "POST", "/api/v1/hosts/{id}:activate", "activateHost",
      [&api](const Call& call) { return activate_host(api, call); });
}

}  // namespace mare::rest
