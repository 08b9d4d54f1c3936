// Running jobs spread to hosts that have come, by themselves. When hosts begin to be usable, and
// have been for a while, every running job that would gain if moving cost nothing is planned and
// costed (plan.layout); those that gain more than it costs are spread (layout.change). A host that
// leaves needs no such rule: its drain moves the ranks together.
//
// The engine's thread only. Survives nothing: after a restart all jobs are looked at once more.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class AutoSpread {
 public:
  explicit AutoSpread(Context& context) : context_(context) {}

  /// Looks at the hosts, then again every period. Does nothing if Settings::auto_spread is 0.
  void beat();

 private:
  void look_at_hosts();
  void plan_jobs();
  void follow_plans();
  template <typename Request>
  std::optional<OperationId> submit(const JobId& job, const Request& request);

  Context& context_;
  bool began_ = false;
  std::set<HostId> usable_;
  std::string cause_;
  std::optional<MonotonicTime> due_;
  std::map<OperationId, LayoutWish> plans_;  // that were asked for and have not been followed
};

}  // namespace mare::engine
