// Projects: their quotas, and what they use.
#include <map>
#include <set>

#include "rest/server/api.h"

namespace mare::rest {
namespace {

ProjectId project_id(const Call& call) {
  return ProjectId{call.captures.at("id")};
}

/// By name: every project that has a pool or a quota, and the one of pools that name none.
Result<std::vector<wire::ProjectRecord>> projects_of(const store::Reader& reader) {
  const auto pools = reader.pools();
  if (!pools) return pools.error();
  const auto quotas = reader.quotas();
  if (!quotas) return quotas.error();
  const auto vms = reader.vms();
  if (!vms) return vms.error();
  std::map<ProjectId, wire::ProjectRecord> found;
  std::map<PoolId, ProjectId> owners;
  found[ProjectId{kDefaultProject}];
  for (const auto& quota : *quotas) found[quota.project].quota = quota;
  for (const auto& pool : *pools) {
    found[pool.project].pools.push_back(pool.id);
    owners[pool.id] = pool.project;
  }
  std::map<ProjectId, std::set<HostId>> hosts;
  for (const auto& vm : *vms) {
    const ProjectId& owner = owners.at(vm.pool);  // the schema holds pools of VMs
    auto& record = found[owner];
    ++record.vms;
    record.memory = record.memory + vm.memory;
    if (vm.host) hosts[owner].insert(*vm.host);
  }
  std::vector<wire::ProjectRecord> out;
  for (auto& [id, record] : found) {
    record.quota.project = id;
    record.hosts.assign(hosts[id].begin(), hosts[id].end());
    out.push_back(std::move(record));
  }
  return out;
}

Result<wire::ProjectRecord> find_project(const store::Store& store, const ProjectId& id) {
  auto all = ask<std::vector<wire::ProjectRecord>>(store, projects_of);
  if (!all) return all.error();
  for (auto& record : *all) {
    if (record.quota.project == id) return std::move(record);
  }
  return make_error(Code::NotFound, "there is no project '" + id.value + "'",
                    "'mare project list' shows those that have a pool or a quota");
}

Response list_projects(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  return page_of<wire::ProjectRecord>(
      call, page, kAllRows,
      [&](std::size_t) { return ask<std::vector<wire::ProjectRecord>>(api.store, projects_of); },
      [](const auto&) { return true; }, [](const auto& row) { return row.quota.project.value; },
      [](const auto& row) { return wire::to_json(row); });
}

Response put_quota(Api& api, const Call& call) {
  wire::QuotaBody body;
  if (auto refused = no_parameters(call)) return *refused;
  if (auto refused = read_body(call, body)) return *refused;
  const auto kept =
      api.engine.set_quota(Quota{project_id(call), body.vms, body.memory, body.hosts});
  if (!kept) return refuse(call, kept.error());
  return entity(call, find_project(api.store, kept->project));
}

Response delete_quota(Api& api, const Call& call) {
  if (auto refused = no_parameters(call)) return *refused;
  // Read before: without its quota a project without pools is none.
  const auto before = find_project(api.store, project_id(call));
  if (!before) return refuse(call, before.error());
  if (auto gone = api.engine.clear_quota(project_id(call)); !gone) {
    return refuse(call, gone.error());
  }
  wire::ProjectRecord now = *before;
  now.quota = Quota{now.quota.project};
  return json_response(200, wire::to_json(now));
}

}  // namespace

void add_project_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/projects", "listProjects",
      [&api](const Call& call) { return list_projects(api, call); });
  add(router, "GET", "/api/v1/projects/{id}", "getProject", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return entity(call, find_project(api.store, project_id(call)));
  });
  add(router, "PUT", "/api/v1/projects/{id}/quota", "putQuota",
      [&api](const Call& call) { return put_quota(api, call); });
  add(router, "DELETE", "/api/v1/projects/{id}/quota", "deleteQuota",
      [&api](const Call& call) { return delete_quota(api, call); });
}

}  // namespace mare::rest
