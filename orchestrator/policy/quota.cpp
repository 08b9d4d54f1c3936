#include "orchestrator/policy/quota.h"

#include <algorithm>

namespace mare::policy {
namespace {

Error beyond(const Quota& quota, const std::string& has, const std::string& may) {
  const std::string& name = quota.project.value;
  return make_error(
      Code::ResourceExhausted,
      "project '" + name + "' has " + has + " of the " + may + " it may have",
      "shrink or delete a pool of it, or raise its quota with 'mare project quota " + name + "'");
}

}  // namespace

ProjectUse use_of(const std::vector<Vm>& vms) {
  ProjectUse out;
  for (const auto& vm : vms) {
    ++out.vms;
    out.memory = out.memory + vm.memory;
    if (vm.host) out.hosts.insert(*vm.host);
  }
  return out;
}

Allowance allowance(const Quota& quota, const ProjectUse& use, Bytes memory, int more) {
  Allowance out{more, {}};
  // A quota may be below what there is already.
  if (quota.vms && *quota.vms - use.vms < more) {
    out.vms = std::max(0, *quota.vms - use.vms);
    out.refusal = beyond(quota, std::to_string(use.vms), std::to_string(*quota.vms) + " VMs");
  }
  if (quota.memory && memory.count > 0) {
    const auto left = quota.memory->count - std::min(quota.memory->count, use.memory.count);
    const auto fit = left / memory.count;
    if (fit < static_cast<std::uint64_t>(out.vms)) {
      out.vms = static_cast<int>(fit);
      out.refusal = beyond(quota, mib_text(use.memory), mib_text(*quota.memory));
    }
  }
  return out;
}

std::optional<HostCap> host_cap(const Quota& quota, const ProjectUse& use) {
  if (!quota.hosts) return std::nullopt;
  return HostCap{use.hosts, static_cast<std::size_t>(std::max(0, *quota.hosts))};
}

}  // namespace mare::policy
