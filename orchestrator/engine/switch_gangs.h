// Migrations of one job's VMs that are under way at once switch at once: its ranks wait for each
// other, so what one VM's switch costs is the job's, and switches that come one after the other
// cost it one after the other. The engine's thread only. Survives nothing: after a restart each
// switches when it can (docs/adr/0013).
#pragma once

#include <functional>
#include <map>

#include "orchestrator/core/ids.h"

namespace mare::engine {

class SwitchGangs {
 public:
  /// It begins to send, and will hold its switch. It belongs to the job's gang that none of has
  /// been ready() yet: who comes later is not waited for.
  void join(const OperationId& id, const JobId& job);
  /// It could switch. `go` is called once, when all of its gang are ready or have left; at once for
  /// one that never joined.
  void ready(const OperationId& id, std::function<void()> go);
  /// It has switched, has ended or was given up. Anything else changes nothing.
  void leave(const OperationId& id);
  /// Its gang goes as it is: who is not ready is on its own.
  void let_go(const OperationId& id);
  /// Of its gang, itself included; 0 if it is in none.
  int size(const OperationId& id) const;

 private:
  struct Member {
    int gang = 0;
    std::function<void()> go;  // it is ready
  };
  void go_if_ready(int gang);
  void go(int gang);

  std::map<OperationId, Member> members_;
  std::map<JobId, int> open_;  // the gang of a job that may still be joined
  int last_ = 0;
};

}  // namespace mare::engine
