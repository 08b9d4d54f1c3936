// Before anything is asked or touched: a migration waits in Planned, with its reason on the
// operation, until hosts and links have a place for it.
#include "orchestrator/engine/move_slots.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/vm_migrate.h"

namespace mare::engine {
namespace {
// A VM that ends meanwhile shall not stay locked by a move that can't be any more.
constexpr auto kLookEvery = std::chrono::seconds{2};
}  // namespace

void VmMigrate::take_turn() {
  if (operation().cancel_requested) return refuse(make_error(Code::Cancelled, "cancelled"));
  const bool gone = vm_.state == VmState::Stopped || vm_.state == VmState::Failed;
  if (gone) return refuse(wrong_state(vm_, "running"));
  const std::string full =
      context_.slots->ask(operation().id, migration_.source, migration_.destination);
  if (full.empty()) {
    if (!operation().reason.empty()) {
      set_deadline(clock().wall_now() + (operation().deadline - operation().created));
      if (!wait_because("Turn", "")) return;
    }
    return forecast_first();
  }
  if (operation().reason.empty() && !wait_because("Wait", "waits for a slot: " + full)) return;
  const auto look_again = [this] {
    if (!load()) return again();
    take_turn();
  };
  context_.slots->on_turn(operation().id, later(look_again));
  after(kLookEvery, look_again);
}

}  // namespace mare::engine
