#include "tests/unit/policy/plan_worlds.h"

#include <algorithm>
#include <functional>
#include <map>

namespace mare::policy::testing {
namespace {

template <typename T>
T one_of(Rng& rng, std::initializer_list<T> values) {
  return *(values.begin() + rng.below(values.size()));
}

const ClusterHost* find_host(const Cluster& cluster, const HostId& id) {
  const auto found = std::find_if(cluster.hosts.begin(), cluster.hosts.end(),
                                  [&id](const ClusterHost& host) { return host.id == id; });
  return found == cluster.hosts.end() ? nullptr : &*found;
}

bool has_tags(const ClusterHost& host, const ClusterVm& vm) {
  return std::all_of(vm.needs.begin(), vm.needs.end(), [&host](const std::string& tag) {
    return std::find(host.tags.begin(), host.tags.end(), tag) != host.tags.end();
  });
}

std::map<HostId, std::int64_t> free_memory(const Cluster& cluster) {
  std::map<HostId, std::int64_t> out;
  for (const auto& host : cluster.hosts) {
    out[host.id] = static_cast<std::int64_t>(host.memory.count);
  }
  for (const auto& vm : cluster.vms) {
    if (!vm.host) continue;
    const ClusterHost* host = find_host(cluster, *vm.host);
    out[*vm.host] -= static_cast<std::int64_t>((vm.memory + host->vm_overhead).count);
  }
  return out;
}

ClusterVm random_vm(Rng& rng, int number, const std::vector<ClusterHost>& hosts) {
  ClusterVm vm =
      vm_of("v" + std::to_string(number), one_of<std::uint64_t>(rng, {256, 512, 1024, 2048}), "");
  vm.vcpus = one_of(rng, {1.0, 2.0, 4.0});
  vm.host = hosts[rng.below(hosts.size())].id;
  if (rng.chance(0.3)) vm.job = JobId{"job-" + std::to_string(rng.below(3))};
  if (rng.chance(0.3)) vm.cpu_demand = rng.unit() * vm.vcpus;
  if (rng.chance(0.15)) vm.affinity = "together-" + std::to_string(rng.below(2));
  if (rng.chance(0.15)) vm.anti_affinity = "apart-" + std::to_string(rng.below(2));
  if (rng.chance(0.1)) vm.needs = {"fast"};
  vm.locked = rng.chance(0.1);
  vm.cost = {rng.unit() * 3, 1e8};
  return vm;
}

}  // namespace

ClusterHost host_of(const std::string& name, std::uint64_t memory_mib, double cpus) {
  ClusterHost out;
  out.id = HostId{name};
  out.memory = mebibytes(memory_mib);
  out.cpus = cpus;
  return out;
}

ClusterVm vm_of(const std::string& name, std::uint64_t memory_mib, const std::string& host) {
  ClusterVm out;
  out.id = VmId{name};
  out.memory = mebibytes(memory_mib);
  if (!host.empty()) out.host = HostId{host};
  return out;
}

Cluster random_cluster(Rng& rng) {
  Cluster out;
  const int hosts = 2 + static_cast<int>(rng.below(11));
  for (int h = 0; h < hosts; ++h) {
    out.hosts.push_back(host_of("h" + std::to_string(h),
                                one_of<std::uint64_t>(rng, {6000, 8000, 12000}),
                                one_of(rng, {4.0, 8.0})));
    out.hosts.back().vm_overhead = mebibytes(rng.below(2) * 100);
    out.hosts.back().usable = !rng.chance(0.05);
    if (rng.chance(0.6)) out.hosts.back().tags = {"fast"};
  }
  const int vms = static_cast<int>(rng.below(static_cast<std::uint64_t>(hosts) * 6));
  for (int v = 0; v < vms; ++v) {
    out.vms.push_back(random_vm(rng, v, out.hosts));
    if (!overfull(out).empty()) out.vms.pop_back();
  }
  for (std::size_t i = 0; i + 1 < out.vms.size() && rng.chance(0.9); i += 2) {
    out.traffic.push_back({out.vms[i].id, out.vms[i + 1].id, rng.unit() * 1e7});
  }
  return out;
}

PlanPolicy random_policy(Rng& rng) {
  PlanPolicy out;
  out.n_plus_one = rng.chance(0.6);
  out.max_vcpus_per_cpu = rng.chance(0.2) ? 4 : 0;
  out.margin = one_of(rng, {0.0, 0.05, 0.2});
  out.min_gain = one_of(rng, {0.0, 0.002, 0.02});
  return out;
}

std::string overfull(const Cluster& cluster) {
  for (const auto& [id, free] : free_memory(cluster)) {
    if (free < 0) return id.value + " is over its memory";
  }
  for (const auto& vm : cluster.vms) {
    if (vm.host && !has_tags(*find_host(cluster, *vm.host), vm)) return vm.id.value + " lacks tags";
  }
  return {};
}

int conflicts(const Cluster& cluster) {
  int out = 0;
  for (const auto& a : cluster.vms) {
    for (const auto& b : cluster.vms) {
      const bool same = a.id < b.id && a.host && a.host == b.host && !a.anti_affinity.empty();
      out += same && a.anti_affinity == b.anti_affinity ? 1 : 0;
    }
  }
  return out;
}

int truly_exposed(const Cluster& cluster) {
  int exposed = 0;
  for (const auto& failing : cluster.hosts) {
    if (!failing.usable) continue;
    Cluster rest = cluster;
    std::vector<std::size_t> lost;
    for (std::size_t v = 0; v < rest.vms.size(); ++v) {
      if (rest.vms[v].host != failing.id) continue;
      rest.vms[v].host.reset();
      lost.push_back(v);
    }
    std::sort(lost.begin(), lost.end(), [&rest](std::size_t a, std::size_t b) {
      return rest.vms[a].memory > rest.vms[b].memory;
    });
    auto free = free_memory(rest);
    int steps = 200'000;
    const std::function<bool(std::size_t)> restart = [&](std::size_t item) {
      if (item == lost.size()) return true;
      ClusterVm& vm = rest.vms[lost[item]];
      const int before = conflicts(rest);
      for (const auto& host : rest.hosts) {
        const auto need = static_cast<std::int64_t>((vm.memory + host.vm_overhead).count);
        const bool fits = host.usable && host.id != failing.id && has_tags(host, vm);
        if (!fits || free[host.id] < need || --steps < 0) continue;
        vm.host = host.id;
        free[host.id] -= need;
        if (conflicts(rest) == before && restart(item + 1)) return true;
        free[host.id] += need;
        vm.host.reset();
      }
      return false;
    };
    exposed += restart(0) ? 0 : 1;
  }
  return exposed;
}

}  // namespace mare::policy::testing
