#include "orchestrator/engine/pool_vms.h"

#include <set>

#include "orchestrator/engine/spec.h"

namespace mare::engine {

Result<std::vector<Ipv4Address>> free_addresses(const store::Reader& reader,
                                                const Settings& settings, int count) {
  auto vms = reader.vms();
  if (!vms) return vms.error();
  std::set<std::uint32_t> taken;
  for (const auto& vm : *vms) taken.insert(vm.ip.value);
  std::vector<Ipv4Address> out;
  const Ipv4Subnet& subnet = settings.vm_subnet;
  for (std::uint32_t i = 1; i <= subnet.usable() && out.size() < static_cast<std::size_t>(count);
       ++i) {
    const Ipv4Address candidate{subnet.network.value + i};
    if (!taken.contains(candidate.value)) out.push_back(candidate);
  }
  return out;
}

Error too_few_addresses(const Settings& settings, std::size_t have, int need) {
  const Ipv4Subnet& subnet = settings.vm_subnet;
  return make_error(Code::ResourceExhausted,
                    "the VM subnet " + subnet.network.text() + "/" +
                        std::to_string(subnet.prefix_length) + " has " + std::to_string(have) +
                        " free addresses, " + std::to_string(need) + " are needed",
                    "delete a pool, or start mared with a larger --vm-subnet");
}

Status add_vms(store::Transaction& tx, const Clock& clock, const Pool& pool,
               const std::vector<int>& indices, const std::vector<Ipv4Address>& addresses) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Vm vm;
    vm.id = VmId{pool.id.value + "-" + std::to_string(indices[i])};
    vm.pool = pool.id;
    vm.index = indices[i];
    vm.ip = addresses.at(i);
    vm.mac = mac_for(vm.ip);
    vm.memory = pool.memory;
    vm.vcpus = pool.vcpus;
    vm.created = clock.wall_now();
    if (auto done = put_vm(tx, clock, vm); !done) return done;
  }
  return ok_status();
}

}  // namespace mare::engine
