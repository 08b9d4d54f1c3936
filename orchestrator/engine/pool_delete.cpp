// pool.delete: jobs end, VMs end, rows go.
#include "orchestrator/engine/children.h"

namespace mare::engine {
namespace {

class PoolDelete final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    PoolDeleteState state{};
    MARE_ASSERT(state_from(operation().state, state));
    switch (state) {
      case PoolDeleteState::Planned:
        return begin();
      case PoolDeleteState::EndingJobs:
        return end_jobs();
      case PoolDeleteState::Stopping:
        return stop_vms();
      case PoolDeleteState::Done:
      case PoolDeleteState::Failed:
        return;
    }
  }
  void on_child_ended(const Operation&) override { stop_vms(); }

 private:
  PoolId id() const { return PoolId{operation().target}; }

  void begin() {
    if (commit(to_string(PoolDeleteEvent::Begin), to_string(PoolDeleteState::EndingJobs), "")) {
      end_jobs();
    }
  }

  void end_jobs() {
    auto jobs = query<std::vector<Job>>(
        store(), [&](const store::Reader& r) { return r.unfinished_jobs_of(id()); });
    if (!jobs) return again();
    if (jobs->empty()) {
      if (commit(to_string(PoolDeleteEvent::JobsEnded), to_string(PoolDeleteState::Stopping), "")) {
        stop_vms();
      }
      return;
    }
    for (const auto& job : *jobs) {
      auto running = query<std::optional<Operation>>(
          store(), [&](const store::Reader& r) { return r.unfinished("job", job.id.value); });
      if (running && *running && !(*running)->cancel_requested) {
        cancel_child(context_, (*running)->id);
      }
    }
    after(std::chrono::milliseconds{250}, [this] { end_jobs(); });
  }

  void stop_vms() {
    if (operation().state != to_string(PoolDeleteState::Stopping)) return;
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_of(id()); });
    auto children = children_of(context_, operation().id);
    if (!vms || !children) return again();
    std::size_t unfinished = 0;
    for (const auto& child : *children) {
      if (!child.finished()) ++unfinished;
      if (child.outcome == Outcome::NeedsOperator) return give_up(child);
    }
    std::size_t left = 0;
    bool held = false;
    for (const auto& vm : *vms) {
      if (!vm.host) continue;
      ++left;
      if (unfinished > 0) continue;
      // Another operation (a migration) may hold it for a while.
      auto child = start_child(context_, VmStopRequest{vm.id, true}, operation().id);
      held |= !child;
      if (!child) cancel_waiting_move(context_, vm.id);
    }
    progress(1.0 - static_cast<double>(left) /
                       static_cast<double>(std::max<std::size_t>(1, vms->size())));
    save_progress();
    if (left == 0 && unfinished == 0) return remove(*vms);
    if (held) after(std::chrono::milliseconds{500}, [this] { stop_vms(); });
  }

  void remove(const std::vector<Vm>& vms) {
    finish(to_string(PoolDeleteEvent::AllGone), to_string(PoolDeleteState::Done),
           Outcome::Succeeded, "", {}, [&](store::Transaction& tx) -> Status {
             for (const auto& vm : vms) {
               if (auto done = tx.erase(vm.id); !done) return done;
             }
             if (auto done = tx.erase(id()); !done) return done;
             return emit(tx, clock(), "pool", id().value, "pool.deleted", "{}");
           });
  }

  void give_up(const Operation& child) {
    finish(to_string(PoolDeleteEvent::GiveUp), to_string(PoolDeleteState::Failed), Outcome::Failed,
           "VM '" + child.target + "' could not be ended: " + child.reason +
               "; delete the pool again when its host is back",
           child.error_code);
  }
};

}  // namespace

std::shared_ptr<Task> make_pool_delete(Context& context, const Operation& operation) {
  return std::make_shared<PoolDelete>(context, operation);
}

}  // namespace mare::engine
