// pool.create: all VMs of the pool run, or none of it is left.
#include <set>

#include "orchestrator/engine/children.h"

namespace mare::engine {
namespace {

class PoolCreate final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    PoolCreateState state{};
    MARE_ASSERT(state_from(operation().state, state));
    if (state == PoolCreateState::Planned) return begin();
    advance();
  }
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }

 private:
  PoolId id() const { return PoolId{operation().target}; }

  bool rolling_back() const { return operation().state == to_string(PoolCreateState::RollingBack); }

  void begin() {
    if (commit(to_string(PoolCreateEvent::Begin), to_string(PoolCreateState::Starting), "")) {
      advance();
    }
  }

  void advance() {
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_of(id()); });
    auto children = children_of(context_, operation().id);
    if (!vms || !children) return again();
    if (rolling_back()) return roll_back(*vms, *children);
    start_all(*vms, *children);
  }

  void start_all(const std::vector<Vm>& vms, const std::vector<Operation>& children) {
    std::set<std::string> have;
    std::size_t running = 0;
    std::size_t unfinished = 0;
    std::string trouble;
    for (const auto& child : children) {
      have.insert(child.target);
      if (!child.finished()) {
        ++unfinished;
      } else if (child.outcome == Outcome::Succeeded) {
        ++running;
      } else if (trouble.empty()) {
        trouble = "VM '" + child.target + "': " + child.reason;
      }
    }
    if (operation().cancel_requested && trouble.empty()) trouble = "cancelled";
    if (!trouble.empty()) return give_up(trouble);
    progress(static_cast<double>(running) / static_cast<double>(vms.size()));
    save_progress();
    for (const auto& vm : vms) {
      if (have.contains(vm.id.value)) continue;
      auto child = start_child(context_, VmStartRequest{vm.id, {}}, operation().id);
      if (!child) return give_up("VM '" + vm.id.value + "': " + child.error().text());
      ++unfinished;
    }
    if (unfinished > 0) return;
    finish(to_string(PoolCreateEvent::AllRun), to_string(PoolCreateState::Done), Outcome::Succeeded,
           std::to_string(vms.size()) + " VMs run");
  }

  void give_up(const std::string& trouble) {
    if (commit(to_string(PoolCreateEvent::GiveUp), to_string(PoolCreateState::RollingBack),
               trouble)) {
      advance();
    }
  }

  void roll_back(const std::vector<Vm>& vms, const std::vector<Operation>& children) {
    bool waiting = false;
    for (const auto& child : children) {
      if (child.finished()) continue;
      waiting = true;
      if (child.kind == OperationKind::VmStart) cancel_child(context_, child.id);
    }
    if (waiting) return;
    for (const auto& vm : vms) {
      if (!vm.host) continue;
      if (vm.state == VmState::Lost) return leave_for_operator(vm);
      waiting = true;
      auto child = start_child(context_, VmStopRequest{vm.id, true}, operation().id);
      if (!child) return again();
    }
    if (!waiting) remove(vms);
  }

  void remove(const std::vector<Vm>& vms) {
    const std::string trouble = why();
    const bool cancelled = operation().cancel_requested;
    finish(to_string(PoolCreateEvent::AllGone), to_string(PoolCreateState::Failed),
           cancelled ? Outcome::Cancelled : Outcome::Failed,
           trouble + "; nothing of the pool is left",
           std::string(to_string(cancelled ? Code::Cancelled : Code::Internal)),
           [&](store::Transaction& tx) -> Status {
             for (const auto& vm : vms) {
               if (auto done = tx.erase(vm.id); !done) return done;
             }
             if (auto done = tx.erase(id()); !done) return done;
             return emit(tx, clock(), "pool", id().value, "pool.deleted", "{}");
           });
  }

  void leave_for_operator(const Vm& vm) {
    finish(to_string(PoolCreateEvent::AllGone), to_string(PoolCreateState::Failed),
           Outcome::NeedsOperator,
           why() + "; VM '" + vm.id.value + "' could not be ended: " + vm.reason +
               "; when its host is back, delete the pool",
           std::string(to_string(Code::OutcomeUnknown)));
  }

  std::string why() const {
    auto lines = query<std::vector<OperationEvent>>(
        store(), [&](const store::Reader& r) { return r.history(operation().id); });
    if (!lines) return lines.error().text();
    for (const auto& line : *lines) {
      if (line.to == to_string(PoolCreateState::RollingBack)) return line.detail;
    }
    return "failed";
  }
};

}  // namespace

std::shared_ptr<Task> make_pool_create(Context& context, const Operation& operation) {
  return std::make_shared<PoolCreate>(context, operation);
}

}  // namespace mare::engine
