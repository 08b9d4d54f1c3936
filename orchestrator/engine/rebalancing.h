// Keeps running VMs well placed, as the setting says. Looks at the placement again and again; when
// it has been bad for long enough, it proposes moves (manual) or asks for a cluster.rebalance
// (partial, automatic). Hold time and cooldown are in the database, so a restart forgets neither; a
// time in which mared did not run is no time in which the placement was seen to be bad.
//
// The engine's thread only; the arithmetic runs on the executor, one question at a time.
#pragma once

#include "orchestrator/engine/rebalance_plan.h"

namespace mare::engine {

class RebalanceLoop {
 public:
  explicit RebalanceLoop(Context& context) : context_(context) {}

  /// Looks, then again every Settings::rebalance_period.
  void beat();
  /// The setting has changed.
  void look_soon();

 private:
  struct Scene {
    Rebalancing row;
    policy::Cluster cluster;
    std::string busy;  // who changes where VMs are, a rebalancing included
  };
  Result<Scene> read() const;
  void look();
  void judge(policy::ClusterHealth health);
  void make_plan();
  void follow(const policy::RebalancePlan& plan);
  void start(const policy::RebalancePlan& plan);
  void pause();
  /// Changes the row; it is written only if something is new.
  void keep(const std::function<Status(store::Transaction&, Rebalancing&)>& change);

  Context& context_;
  bool asking_ = false;  // the executor has a question
  bool first_ = true;    // look of this process
  /// A plan without moves, or one that is proposed already, is not made again without a pause.
  MonotonicTime next_plan_{0};
};

/// InvalidArgument names the field that can't be granted.
Status check(const RebalanceSetting& setting);

}  // namespace mare::engine
