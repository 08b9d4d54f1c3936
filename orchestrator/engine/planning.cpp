#include "orchestrator/engine/planning.h"

namespace mare::engine {

void Planning::enter(bool /*recovered*/) {
  PlanningState state{};
  MARE_ASSERT(state_from(operation().state, state));
  if (state == PlanningState::Planned) {
    if (!commit(to_string(PlanningEvent::Begin), to_string(PlanningState::Asking), "")) return;
  }
  advance();
}

void Planning::advance() {
  auto children = children_of(context_, operation().id);
  if (!children) return again();
  Asked asked{std::move(*children), 0};
  for (const auto& child : asked.children) {
    if (child.finished()) continue;
    ++asked.running;
    if (operation().cancel_requested) cancel_child(context_, child.id);
  }
  if (!operation().cancel_requested) return plan_on(std::move(asked));
  if (asked.running == 0) give_up(make_error(Code::Cancelled, "cancelled"));
}

void Planning::made(const std::string& words, const Also& also) {
  finish(to_string(PlanningEvent::AllMade), to_string(PlanningState::Done), Outcome::Succeeded,
         words, {}, also);
}

void Planning::give_up(const Error& error) {
  const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
  finish(to_string(PlanningEvent::GiveUp), to_string(PlanningState::Failed), outcome, error.text(),
         std::string(to_string(error.code)));
}

}  // namespace mare::engine
