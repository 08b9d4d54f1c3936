// Removes checkpoints that are as good as gone: their files first, then their rows. So what a crash
// in the middle of a checkpoint leaves behind goes too. Engine's thread.
#pragma once

#include <set>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class CheckpointKeeper {
 public:
  explicit CheckpointKeeper(Context& context) : context_(context) {}

  /// Looks once, then again every few seconds.
  void beat();

 private:
  Status retire_useless();
  void remove(const Checkpoint& checkpoint, const std::vector<Host>& hosts);
  void removed(const CheckpointId& id, bool all);

  Context& context_;
  std::set<CheckpointId> busy_;
};

}  // namespace mare::engine
