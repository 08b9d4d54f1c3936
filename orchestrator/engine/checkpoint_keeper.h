// Removes checkpoints that are as good as gone: their files first, then their rows. So what a crash
// in the middle of a checkpoint leaves behind goes too. Before that, decides which ones go: those
// of jobs that nobody will restart, too many, too old. And has parts made full, in the background
// and one checkpoint at a time, where a job's chain has become as long as it may. Files of moves
// that nobody could remove at their end go here too. Engine's thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

class CheckpointKeeper {
 public:
  explicit CheckpointKeeper(Context& context) : context_(context) {}

  /// Looks once, then again every few seconds.
  void beat();

 private:
  Status retire();
  Status retire_of(store::Transaction& tx, const JobId& id) const;
  void merge(const std::vector<Host>& hosts);
  void merge_parts(const Checkpoint& checkpoint, const std::vector<Host>& hosts);
  void merged(const CheckpointId& id, const std::vector<Result<Bytes>>& answers);
  void remove(const Checkpoint& checkpoint, const std::vector<Host>& hosts);
  void removed(const CheckpointId& id, bool all);
  void remove_move_files(const std::vector<Host>& hosts);
  void move_file_removed(const OperationId& id, bool gone);

  Context& context_;
  std::set<CheckpointId> busy_;
  std::set<OperationId> busy_moves_;
  std::optional<CheckpointId> merging_;
  JobId merging_of_;                                        // while merging_
  std::map<CheckpointId, MonotonicTime> merge_not_before_;  // of those that failed
};

}  // namespace mare::engine
