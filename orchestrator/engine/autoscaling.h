// Pools whose size follows a figure. Looks at every pool that has a rule, again and again and
// whenever a figure comes in, and asks for a pool.scale, by best effort, in the transaction that
// keeps the decision. What is remembered is in the pool's row, so a restart forgets no window and
// no cooldown. A figure of Prometheus is asked for on the executor first; the look follows when its
// answer is there, one question of a pool at a time.
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
  /// What a question to Prometheus came to.
  struct Fetched {
    PrometheusQuery asked;
    Result<double> figure;
  };
  void look(const PoolId& pool, const std::optional<Fetched>& fetched = {});
  /// Asks for the pool's figure, and looks when it is there.
  void fetch(const Autoscaler& row);
  void tell_failure(const PoolId& pool, const Fetched& fetched);
  static Status decide(store::Transaction& tx, Context& context, const PoolId& pool,
                       const std::optional<Fetched>& fetched, std::optional<Error>& refusal,
                       std::optional<Operation>& accepted);

  Context& context_;
  std::set<PoolId> waiting_;
  std::set<PoolId> asked_;   // of Prometheus, without an answer yet
  std::set<PoolId> failed_;  // the last answer was none: told once
};

/// InvalidArgument names the field that can't be granted.
Status check(const AutoscaleSetting& setting);

/// VMs that a job may count on: the pool's, or as many as its rule brings when ranks wait.
Result<int> size_for_jobs(const store::Reader& reader, const Pool& pool);

}  // namespace mare::engine
