// Whose turn it is to migrate: at most so many at once at a host and on a link. The engine's thread
// only. Survives nothing: after a restart those that were under way are held again, and the others
// ask again, oldest first.
//
// First come, first served where it matters: a later one may go before an earlier one that it
// shares a host with while the earlier one could not go anyhow, but only kMostOvertakings times;
// from then on the earlier one's places are kept free for it. So nobody waits for ever, and the
// first in the queue waits only for migrations under way, each of which ends.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <string>

#include "orchestrator/core/ids.h"
#include "orchestrator/policy/move_plan.h"

namespace mare::engine {

class MoveSlots {
 public:
  static constexpr int kMostOvertakings = 4;

  explicit MoveSlots(policy::MoveCaps caps) : caps_(caps) {}

  /// For a migration that was under way before this process: whatever the caps say.
  void hold(const OperationId& id, const HostId& source, const HostId& destination);
  /// "" when it may go; else it is in the queue, and this is why. Asking again changes nothing.
  std::string ask(const OperationId& id, const HostId& source, const HostId& destination);
  /// Called once, when one that is in the queue may go.
  void on_turn(const OperationId& id, std::function<void()> turn);
  /// Does another one that is under way leave its source, or come to its destination?
  bool shares(const OperationId& id) const;
  /// It has ended or was given up: gives its place to those whose turn it is then.
  void leave(const OperationId& id);

 private:
  struct Route {
    HostId source;
    HostId destination;
  };
  struct Waiter {
    OperationId id;
    Route route;
    int overtaken = 0;
    std::function<void()> turn;
  };

  policy::MoveLoad load() const;
  void serve();

  policy::MoveCaps caps_;
  std::map<OperationId, Route> going_;
  std::list<Waiter> queue_;
};

}  // namespace mare::engine
