// host.drain: no new VMs for the host, and every VM that it has moves away, in the order and as
// many at once as a plan.drain, its first child, says. Where nothing can be forecast they move one
// after the other.
#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/move_waves.h"

namespace mare::engine {
namespace {

class HostDrain final : public Task {
 public:
  HostDrain(Context& context, const Operation& operation)
      : Task(context, operation), policy_(policy_change_from(operation.request)) {}

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
    const auto past = moves_made(context_, *children, operation().cancel_requested);
    if (!past) return;
    if (operation().cancel_requested) {
      return give_up(make_error(Code::Cancelled, "cancelled"));
    }
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_on(id()); });
    if (!vms) return again();
    report(vms->size(), past->migrations);
    if (vms->empty()) {
      finish(to_string(HostDrainEvent::Emptied), to_string(HostDrainState::Done),
             Outcome::Succeeded, std::to_string(past->migrations) + " migrations", {},
             set_admin(HostAdmin::Drained));
      return;
    }
    if (!past->plan) return ask_for_plan();
    follow(*vms, *past);
  }

  void ask_for_plan() {
    auto child = start_child(context_, DrainForecastRequest{id(), policy_}, operation().id);
    if (child) return;
    // Somebody else asked for the same: theirs ends soon.
    if (child.error().code == Code::Conflict) return come_back();
    give_up(child.error());
  }

  void follow(const std::vector<Vm>& vms, const MovesMade& past) {
    MovesPlan plan;
    if (past.plan->outcome == Outcome::Succeeded) {
      auto read = query<MovesPlan>(store(), [&](const store::Reader& reader) {
        return read_moves_plan(reader, past.plan->id, settings().move_caps);
      });
      if (!read) return again();
      plan = std::move(*read);
    }
    if (past.migrations == 0) {
      // Nothing moved yet, so nothing has to be undone.
      if (!plan.stay.empty()) {
        const auto& one = plan.stay.front();
        return give_up(
            make_error(Code::FailedPrecondition, "VM '" + one.vm.value + "': " + one.why));
      }
      const bool made = past.plan->outcome == Outcome::Succeeded;
      const std::string words = made ? in_words(plan) : "without a plan: " + past.plan->reason;
      if (words != told_ && !wait_because("Plan", "", words)) return;
      told_ = words;
    }
    auto wave = next_wave(vms, plan);
    // Those that came after the plan go alone.
    if (wave.empty()) wave.push_back({vms.front(), std::nullopt});
    const auto begun =
        start_wave(context_, operation().id, wave, past, Else::MovesAnywhere, policy_);
    if (begun.started > 0) return;
    if (begun.trouble) return give_up(*begun.trouble);
    if (begun.busy) come_back();
  }

  void come_back() {
    after(std::chrono::seconds{1}, [this] { advance(); });
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

  const PolicyChange policy_;  // of its moves, against their pools'
  std::string told_;           // of the plan: once, however often it has to wait
};

}  // namespace

std::shared_ptr<Task> make_host_drain(Context& context, const Operation& operation) {
  return std::make_shared<HostDrain>(context, operation);
}

}  // namespace mare::engine
