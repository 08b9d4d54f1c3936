#include "orchestrator/engine/task.h"

#include <nlohmann/json.hpp>

#include "orchestrator/engine/move_slots.h"
#include "orchestrator/engine/switch_gangs.h"

namespace mare::engine {

std::shared_ptr<Task> make_task(Context& context, const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::HostAdd:
      return make_host_add(context, operation);
    case OperationKind::HostRemove:
      return make_host_remove(context, operation);
    case OperationKind::HostDrain:
      return make_host_drain(context, operation);
    case OperationKind::PoolCreate:
      return make_pool_create(context, operation);
    case OperationKind::PoolScale:
      return make_pool_scale(context, operation);
    case OperationKind::PoolDelete:
      return make_pool_delete(context, operation);
    case OperationKind::VmStart:
      return make_vm_start(context, operation);
    case OperationKind::VmStop:
      return make_vm_stop(context, operation);
    case OperationKind::VmMigrate:
      return make_vm_migrate(context, operation);
    case OperationKind::JobRun:
      return make_job_run(context, operation);
    case OperationKind::ForecastMake:
      return make_forecast(context, operation);
    case OperationKind::PlanDrain:
      return make_plan_drain(context, operation);
    case OperationKind::PlanLayout:
      return make_plan_layout(context, operation);
    case OperationKind::LayoutChange:
      return make_layout_change(context, operation);
    case OperationKind::CheckpointTake:
      return make_checkpoint_take(context, operation);
    case OperationKind::CheckpointRestore:
      return make_checkpoint_restore(context, operation);
    case OperationKind::RecoveryRun:
      return make_recovery_run(context, operation);
    case OperationKind::PlanRebalance:
      return make_plan_rebalance(context, operation);
    case OperationKind::ClusterRebalance:
      return make_cluster_rebalance(context, operation);
    case OperationKind::HostEvacuate:
      return make_host_evacuate(context, operation);
    case OperationKind::PlanEvacuate:
      return make_plan_evacuate(context, operation);
  }
  MARE_ASSERT(false);
}

void Task::cancel_was_committed() {
  if (operation_.cancel_requested) return;
  operation_.cancel_requested = true;
  on_cancel();
}

std::function<bool()> Task::guard_here() {
  return [weak = weak_from_this(), epoch = epoch_] {
    const auto self = weak.lock();
    return self != nullptr && self->epoch_ == epoch;
  };
}

void Task::after(std::chrono::nanoseconds delay, std::function<void()> what) {
  context_.after(delay, [guard = guard_here(), what = std::move(what)] {
    if (guard()) what();
  });
}

// clang-analyzer 14 does not see that what an std::function holds goes with it.
// NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks)
std::function<void()> Task::later(std::function<void()> what) {
  return [inbox = context_.inbox, guard = guard_here(), what = std::move(what)] {
    inbox->post([guard, what] {
      if (guard()) what();
    });
  };
}
// NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

void Task::again(std::chrono::nanoseconds delay) {
  after(delay, [this] {
    ++epoch_;
    enter(true);
  });
}

bool Task::commit(std::string_view event, std::string_view to, const std::string& detail,
                  const Also& also) {
  Operation updated = operation_;
  updated.state = to;
  updated.reason.clear();  // why it waited
  if (updated.started.count() == 0) updated.started = clock().wall_now();
  return write(std::move(updated), event, detail, also);
}

bool Task::wait_because(std::string_view event, const std::string& reason,
                        const std::string& detail, const Also& also) {
  Operation updated = operation_;
  updated.reason = reason;
  return write(std::move(updated), event, detail, also);
}

bool Task::finish(std::string_view event, std::string_view to, Outcome outcome,
                  const std::string& reason, const std::string& error_code, const Also& also) {
  Operation updated = operation_;
  updated.state = to;
  updated.outcome = outcome;
  updated.reason = reason;
  updated.error_code = error_code;
  updated.ended = clock().wall_now();
  if (updated.started.count() == 0) updated.started = updated.ended;
  if (outcome == Outcome::Succeeded) updated.progress = 1;
  // Every end gives back what the operation had reserved, so that no reservation outlives its
  // operation.
  const auto with_release = [&](store::Transaction& tx) -> Status {
    if (also) {
      if (auto done = also(tx); !done) return done;
    }
    return tx.release(operation_.id);
  };
  if (!write(std::move(updated), event, reason, with_release)) return false;
  const auto self = shared_from_this();  // the list below may hold the last reference
  if (to_string(operation_.kind).starts_with("vm.")) {
    context_.settled[VmId{operation_.target}] = clock().now();
  }
  context_.slots->leave(operation_.id);
  context_.gangs->leave(operation_.id);
  context_.tasks.erase(operation_.id);
  if (operation_.parent) {
    const auto parent = context_.tasks.find(*operation_.parent);
    if (parent != context_.tasks.end()) {
      context_.inbox->post([weak = std::weak_ptr<Task>(parent->second), ended = operation_] {
        if (const auto alive = weak.lock()) alive->on_child_ended(ended);
      });
    }
  }
  return true;
}

bool Task::write(Operation updated, std::string_view event, const std::string& detail,
                 const Also& also) {
  auto done = store().write([&](store::Transaction& tx) -> Status {
    if (also) {
      if (auto extra = also(tx); !extra) return extra;
    }
    // A cancel may have been committed by another thread since this copy was read.
    auto row = tx.operation(updated.id);
    if (!row) return row.error();
    take_over(*row, updated);
    if (auto kept = tx.update(updated); !kept) return kept;
    const OperationEvent line{
        0,     updated.id, clock().wall_now(), operation_.state, std::string(event), updated.state,
        detail};
    if (auto kept = tx.append(line); !kept) return kept;
    const nlohmann::json data{
        {"kind", to_string(updated.kind)}, {"target", updated.target},
        {"from", operation_.state},        {"event", event},
        {"state", updated.state},          {"outcome", to_string(updated.outcome)},
        {"reason", updated.reason}};
    return emit(tx, clock(), "operation", updated.id.value, "operation.state",
                data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
  if (!done) {
    log().error("engine",
                operation_.id.value + " stays in " + operation_.state + ": " + done.error().text());
    again();
    return false;
  }
  const bool cancel_is_new = updated.cancel_requested && !operation_.cancel_requested;
  // The cancel itself comes as a message; here it must not be forgotten that it did not come yet.
  if (cancel_is_new) updated.cancel_requested = false;
  operation_ = std::move(updated);
  ++epoch_;
  state_since_ = clock().now();
  log().debug("engine", operation_.id.value + " " + std::string(to_string(operation_.kind)) + " " +
                            operation_.target + ": " + operation_.state +
                            (detail.empty() ? "" : " (" + detail + ")"));
  context_.changed();
  if (context_.after_commit) context_.after_commit(operation_);
  return true;
}

std::string Task::why_in(std::string_view state, const std::string& otherwise) const {
  auto lines = query<std::vector<OperationEvent>>(
      store(), [&](const store::Reader& r) { return r.history(operation().id); });
  if (!lines) return lines.error().text();
  for (auto line = lines->rbegin(); line != lines->rend(); ++line) {
    if (line->to == state) return line->detail;
  }
  return otherwise;
}

void Task::progress(double fraction) {
  operation_.progress = fraction;
}

void Task::save_progress() {
  // Losing it is harmless, so a failure is not worth more than the next attempt.
  (void)store().write([&](store::Transaction& tx) -> Status {
    auto row = tx.operation(operation_.id);
    if (!row) return row.error();
    row->progress = operation_.progress;
    return tx.update(*row);
  });
  context_.changed();
}

Result<Vm> Task::vm(const VmId& id) const {
  return query<Vm>(store(), [&](const store::Reader& reader) { return reader.vm(id); });
}

Result<Host> Task::host(const HostId& id) const {
  return query<Host>(store(), [&](const store::Reader& reader) { return reader.host(id); });
}

bool Task::is_down(const HostId& id) const {
  const auto row = host(id);
  return row && row->health == HostHealth::Down;
}

}  // namespace mare::engine
