// N+1: any one host may fail, and its VMs fit on the others. For every VM one other host is kept as
// its refuge, such that the refuges of all VMs of a host hold at the same time; hosts do not fail
// together, so the claims of different hosts on one refuge do not add up. A move touches only the
// refuges of its destination and of those whose claim it breaks: most moves cost O(VMs of a host),
// and only what broke is packed anew.
#pragma once

#include <utility>
#include <vector>

#include "orchestrator/policy/cluster_state.h"

namespace mare::policy {

class NPlusOne {
 public:
  /// `state` must outlive it.
  explicit NPlusOne(const ClusterState& state);

  /// After state.move(v, to): whether the failure of any one host leaves no more VMs without a
  /// place than before. If not, nothing changed here, and the caller moves the VM back.
  bool admit(VmIndex v, HostIndex from, HostIndex to);
  /// Finds all refuges anew, as a new plan would; where that finds less, the old ones stay.
  void renew();

  /// Whether a host is less exposed since something else moved.
  void retry_exposed();
  /// What is admitted from here on can be taken back at once, with the VMs back where they were.
  void begin() { changes_.clear(); }
  void roll_back();

  bool on() const { return state_->policy().n_plus_one; }
  /// Hosts whose failure would leave a VM without a place, and how many bytes of VMs in all.
  int exposed_hosts() const;
  std::uint64_t stranded_bytes() const;
  bool exposed(HostIndex h) const { return stranded_[ClusterState::at(h)] > 0; }
  HostIndex refuge_of(VmIndex v) const { return refuge_[ClusterState::at(v)]; }
  /// What it adds to the score.
  double penalty() const;

 private:
  struct Packing {
    HostIndex host = kNowhere;  // that fails
    std::vector<std::pair<VmIndex, HostIndex>> refuges;
    std::uint64_t stranded = 0;
  };
  struct Change {           // what was before
    VmIndex vm = kNowhere;  // its refuge
    HostIndex host = kNowhere;
    std::uint64_t stranded = 0;  // of the host, when no VM is given
  };
  enum class Fit { Worst, Best };

  std::vector<HostIndex> broken_by(VmIndex v, HostIndex from, HostIndex to) const;
  Packing pack(HostIndex failing) const;
  Packing pack_by(HostIndex failing, const std::vector<VmIndex>& largest_first, Fit fit) const;
  bool search(Packing& packing, std::vector<std::int64_t>& left, std::size_t item,
              int& steps_left) const;
  std::vector<std::int64_t> room_beside(HostIndex failing) const;
  bool may_shelter(const Packing& packing, VmIndex v, HostIndex h,
                   const std::vector<std::int64_t>& left) const;
  void keep(const Packing& packing);
  void set_refuge(VmIndex v, HostIndex refuge);

  const ClusterState* state_;
  std::vector<HostIndex> refuge_;             // of each VM
  std::vector<std::vector<VmIndex>> claims_;  // whose refuge a host is
  std::vector<std::uint64_t> stranded_;       // bytes, of each host that may fail
  std::vector<Change> changes_;
};

}  // namespace mare::policy
