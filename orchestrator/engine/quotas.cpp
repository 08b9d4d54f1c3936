#include "orchestrator/engine/quotas.h"

#include <algorithm>

#include "orchestrator/engine/plan.h"

namespace mare::engine {
namespace {

constexpr int kMost = 1'000'000;

/// Why a host with room may not be one of those that were looked at.
Error with_cap(const Grant& grant, const Error& error) {
  if (!grant.quota.hosts) return error;
  return error.during("project '" + grant.quota.project.value + "' may use " +
                      std::to_string(*grant.quota.hosts) + " hosts, has VMs on " +
                      std::to_string(grant.use.hosts.size()));
}

Status check(const Quota& quota) {
  if (auto named = check_name("project", quota.project.value); !named) return named;
  const auto fits = [](const std::optional<int>& limit) {
    return !limit || (*limit >= 0 && *limit <= kMost);
  };
  if (!fits(quota.vms))
    return field_error("vms", "so many VMs can't be counted", "give 0 to 1000000");
  if (!fits(quota.hosts)) {
    return field_error("hosts", "so many hosts can't be counted", "give 0 to 1000000");
  }
  return ok_status();
}

}  // namespace

Result<Grant> grant_of(const store::Reader& reader, const ProjectId& project) {
  auto quota = reader.quota(project);
  if (!quota) return quota.error();
  auto vms = reader.vms_of_project(project);
  if (!vms) return vms.error();
  return Grant{*quota, policy::use_of(*vms)};
}

policy::Placing place_granted(const Grant& grant, const std::vector<policy::Room>& rooms,
                              Bytes memory, int count) {
  const auto allowed = policy::allowance(grant.quota, grant.use, memory, count);
  auto out =
      policy::place_most(rooms, memory, allowed.vms, policy::host_cap(grant.quota, grant.use));
  if (out.refusal) {
    out.refusal = with_cap(grant, *out.refusal);
  } else {
    out.refusal = allowed.refusal;
  }
  return out;
}

Result<HostId> place_granted(const Grant& grant, const std::vector<policy::Room>& rooms,
                             Bytes memory) {
  const auto cap = policy::host_cap(grant.quota, grant.use);
  auto host = policy::place(cap ? policy::within(rooms, *cap) : rooms, memory);
  if (!host) return with_cap(grant, host.error());
  return host;
}

Result<Quota> keep_quota(store::Store& store, const Quota& quota) {
  if (auto good = check(quota); !good) return good.error();
  auto done = store.write([&](store::Transaction& tx) { return tx.put(quota); });
  if (!done) return done.error();
  return quota;
}

Status erase_quota(store::Store& store, const ProjectId& project) {
  return store.write([&](store::Transaction& tx) -> Status {
    auto all = tx.quotas();
    if (!all) return all.error();
    const bool there = std::any_of(all->begin(), all->end(),
                                   [&](const Quota& quota) { return quota.project == project; });
    if (there) return tx.erase_quota(project);
    return make_error(Code::NotFound, "project '" + project.value + "' has no quota",
                      "'mare project list' shows those that have");
  });
}

}  // namespace mare::engine
