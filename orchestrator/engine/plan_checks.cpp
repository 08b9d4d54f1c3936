// The checks that several requests share.
#include <algorithm>

#include "orchestrator/engine/plan.h"

namespace mare::engine {

Status check_name(const std::string& field, const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  const bool fits = !name.empty() && name.size() <= 32 && name.front() >= 'a' &&
                    name.front() <= 'z' && name.back() != '-' &&
                    std::all_of(name.begin(), name.end(), allowed);
  if (fits) return ok_status();
  return field_error(field, "'" + name + "' can't be a name",
                     "use 1 to 32 of a-z, 0-9 and '-', beginning with a letter");
}

Result<std::vector<HostId>> encrypting_alike(const store::Reader& reader, const Host& source) {
  auto hosts = reader.hosts();
  if (!hosts) return hosts.error();
  std::vector<HostId> out;
  for (const auto& host : *hosts) {
    if (host.migration_tls == source.migration_tls) out.push_back(host.id);
  }
  return out;
}

Result<std::vector<policy::Room>> rooms_now(const store::Reader& reader,
                                            const std::vector<HostId>& allowed,
                                            const std::optional<HostId>& except) {
  auto hosts = reader.hosts();
  if (!hosts) return hosts.error();
  auto vms = reader.vms();
  if (!vms) return vms.error();
  auto reservations = reader.reservations();
  if (!reservations) return reservations.error();
  std::vector<policy::Claim> claims;
  for (const auto& r : *reservations) claims.push_back({r.host, r.memory});
  return policy::rooms(*hosts, *vms, claims, allowed, except);
}

}  // namespace mare::engine
