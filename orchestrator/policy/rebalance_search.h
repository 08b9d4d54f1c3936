// The search for a better placement: the single move that gains most, again and again, then
// exchanges of two VMs, until neither helps by more than it costs.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "orchestrator/policy/best_host.h"

namespace mare::policy {

inline constexpr double kNothing = 1e-12;  // rounding, not gain

struct Hop {
  VmIndex vm = 0;
  HostIndex to = kNowhere;
};
/// One move, or two that only together make the score better.
using Step = std::vector<Hop>;

class RebalanceSearch {
 public:
  RebalanceSearch(ClusterState& state, NPlusOne& n_plus_one);

  /// Moves VMs in the state; answers the steps in order. A VM may have moved more than once.
  std::vector<Step> run();

 private:
  struct Candidate {
    double surplus = 0;  // gain above what is required
    VmIndex vm = 0;
    VmIndex other = kNowhere;  // of an exchange
    HostIndex to = kNowhere;
  };
  using Candidates = std::vector<Candidate>;

  void relieve();
  void repair();
  bool repair_host(HostIndex exposed);
  bool repair_by(VmIndex v);
  std::vector<HostIndex> roomiest(const std::function<bool(HostIndex)>& passes) const;
  /// Whether there was any.
  bool single_moves();
  bool exchanges();
  std::pair<HostIndex, double> two_best(const std::vector<double>& promise) const;
  HostIndex take_first(const Candidates& candidates);
  bool exchange_from(HostIndex h);
  Candidates moves_from(HostIndex h) const;
  Candidates exchanges_between(HostIndex a, HostIndex b) const;
  std::vector<HostIndex> partners_of(HostIndex h) const;
  bool try_exchange(const Candidate& candidate);
  bool move_pair(VmIndex first, HostIndex to, VmIndex second, HostIndex back);
  std::vector<HostIndex> by_pressure() const;
  double required(VmIndex v) const;
  bool may_go_on(std::size_t moves) const;
  void done(Step step);

  ClusterState& state_;
  NPlusOne& n_plus_one_;
  std::vector<Step> steps_;
  std::size_t moves_ = 0;
  std::size_t limit_;
};

}  // namespace mare::policy
