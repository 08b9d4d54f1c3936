// host.drain: no new VMs for the host, and every VM that it has moves away, in the order and as
// many at once as a plan.drain, its first child, says. Where nothing can be forecast they move one
// after the other.
#include <algorithm>

#include "orchestrator/engine/children.h"
#include "orchestrator/engine/drain_plan.h"

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
    Past past;
    bool wait = false;
    for (const auto& child : *children) {
      if (!child.finished()) {
        wait = true;  // its end brings us back
        if (operation().cancel_requested) cancel_child(context_, child.id);
        continue;
      }
      remember(child, past);
    }
    if (wait) return;
    if (operation().cancel_requested) {
      return give_up(make_error(Code::Cancelled, "cancelled"));
    }
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_on(id()); });
    if (!vms) return again();
    report(vms->size(), past.migrations);
    if (vms->empty()) {
      finish(to_string(HostDrainEvent::Emptied), to_string(HostDrainState::Done),
             Outcome::Succeeded, std::to_string(past.migrations) + " migrations", {},
             set_admin(HostAdmin::Drained));
      return;
    }
    if (!past.plan) return ask_for_plan();
    follow(*vms, past);
  }

  /// What the children that have ended came to.
  struct Past {
    std::optional<Operation> plan;
    std::size_t migrations = 0;
    std::map<std::string, int> failures;  // by VM
    std::string trouble;
  };
  static void remember(const Operation& child, Past& past) {
    if (child.kind == OperationKind::PlanDrain) {
      past.plan = child;
      return;
    }
    ++past.migrations;
    if (child.outcome == Outcome::Succeeded) return;
    ++past.failures[child.target];
    if (past.trouble.empty()) past.trouble = "VM '" + child.target + "': " + child.reason;
  }

  void ask_for_plan() {
    auto child = start_child(context_, DrainForecastRequest{id()}, operation().id);
    if (child) return;
    // Somebody else asked for the same: theirs ends soon.
    if (child.error().code == Code::Conflict) return come_back();
    give_up(child.error());
  }

  void follow(const std::vector<Vm>& vms, const Past& past) {
    DrainPlan plan;
    if (past.plan->outcome == Outcome::Succeeded) {
      auto read = query<DrainPlan>(store(), [&](const store::Reader& reader) {
        return read_drain_plan(reader, past.plan->id, settings().move_caps);
      });
      if (!read) return again();
      plan = std::move(*read);
    }
    if (past.migrations == 0) {
      // Nothing moved yet, so nothing has to be undone.
      if (!plan.stay.empty()) {
        const auto& [vm, why] = plan.stay.front();
        return give_up(make_error(Code::FailedPrecondition, "VM '" + vm.value + "': " + why));
      }
      const bool made = past.plan->outcome == Outcome::Succeeded;
      const std::string words = made ? in_words(plan) : "without a plan: " + past.plan->reason;
      if (words != told_ && !wait_because("Plan", "", words)) return;
      told_ = words;
    }
    move(next_wave(vms, plan), past);
  }

  struct NextMove {
    Vm vm;
    std::optional<HostId> destination;
  };
  /// The first wave that has VMs here; those that came after the plan go alone.
  static std::vector<NextMove> next_wave(const std::vector<Vm>& vms, const DrainPlan& plan) {
    for (const auto& wave : plan.plan.waves) {
      std::vector<NextMove> out;
      for (const auto& planned : wave.moves) {
        const auto& wanted = plan.moves[planned.index];
        const auto here =
            std::find_if(vms.begin(), vms.end(), [&](const Vm& vm) { return vm.id == wanted.vm; });
        if (here != vms.end()) out.push_back({*here, wanted.destination});
      }
      if (!out.empty()) return out;
    }
    return {{vms.front(), std::nullopt}};
  }

  void move(const std::vector<NextMove>& wave, const Past& past) {
    std::size_t started = 0;
    bool busy = false;
    std::optional<Error> trouble;
    for (const auto& next : wave) {
      const auto failed = past.failures.find(next.vm.id.value);
      const int tries = failed == past.failures.end() ? 0 : failed->second;
      if (tries >= kTries) {
        trouble = make_error(Code::FailedPrecondition, past.trouble);
        continue;
      }
      auto child = start(next, tries == 0);
      if (child) {
        ++started;
        continue;
      }
      // Somebody else's operation holds the VM: wait for it, as long as it has a chance to end.
      const bool ends = child.error().code == Code::Conflict ||
                        next.vm.state == VmState::Starting || next.vm.state == VmState::Stopping;
      busy |= ends;
      if (!ends) trouble = child.error().during("VM '" + next.vm.id.value + "' can't move");
    }
    if (started > 0) return;
    if (trouble) return give_up(*trouble);
    if (busy) come_back();
  }

  /// To where the plan says, unless that has become impossible or has failed before.
  Result<Operation> start(const NextMove& next, bool as_planned) {
    MigrateRequest request;
    request.vm = next.vm.id;
    if (as_planned) request.destination = next.destination;
    auto child = start_child(context_, request, operation().id);
    if (child || !request.destination || child.error().code == Code::Conflict) return child;
    request.destination.reset();
    return start_child(context_, request, operation().id);
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

  std::string told_;  // of the plan: once, however often it has to wait
};

}  // namespace

std::shared_ptr<Task> make_host_drain(Context& context, const Operation& operation) {
  return std::make_shared<HostDrain>(context, operation);
}

}  // namespace mare::engine
