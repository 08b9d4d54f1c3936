// plan.drain: what emptying a host would cost. A child forecasts the move of each of its VMs;
// nothing moves.
#include <set>

#include "orchestrator/engine/children.h"
#include "orchestrator/engine/drain_plan.h"

namespace mare::engine {
namespace {

// As many as a forecast's patience bears that wait for each other's bursts.
constexpr std::size_t kForecastsAtOnce = 4;

class PlanDrain final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    PlanDrainState state{};
    MARE_ASSERT(state_from(operation().state, state));
    if (state == PlanDrainState::Planned) {
      if (!commit(to_string(PlanDrainEvent::Begin), to_string(PlanDrainState::Asking), "")) return;
    }
    advance();
  }
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }

 private:
  HostId id() const { return HostId{operation().target}; }

  void advance() {
    auto children = children_of(context_, operation().id);
    if (!children) return again();
    std::set<std::string> asked;
    std::size_t running = 0;
    std::string trouble;
    for (const auto& child : *children) {
      asked.insert(child.target);
      if (!child.finished()) {
        ++running;
        if (operation().cancel_requested) cancel_child(context_, child.id);
      } else if (child.outcome != Outcome::Succeeded && trouble.empty()) {
        trouble = "VM '" + child.target + "': " + child.reason;
      }
    }
    if (operation().cancel_requested) {
      if (running == 0) give_up(make_error(Code::Cancelled, "cancelled"));
      return;
    }
    if (trouble.empty()) {
      auto more = ask_more(asked, running);
      if (!more) return give_up(more.error());
      if (*more) return;
    }
    if (running > 0) return;  // their ends bring us back
    if (!trouble.empty()) return give_up(make_error(Code::FailedPrecondition, trouble));
    sum_up();
  }

  /// True when there is still something to wait for.
  Result<bool> ask_more(const std::set<std::string>& asked, std::size_t running) {
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_on(id()); });
    if (!vms) return vms.error();
    auto places = query<std::vector<HostId>>(
        store(), [&](const store::Reader& r) { return find_destinations(r, id()); });
    if (!places) return places.error();
    bool waits = running > 0;
    for (std::size_t i = 0; i < vms->size() && i < places->size(); ++i) {
      if (asked.contains((*vms)[i].id.value)) continue;
      waits = true;
      if (running >= kForecastsAtOnce) break;
      ForecastRequest request;
      request.vm = (*vms)[i].id;
      request.destination = (*places)[i];
      auto child = start_child(context_, request, operation().id);
      if (!child) return child.error().during("VM '" + request.vm.value + "'");
      ++running;
    }
    return waits;
  }

  void sum_up() {
    auto plan = query<DrainPlan>(store(), [&](const store::Reader& reader) {
      return read_drain_plan(reader, operation().id, settings().move_caps);
    });
    if (!plan) return again();
    finish(to_string(PlanDrainEvent::AllMade), to_string(PlanDrainState::Done), Outcome::Succeeded,
           in_words(*plan));
  }

  void give_up(const Error& error) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(PlanDrainEvent::GiveUp), to_string(PlanDrainState::Failed), outcome,
           error.text(), std::string(to_string(error.code)));
  }
};

}  // namespace

std::shared_ptr<Task> make_plan_drain(Context& context, const Operation& operation) {
  return std::make_shared<PlanDrain>(context, operation);
}

}  // namespace mare::engine
