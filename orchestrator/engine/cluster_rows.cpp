#include "orchestrator/engine/cluster_rows.h"

#include <algorithm>
#include <map>
#include <set>

namespace mare::engine {
namespace {

// A pool's tag can't be mistaken for one of these: names have no blank.
const char* const kEncrypts = "encrypts migrations";
const char* const kPlain = "sends plainly";

std::string encryption(const Host& host) {
  return host.migration_tls ? kEncrypts : kPlain;
}

/// What is not in a VM's own row.
struct Around {
  std::map<PoolId, Pool> pools;
  std::map<HostId, Host> hosts;
  std::map<VmId, JobId> jobs;        // that have a rank on it
  std::set<std::string> held;        // VMs that an operation works on
  std::map<HostId, Bytes> promised;  // by operations, to VMs that are not there yet
};

Status read_jobs(const store::Reader& reader, const Pool& pool, Around& around) {
  auto jobs = reader.unfinished_jobs_of(pool.id);
  if (!jobs) return jobs.error();
  for (const auto& job : *jobs) {
    for (const auto& vm : job.vms) around.jobs.emplace(vm, job.id);
  }
  return ok_status();
}

Result<Around> read_around(const store::Reader& reader) {
  Around out;
  auto hosts = reader.hosts();
  if (!hosts) return hosts.error();
  for (const auto& host : *hosts) out.hosts.emplace(host.id, host);
  auto pools = reader.pools();
  if (!pools) return pools.error();
  for (const auto& pool : *pools) {
    out.pools.emplace(pool.id, pool);
    if (auto read = read_jobs(reader, pool, out); !read) return read.error();
  }
  store::OperationFilter filter;
  filter.unfinished_only = true;
  filter.limit = 1'000'000;
  auto operations = reader.operations(filter);
  if (!operations) return operations.error();
  for (const auto& operation : *operations) {
    if (to_string(operation.kind).starts_with("vm.")) out.held.insert(operation.target);
  }
  auto reservations = reader.reservations();
  if (!reservations) return reservations.error();
  for (const auto& one : *reservations) {
    out.promised[one.host] = out.promised[one.host] + one.memory;
  }
  return out;
}

policy::ClusterHost host_of(const Host& host, const Around& around) {
  policy::ClusterHost out;
  out.id = host.id;
  const auto promised = around.promised.find(host.id);
  const std::uint64_t taken = promised == around.promised.end() ? 0 : promised->second.count;
  out.memory = Bytes{host.memory.count - std::min(host.memory.count, taken)};
  out.vm_overhead = host.vm_overhead;
  out.cpus = std::max(1, host.cpus);
  out.usable = host.admin == HostAdmin::Active && host.health == HostHealth::Up;
  out.tags.push_back(encryption(host));
  for (const auto& [id, pool] : around.pools) {
    const bool limited_to =
        std::find(pool.hosts.begin(), pool.hosts.end(), host.id) != pool.hosts.end();
    if (limited_to) out.tags.push_back(id.value);
  }
  return out;
}

policy::ClusterVm vm_of(const Vm& vm, const Host& host, const Around& around) {
  policy::ClusterVm out;
  out.id = vm.id;
  out.memory = vm.memory;
  out.vcpus = vm.vcpus;
  out.host = host.id;
  const auto job = around.jobs.find(vm.id);
  if (job != around.jobs.end()) out.job = job->second;
  out.needs.push_back(encryption(host));
  const auto pool = around.pools.find(vm.pool);
  if (pool != around.pools.end() && !pool->second.hosts.empty()) {
    out.needs.push_back(vm.pool.value);
  }
  out.locked = vm.state != VmState::Running || around.held.contains(vm.id.value) ||
               host.health != HostHealth::Up;
  return out;
}

}  // namespace

Result<policy::Cluster> read_cluster(const store::Reader& reader) {
  auto around = read_around(reader);
  if (!around) return around.error();
  policy::Cluster out;
  for (const auto& [id, host] : around->hosts) out.hosts.push_back(host_of(host, *around));
  auto vms = reader.vms();
  if (!vms) return vms.error();
  for (const auto& vm : *vms) {
    if (!vm.host) continue;
    const auto host = around->hosts.find(*vm.host);
    if (host != around->hosts.end()) out.vms.push_back(vm_of(vm, host->second, *around));
  }
  return out;
}

}  // namespace mare::engine
