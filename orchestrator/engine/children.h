// What parents share: starting children and asking how they ended.
#pragma once

#include <vector>

#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/task.h"

namespace mare::engine {

/// Accepts a child inside the parent's own transaction or in one of its own, and starts it.
template <typename Request>
Result<Operation> start_child(Context& context, const Request& request, const OperationId& parent) {
  Result<Operation> accepted = make_error(Code::Internal, "not planned");
  auto done = context.ports.store.write([&](store::Transaction& tx) -> Status {
    accepted = plan(tx, context, request, parent);
    if (!accepted) return accepted.error();
    return ok_status();
  });
  if (!done) return done.error();
  // Through the inbox: a child that ends at once must not find its parent half-way through a loop.
  context.inbox->post([&context, operation = *accepted] { context.adopt(operation, false); });
  return accepted;
}

inline Result<std::vector<Operation>> children_of(Context& context, const OperationId& parent) {
  return query<std::vector<Operation>>(context.ports.store, [&](const store::Reader& reader) {
    store::OperationFilter filter;
    filter.parent = parent;
    filter.limit = 100000;
    return reader.operations(filter);
  });
}

/// Commits the wish to cancel and tells the task. From the engine's thread.
inline void cancel_child(Context& context, const OperationId& child) {
  (void)context.ports.store.write([&](store::Transaction& tx) -> Status {
    auto row = tx.operation(child);
    if (!row) return row.error();
    if (row->finished()) return ok_status();
    row->cancel_requested = true;
    return tx.update(*row);
  });
  context.inbox->post([&context, child] {
    const auto task = context.tasks.find(child);
    if (task == context.tasks.end()) return;
    const auto keep = task->second;
    keep->cancel_was_committed();
  });
}

/// Of a VM that is to end: a migration that still waits for its turn is not waited for.
inline void cancel_waiting_move(Context& context, const VmId& vm) {
  auto holder = query<std::optional<Operation>>(
      context.ports.store, [&](const store::Reader& r) { return r.unfinished("vm", vm.value); });
  if (!holder || !*holder || (*holder)->kind != OperationKind::VmMigrate) return;
  if ((*holder)->state == to_string(MigrationState::Planned)) {
    cancel_child(context, (*holder)->id);
  }
}

}  // namespace mare::engine
