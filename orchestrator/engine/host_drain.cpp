// host.drain: no new VMs for the host, and every VM that it has moves away, one after the other.
#include "orchestrator/engine/children.h"

namespace mare::engine {
namespace {

constexpr int kTries = 2;  // of each VM

class HostDrain final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    HostDrainState state{};
    MARE_ASSERT(state_from(operation().state, state));
    if (state == HostDrainState::Planned) return begin();
    if (state == HostDrainState::Moving) return advance();
  }
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }

 private:
  HostId id() const { return HostId{operation().target}; }

  Also set_admin(HostAdmin admin) {
    return [this, admin](store::Transaction& tx) -> Status {
      auto row = tx.host(id());
      if (!row) return row.error();
      row->admin = admin;
      return put_host(tx, clock(), *row);
    };
  }

  void begin() {
    if (commit(to_string(HostDrainEvent::Begin), to_string(HostDrainState::Moving), "",
               set_admin(HostAdmin::Draining))) {
      advance();
    }
  }

  void advance() {
    auto children = children_of(context_, operation().id);
    if (!children) return again();
    std::map<std::string, int> tries;
    std::string trouble;
    for (const auto& child : *children) {
      if (!child.finished()) {
        if (operation().cancel_requested) cancel_child(context_, child.id);
        return;  // its end brings us back
      }
      if (child.outcome == Outcome::Succeeded) continue;
      ++tries[child.target];
      if (trouble.empty()) trouble = "VM '" + child.target + "': " + child.reason;
    }
    if (operation().cancel_requested) {
      return give_up(make_error(Code::Cancelled, "cancelled"));
    }
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_on(id()); });
    if (!vms) return again();
    report(vms->size(), children->size());
    if (vms->empty()) {
      finish(to_string(HostDrainEvent::Emptied), to_string(HostDrainState::Done),
             Outcome::Succeeded, std::to_string(children->size()) + " migrations", {},
             set_admin(HostAdmin::Drained));
      return;
    }
    move_next(vms->front(), tries, trouble);
  }

  void move_next(const Vm& vm, const std::map<std::string, int>& tries,
                 const std::string& trouble) {
    const auto tried = tries.find(vm.id.value);
    if (tried != tries.end() && tried->second >= kTries) {
      return give_up(make_error(Code::FailedPrecondition, trouble));
    }
    MigrateRequest request;
    request.vm = vm.id;
    auto child = start_child(context_, request, operation().id);
    if (child) return;
    // Somebody else's operation holds the VM: wait for it, as long as it has a chance to end.
    if (child.error().code == Code::Conflict || vm.state == VmState::Starting ||
        vm.state == VmState::Stopping) {
      return after(std::chrono::seconds{1}, [this] { advance(); });
    }
    give_up(child.error().during("VM '" + vm.id.value + "' can't move"));
  }

  void report(std::size_t left, std::size_t moved) {
    const auto all = static_cast<double>(left + moved);
    if (all > 0) progress(static_cast<double>(moved) / all);
    save_progress();
  }

  void give_up(const Error& error) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(HostDrainEvent::GiveUp), to_string(HostDrainState::Failed), outcome,
           error.text() + "; the host is in use as before", std::string(to_string(error.code)),
           set_admin(HostAdmin::Active));
  }
};

}  // namespace

std::shared_ptr<Task> make_host_drain(Context& context, const Operation& operation) {
  return std::make_shared<HostDrain>(context, operation);
}

}  // namespace mare::engine
