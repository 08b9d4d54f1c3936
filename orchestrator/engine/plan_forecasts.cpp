// Checks of requests for forecasts. The operation's row keeps the destination beside the policy, so
// that it is the same one after a restart.
#include <nlohmann/json.hpp>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/plan.h"

namespace mare::engine {

Result<Operation> plan(store::Transaction& tx, Context& context, const ForecastRequest& request,
                       const std::optional<OperationId>& parent) {
  auto vm = tx.vm(request.vm);
  if (!vm) return vm.error();
  auto pool = tx.pool(vm->pool);
  if (!pool) return pool.error();
  const MovePolicy policy = changed(pool->move_policy, request.policy);
  if (auto good = check(policy); !good) return good.error();
  if (auto good = check(request.timing); !good) return good.error();
  // Its own noun lets it run beside a job, but a VM that is on its way tells nothing.
  auto holder = tx.unfinished("vm", request.vm.value);
  if (!holder) return holder.error();
  if (*holder) {
    return make_error(Code::Conflict,
                      "VM '" + request.vm.value + "' is held by " + (*holder)->id.value + " (" +
                          std::string(to_string((*holder)->kind)) + ", " + (*holder)->state + ")",
                      "wait for it with 'mare operation wait " + (*holder)->id.value + "'");
  }
  if (vm->state != VmState::Running) return wrong_state(*vm, "running");
  // The forecast itself tells which strategies a host lacks, so the one that all have will do here.
  auto destination = find_destination(tx, *vm, request.destination,
                                      policy.strategy.value_or(Strategy::StopAndCopy));
  if (!destination) return destination.error();
  nlohmann::json text = nlohmann::json::parse(text_of(policy, false, request.timing));
  text["destination"] = destination->value;
  Operation draft;
  draft.kind = OperationKind::ForecastMake;
  draft.target = request.vm.value;
  draft.parent = parent;
  draft.request = text.dump();
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context,
                       const DrainForecastRequest& request,
                       const std::optional<OperationId>& parent) {
  auto places = find_destinations(tx, request.id);
  if (!places) return places.error();
  if (auto good = check_on(tx, request.id, request.policy); !good) return good.error();
  Operation draft;
  draft.kind = OperationKind::PlanDrain;
  draft.target = request.id.value;
  draft.parent = parent;
  draft.request = text_of(request.policy);
  return insert_operation(tx, context.ports.clock, draft);
}

}  // namespace mare::engine
