// A cluster under planning: who is where, how full every host is, and the score, all kept up to
// date move by move so that the gain of a candidate costs O(1) (O(VMs it talks to) once for each
// VM).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "orchestrator/policy/cluster_model.h"

namespace mare::policy {

using HostIndex = int;  // into Cluster::hosts
using VmIndex = int;    // into Cluster::vms
inline constexpr int kNowhere = -1;

/// The parts of the score, each with its weight. Lower is better.
struct ScoreTerms {
  double memory = 0;
  double vcpus = 0;
  double demand = 0;
  double stall = 0;
  double traffic = 0;
  double affinity = 0;
  double conflict = 0;

  double sum() const { return memory + vcpus + demand + stall + traffic + affinity + conflict; }
};

/// Why a host can't take a VM; None: it can.
enum class Obstacle : std::uint8_t { None, Unusable, Tags, AntiAffinity, Memory, Vcpus, NPlusOne };

class ClusterState {
 public:
  /// `cluster` must outlive it. VMs on hosts that are not in the cluster count as nowhere.
  ClusterState(const Cluster& cluster, const PlanPolicy& policy);

  const Cluster& cluster() const { return *cluster_; }
  const PlanPolicy& policy() const { return *policy_; }
  int hosts() const { return static_cast<int>(hosts_.size()); }
  int usable_hosts() const { return usable_; }
  int vms() const { return static_cast<int>(vms_.size()); }

  bool usable(HostIndex h) const { return hosts_[at(h)].usable; }
  HostIndex host_of(VmIndex v) const { return vms_[at(v)].host; }
  bool locked(VmIndex v) const { return source(v).locked; }
  const std::vector<VmIndex>& vms_on(HostIndex h) const { return hosts_[at(h)].vms; }
  std::uint64_t memory_of(VmIndex v) const { return source(v).memory.count; }
  std::uint64_t need(VmIndex v, HostIndex h) const { return memory_of(v) + hosts_[at(h)].overhead; }
  std::int64_t free_memory(HostIndex h) const { return hosts_[at(h)].free; }
  double demand_of(VmIndex v) const { return vms_[at(v)].use[kDemand]; }
  double cpus(HostIndex h) const { return 1 / hosts_[at(h)].inverse[kVcpus]; }
  double demand_ratio(HostIndex h) const { return hosts_[at(h)].ratio[kDemand]; }
  double memory_ratio(HostIndex h) const { return hosts_[at(h)].ratio[kMemory]; }
  double vcpu_ratio(HostIndex h) const { return hosts_[at(h)].ratio[kVcpus]; }
  const ClusterVm& source(VmIndex v) const { return cluster_->vms[at(v)]; }
  const ClusterHost& host(HostIndex h) const { return cluster_->hosts[at(h)]; }
  /// Bytes a second between this VM and those on a host.
  double traffic_with(VmIndex v, HostIndex h) const;
  /// Its peers and the bytes a second.
  const std::vector<std::pair<VmIndex, double>>& peers(VmIndex v) const {
    return vms_[at(v)].peers;
  }

  /// All but N+1, which the score of NPlusOne::admits() adds.
  Obstacle obstacle(VmIndex v, HostIndex h) const;
  bool tags_allow(VmIndex v, HostIndex h) const {
    return allowed_[at(vms_[at(v)].needs)][at(h)] != 0;
  }
  /// The group that must not share a host, or kNowhere.
  int anti_group(VmIndex v) const { return vms_[at(v)].anti; }
  int anti_members_on(int group, HostIndex h) const { return group_count(1, group, h); }

  void move(VmIndex v, HostIndex to);  // kNowhere takes it out
  /// From now on it takes nothing and is not in the score.
  void close_host(HostIndex h);

  ScoreTerms terms() const;
  double score() const { return terms().sum(); }
  ScoreTerms terms_after(VmIndex v, HostIndex to) const;
  /// How much moving a VM would take from the score.
  double gain(VmIndex v, HostIndex to) const { return score() - terms_after(v, to).sum(); }
  /// The same for many destinations of one VM: leave() once, then score_on() for each.
  struct Departure;
  Departure leave(VmIndex v) const;
  double score_on(const Departure& departure, HostIndex to) const;
  /// Talks to other VMs or is in a group.
  bool related(VmIndex v) const {
    const VmUse& vm = vms_[at(v)];
    return !vm.peers.empty() || vm.affinity != kNowhere || vm.anti != kNowhere;
  }
  /// The score after two VMs without relations traded places.
  double score_exchanged(VmIndex a, VmIndex b) const;
  /// How much a host weighs on the score: positive where taking VMs away helps.
  double pressure(HostIndex h) const;
  /// Sums anew, against the drift of many small changes.
  void resum();

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

 private:
  enum Resource : std::uint8_t { kMemory, kVcpus, kDemand, kResources };
  using Figures = std::array<double, kResources>;
  struct HostUse {
    std::int64_t free = 0;  // may be below 0 when a host is overfull to begin with
    std::uint64_t overhead = 0;
    bool usable = true;
    Figures used{};
    Figures inverse{};  // 1 / capacity
    Figures ratio{};
    std::vector<VmIndex> vms;
  };
  struct VmUse {
    HostIndex host = kNowhere;
    Figures use{};
    int needs = 0;  // into allowed_
    int affinity = kNowhere;
    int anti = kNowhere;
    std::vector<std::pair<VmIndex, double>> peers;
  };
  struct Sums {
    Figures sum{};
    Figures squares{};
    double excess = 0;
    double cut = 0;       // bytes/s between hosts
    double apart = 0;     // pairs
    double together = 0;  // pairs

    void swap_ratio(const Figures& from, const Figures& to);
  };

  void index_hosts();
  void index_vms();
  void index_traffic();
  int needs_class(const std::vector<std::string>& needs);
  Figures ratio_with(const HostUse& host, const Figures& change, double sign) const;
  Figures need_figures(VmIndex v, const HostUse& host) const;
  ScoreTerms terms_of(const Sums& sums) const;
  Sums sums_without(VmIndex v) const;
  void add_to(VmIndex v, HostIndex to, Sums& sums) const;
  void count_relations(VmIndex v, HostIndex h, double sign, Sums& sums) const;
  int group_count(int kind, int group, HostIndex h) const;
  void count_group(int kind, int group, HostIndex h, int change);

  const Cluster* cluster_;
  const PlanPolicy* policy_;
  std::vector<HostUse> hosts_;
  std::vector<VmUse> vms_;
  std::vector<std::vector<char>> allowed_;  // class of needs -> host
  std::unordered_map<std::string, int> need_classes_;
  std::array<std::unordered_map<std::uint64_t, int>, 2> group_counts_;  // affinity, anti-affinity
  int usable_ = 0;
  double traffic_total_ = 0;
  std::array<double, 2> pairs_{};  // in all groups
  Sums sums_;
};

struct ClusterState::Departure {
  VmIndex vm = 0;
  Sums sums;  // without it
};

}  // namespace mare::policy
