#include "orchestrator/policy/cluster_state.h"

#include <algorithm>
#include <cmath>

namespace mare::policy {
namespace {

constexpr int kAffinity = 0;
constexpr int kAnti = 1;

double deviation(double sum, double squares, double one_nth) {
  const double mean = sum * one_nth;
  return std::sqrt(std::max(0.0, squares * one_nth - mean * mean));
}
double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}
double excess(double ratio) {
  return std::max(0.0, ratio - 1);
}
double pairs(int members) {
  return static_cast<double>(members) * (members - 1) / 2;
}

/// The numbers of the groups, by name.
int group_number(std::unordered_map<std::string, int>& numbers, const std::string& name) {
  if (name.empty()) return kNowhere;
  return numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second;
}

}  // namespace

ClusterState::ClusterState(const Cluster& cluster, const PlanPolicy& policy)
    : cluster_(&cluster), policy_(&policy) {
  index_hosts();
  std::unordered_map<HostId, HostIndex> names;
  for (int h = 0; h < hosts(); ++h) names.emplace(host(h).id, h);
  index_vms();
  index_traffic();
  for (int v = 0; v < vms(); ++v) {
    const auto& at_host = source(v).host;
    const auto found = at_host ? names.find(*at_host) : names.end();
    if (found != names.end()) move(v, found->second);
  }
  resum();
}

void ClusterState::index_hosts() {
  hosts_.resize(cluster_->hosts.size());
  for (int h = 0; h < hosts(); ++h) {
    HostUse& use = hosts_[at(h)];
    const ClusterHost& given = host(h);
    use.free = static_cast<std::int64_t>(given.memory.count);
    use.overhead = given.vm_overhead.count;
    use.usable = given.usable && given.memory.count > 0 && given.cpus > 0;
    usable_ += use.usable ? 1 : 0;
    const double cpus = given.cpus > 0 ? given.cpus : 1;
    const double memory = std::max(1.0, static_cast<double>(given.memory.count));
    use.inverse = {1 / memory, 1 / cpus, 1 / cpus};
  }
}

int ClusterState::needs_class(const std::vector<std::string>& needs) {
  std::string key;
  for (const auto& tag : needs) key += tag + '\n';
  const auto [found, is_new] =
      need_classes_.try_emplace(key, static_cast<int>(need_classes_.size()));
  if (!is_new) return found->second;
  std::vector<char> allowed;
  for (const auto& one : cluster_->hosts) {
    const bool has_all = std::all_of(needs.begin(), needs.end(), [&one](const std::string& tag) {
      return std::find(one.tags.begin(), one.tags.end(), tag) != one.tags.end();
    });
    allowed.push_back(has_all ? 1 : 0);
  }
  allowed_.push_back(std::move(allowed));
  return found->second;
}

void ClusterState::index_vms() {
  vms_.resize(cluster_->vms.size());
  std::array<std::unordered_map<std::string, int>, 2> numbers;
  std::array<std::vector<int>, 2> members;
  for (int v = 0; v < vms(); ++v) {
    const ClusterVm& given = source(v);
    VmUse& use = vms_[at(v)];
    const double demand = given.cpu_demand.value_or(given.job ? given.vcpus : 0);
    use.use = {static_cast<double>(given.memory.count), given.vcpus, demand};
    use.needs = needs_class(given.needs);
    use.affinity = group_number(numbers[kAffinity], given.affinity);
    use.anti = group_number(numbers[kAnti], given.anti_affinity);
    for (int kind = 0; kind < 2; ++kind) {
      const int group = kind == kAffinity ? use.affinity : use.anti;
      if (group == kNowhere) continue;
      members[at(kind)].resize(std::max(members[at(kind)].size(), at(group) + 1));
      ++members[at(kind)][at(group)];
    }
  }
  for (std::size_t kind = 0; kind < 2; ++kind) {
    for (const int count : members[kind]) pairs_[kind] += pairs(count);
  }
}

void ClusterState::index_traffic() {
  if (cluster_->traffic.empty()) return;
  std::unordered_map<VmId, VmIndex> names;
  for (int v = 0; v < vms(); ++v) names.emplace(source(v).id, v);
  for (const auto& pair : cluster_->traffic) {
    const auto a = names.find(pair.a);
    const auto b = names.find(pair.b);
    if (a == names.end() || b == names.end() || a == b || pair.bytes_per_s <= 0) continue;
    vms_[at(a->second)].peers.emplace_back(b->second, pair.bytes_per_s);
    vms_[at(b->second)].peers.emplace_back(a->second, pair.bytes_per_s);
    traffic_total_ += pair.bytes_per_s;
  }
}

double ClusterState::traffic_with(VmIndex v, HostIndex h) const {
  double rate = 0;
  for (const auto& [peer, bytes_per_s] : peers(v)) {
    if (host_of(peer) == h) rate += bytes_per_s;
  }
  return rate;
}

Obstacle ClusterState::obstacle(VmIndex v, HostIndex h) const {
  const HostUse& to = hosts_[at(h)];
  if (!to.usable) return Obstacle::Unusable;
  if (!tags_allow(v, h)) return Obstacle::Tags;
  const int anti = vms_[at(v)].anti;
  if (anti != kNowhere && anti_members_on(anti, h) > 0) return Obstacle::AntiAffinity;
  if (to.free < static_cast<std::int64_t>(need(v, h))) return Obstacle::Memory;
  const double limit = policy_->max_vcpus_per_cpu;
  const double vcpus = to.ratio[kVcpus] + source(v).vcpus * to.inverse[kVcpus];
  return limit > 0 && vcpus > limit + 1e-9 ? Obstacle::Vcpus : Obstacle::None;
}

int ClusterState::group_count(int kind, int group, HostIndex h) const {
  // Nowhere stands for all that are placed.
  const auto column = at(h == kNowhere ? hosts() : h);
  const auto found = group_counts_[at(kind)].find(at(group) * (hosts_.size() + 1) + column);
  return found == group_counts_[at(kind)].end() ? 0 : found->second;
}

void ClusterState::count_group(int kind, int group, HostIndex h, int change) {
  if (group == kNowhere) return;
  const std::size_t row = at(group) * (hosts_.size() + 1);
  group_counts_[at(kind)][row + at(h)] += change;
  group_counts_[at(kind)][row + hosts_.size()] += change;
}

ClusterState::Figures ClusterState::need_figures(VmIndex v, const HostUse& host) const {
  Figures figures = vms_[at(v)].use;
  figures[kMemory] += static_cast<double>(host.overhead);
  return figures;
}

ClusterState::Figures ClusterState::ratio_with(const HostUse& host, const Figures& change,
                                               double sign) const {
  Figures out{};
  for (std::size_t k = 0; k < kResources; ++k) {
    out[k] = (host.used[k] + sign * change[k]) * host.inverse[k];
  }
  return out;
}

void ClusterState::Sums::swap_ratio(const Figures& from, const Figures& to) {
  for (std::size_t k = 0; k < kResources; ++k) {
    sum[k] += to[k] - from[k];
    squares[k] += to[k] * to[k] - from[k] * from[k];
  }
  excess += policy::excess(to[kDemand]) - policy::excess(from[kDemand]);
}

/// What a VM on a host adds to the relations, whether it is there already or not.
void ClusterState::count_relations(VmIndex v, HostIndex h, double sign, Sums& sums) const {
  const VmUse& vm = vms_[at(v)];
  for (const auto& [peer, rate] : vm.peers) {
    const HostIndex other = host_of(peer);
    if (other != kNowhere && other != h) sums.cut += sign * rate;
  }
  const int itself = vm.host == kNowhere ? 0 : 1;  // counted in its groups
  const int itself_here = vm.host == h ? 1 : 0;
  if (vm.affinity != kNowhere) {
    const int others = group_count(kAffinity, vm.affinity, kNowhere) - itself;
    const int others_here = group_count(kAffinity, vm.affinity, h) - itself_here;
    sums.apart += sign * (others - others_here);
  }
  if (vm.anti != kNowhere) {
    sums.together += sign * (group_count(kAnti, vm.anti, h) - itself_here);
  }
}

ClusterState::Sums ClusterState::sums_without(VmIndex v) const {
  Sums sums = sums_;
  const HostIndex from = host_of(v);
  if (from == kNowhere) return sums;
  if (usable(from)) {
    const HostUse& host = hosts_[at(from)];
    sums.swap_ratio(host.ratio, ratio_with(host, need_figures(v, host), -1));
  }
  count_relations(v, from, -1, sums);
  return sums;
}

void ClusterState::add_to(VmIndex v, HostIndex to, Sums& sums) const {
  if (to == kNowhere) return;
  if (usable(to)) {
    const HostUse& host = hosts_[at(to)];
    sums.swap_ratio(host.ratio, ratio_with(host, need_figures(v, host), 1));
  }
  count_relations(v, to, 1, sums);
}

void ClusterState::move(VmIndex v, HostIndex to) {
  VmUse& vm = vms_[at(v)];
  const HostIndex from = vm.host;
  if (from == to) return;
  Sums sums = sums_without(v);
  add_to(v, to, sums);
  sums_ = sums;
  if (from != kNowhere) {
    HostUse& host = hosts_[at(from)];
    const Figures need_here = need_figures(v, host);
    for (std::size_t k = 0; k < kResources; ++k) host.used[k] -= need_here[k];
    host.ratio = ratio_with(host, need_here, 0);
    host.free += static_cast<std::int64_t>(need(v, from));
    host.vms.erase(std::find(host.vms.begin(), host.vms.end(), v));
    count_group(kAffinity, vm.affinity, from, -1);
    count_group(kAnti, vm.anti, from, -1);
  }
  vm.host = to;
  if (to == kNowhere) return;
  HostUse& host = hosts_[at(to)];
  const Figures need_here = need_figures(v, host);
  for (std::size_t k = 0; k < kResources; ++k) host.used[k] += need_here[k];
  host.ratio = ratio_with(host, need_here, 0);
  host.free -= static_cast<std::int64_t>(need(v, to));
  // In one order whatever came before, so that the same placement gives the same plan.
  host.vms.insert(std::lower_bound(host.vms.begin(), host.vms.end(), v), v);
  count_group(kAffinity, vm.affinity, to, 1);
  count_group(kAnti, vm.anti, to, 1);
}

void ClusterState::close_host(HostIndex h) {
  if (!usable(h)) return;
  hosts_[at(h)].usable = false;
  --usable_;
  resum();
}

void ClusterState::resum() {
  const Sums relations = sums_;
  sums_ = Sums{};
  for (HostUse& host : hosts_) {
    Figures used{};
    for (const VmIndex v : host.vms) {
      const Figures need_here = need_figures(v, host);
      for (std::size_t k = 0; k < kResources; ++k) used[k] += need_here[k];
    }
    host.used = used;
    host.ratio = ratio_with(host, used, 0);
    if (host.usable) sums_.swap_ratio(Figures{}, host.ratio);
  }
  sums_.apart = relations.apart;  // whole numbers do not drift
  sums_.together = relations.together;
  for (int v = 0; v < vms(); ++v) {
    for (const auto& [peer, rate] : peers(v)) {
      const bool placed = host_of(v) != kNowhere && host_of(peer) != kNowhere;
      if (peer > v && placed && host_of(peer) != host_of(v)) sums_.cut += rate;
    }
  }
}

ScoreTerms ClusterState::terms_of(const Sums& sums) const {
  ScoreTerms out;
  if (usable_ == 0) return out;
  const ScoreWeights& weights = policy_->weights;
  const double one_nth = 1.0 / usable_;
  out.memory = weights.memory * deviation(sums.sum[kMemory], sums.squares[kMemory], one_nth);
  out.vcpus = weights.vcpus * deviation(sums.sum[kVcpus], sums.squares[kVcpus], one_nth);
  out.demand = weights.demand * deviation(sums.sum[kDemand], sums.squares[kDemand], one_nth);
  out.stall = weights.stall * std::max(0.0, sums.excess) * one_nth;
  out.traffic = weights.traffic * share(sums.cut, traffic_total_);
  out.affinity = weights.affinity * share(sums.apart, pairs_[kAffinity]);
  out.conflict = weights.conflict * share(sums.together, pairs_[kAnti]);
  return out;
}

ScoreTerms ClusterState::terms() const {
  return terms_of(sums_);
}

ScoreTerms ClusterState::terms_after(VmIndex v, HostIndex to) const {
  if (to == host_of(v)) return terms();
  Sums sums = sums_without(v);
  add_to(v, to, sums);
  return terms_of(sums);
}

ClusterState::Departure ClusterState::leave(VmIndex v) const {
  return {v, sums_without(v)};
}

double ClusterState::score_on(const Departure& departure, HostIndex to) const {
  Sums sums = departure.sums;
  add_to(departure.vm, to, sums);
  return terms_of(sums).sum();
}

double ClusterState::score_exchanged(VmIndex a, VmIndex b) const {
  const HostUse& host_a = hosts_[at(host_of(a))];
  const HostUse& host_b = hosts_[at(host_of(b))];
  Figures change{};
  for (std::size_t k = 0; k < kResources; ++k) {
    change[k] = vms_[at(b)].use[k] - vms_[at(a)].use[k];
  }
  Sums sums = sums_;
  sums.swap_ratio(host_a.ratio, ratio_with(host_a, change, 1));
  sums.swap_ratio(host_b.ratio, ratio_with(host_b, change, -1));
  return terms_of(sums).sum();
}

double ClusterState::pressure(HostIndex h) const {
  const ScoreWeights& weights = policy_->weights;
  const Figures each{weights.memory, weights.vcpus, weights.demand};
  const Figures& ratio = hosts_[at(h)].ratio;
  // The slowest rank holds up its whole job: hosts that are out of cpu come before all others.
  double out = weights.stall > 0 ? 1000 * excess(ratio[kDemand]) : 0;
  const double one_nth = 1.0 / std::max(1, usable_);
  for (std::size_t k = 0; k < kResources; ++k) {
    const double spread = deviation(sums_.sum[k], sums_.squares[k], one_nth);
    if (spread > 1e-9) out += each[k] * (ratio[k] - sums_.sum[k] * one_nth) / spread;
  }
  return out;
}

}  // namespace mare::policy
