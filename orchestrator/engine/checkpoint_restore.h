// checkpoint.restore: a job goes on from a checkpoint, on the hosts where its VMs were or on
// others. What is left of its VMs is ended first, then every VM is loaded and stands still, and
// only when all are there they run: so nobody of a restore that fails has run, and it can be tried
// again.
//
// Two rules: no VM is loaded before its former copy is known to be gone (a silent host's is not),
// and all parts are of the one checkpoint that the request names.
//
// checkpoint_restore.cpp: up to the loading. checkpoint_restore_end.cpp: from there on, and back.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/task.h"
#include "orchestrator/model/checkpoint_lifecycles.h"

namespace mare::engine {

class CheckpointRestore final : public Task {
 public:
  using Task::Task;

  void enter(bool recovered) override;
  void on_cancel() override;

 private:
  using State = CheckpointRestoreState;
  using Event = CheckpointRestoreEvent;

  State state() const;
  bool load();
  bool step(Event event, const std::string& detail, const Also& also = {});

  void begin();
  void wait(const std::string& busy);
  Result<std::string> why_not() const;
  Status check_places(const store::Reader& reader) const;
  Result<std::vector<HostId>> places(const store::Reader& reader) const;
  Status take_over(store::Transaction& tx);
  void refuse(const Error& error);

  void clear();
  void cleared(const std::vector<Status>& answers);
  void place();
  void load_all(bool afresh);
  void loaded(const std::vector<Status>& answers);
  std::string from_memory() const;
  bool leases_are_due() const;
  /// Gives up as soon as a host falls silent; calls to it would be waited for far longer.
  void watch_hosts();

  void resume_all();
  void resumed(const std::vector<Status>& answers);
  void hang_up();
  /// Gives up as soon as a VM has ended; its guest would be waited for far longer.
  void watch_vms();
  void verify();
  void verified(const std::vector<Status>& answers);
  void done();
  void abort(const Error& error);
  void clean();
  void cleaned(const std::vector<Status>& answers);
  std::string why_aborted() const;
  bool only_loaded() const;

  /// For each of these VMs, on the host that its row names.
  std::vector<GangCall<Status>> on_hosts(
      const std::function<Status(Driver&, const VmSpec&, const CheckpointPart&)>& work);
  /// The first answer that can't get better; else, after a while, the first one. Nothing: ask again
  /// (or all is well, and then `all_well`).
  std::optional<Error> trouble(const std::vector<Status>& answers, bool& all_well) const;
  bool a_host_is_down() const;
  bool is_down(const Vm& vm) const;
  void settle();

  Job job_;
  Checkpoint checkpoint_;
  std::vector<HostId> allowed_;
  bool eager_ = false;
  std::shared_ptr<std::atomic<int>> mapped_;  // VMs that were started from memory, in this process
  std::vector<Vm> vms_;                       // row i is that of rank i
  std::vector<VmSpec> specs_;
};

}  // namespace mare::engine
