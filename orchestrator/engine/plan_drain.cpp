// plan.drain: what emptying a host would cost. A child forecasts the move of each of its VMs;
// nothing moves. Its request holds the whole plan when it has ended.
#include <set>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/moves_plan.h"
#include "orchestrator/engine/planning.h"

namespace mare::engine {
namespace {

class PlanDrain final : public Planning {
 public:
  PlanDrain(Context& context, const Operation& operation)
      : Planning(context, operation), policy_(policy_change_from(operation.request)) {}

 private:
  HostId id() const { return HostId{operation().target}; }

  void plan_on(Asked asked) override {
    std::set<std::string> vms;
    std::string trouble;
    for (const auto& child : asked.children) {
      vms.insert(child.target);
      if (child.finished() && child.outcome != Outcome::Succeeded && trouble.empty()) {
        trouble = "VM '" + child.target + "': " + child.reason;
      }
    }
    if (trouble.empty()) {
      auto more = ask_more(vms, asked.running);
      if (!more) return give_up(more.error());
      if (*more) return;
    }
    if (asked.running > 0) return;  // their ends bring us back
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
      if (running >= kAtOnce) break;
      ForecastRequest request;
      request.vm = (*vms)[i].id;
      request.destination = (*places)[i];
      request.policy = policy_;
      auto child = start_child(context_, request, operation().id);
      if (!child) return child.error().during("VM '" + request.vm.value + "'");
      ++running;
    }
    return waits;
  }

  void sum_up() {
    auto plan = query<MovesPlan>(store(), [&](const store::Reader& reader) {
      return read_moves_plan(reader, operation().id, settings().move_caps);
    });
    if (!plan) return again();
    set_request(text_of(policy_, *plan));
    made(in_words(*plan));
  }

  const PolicyChange policy_;  // of the moves, against their pools'
};

}  // namespace

std::shared_ptr<Task> make_plan_drain(Context& context, const Operation& operation) {
  return std::make_shared<PlanDrain>(context, operation);
}

}  // namespace mare::engine
