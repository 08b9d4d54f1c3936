// Pools whose size follows a figure. Looks at every pool that has a rule, again and again and
// whenever a figure comes in, and asks for a pool.scale, by best effort, in the transaction that
// keeps the decision. What is remembered is in the pool's row, so a restart forgets no window and
// no cooldown.
#pragma once

#include <set>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class Autoscaling {
 public:
  explicit Autoscaling(Context& context) : context_(context) {}

  /// Looks at all of them, then again every period.
  void beat();
  /// Looks at one soon, on the engine's thread: figures that come in quick succession are looked at
  /// once.
  void look_soon(const PoolId& pool);

 private:
  void look(const PoolId& pool);

  Context& context_;
  std::set<PoolId> waiting_;
};

/// InvalidArgument names the field that can't be granted.
Status check(const AutoscaleSetting& setting);

/// VMs that a job may count on: the pool's, or as many as its rule brings when ranks wait.
Result<int> size_for_jobs(const store::Reader& reader, const Pool& pool);

}  // namespace mare::engine
