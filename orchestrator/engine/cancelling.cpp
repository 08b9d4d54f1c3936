#include "orchestrator/engine/cancelling.h"

#include <string>

#include "orchestrator/model/checkpoint_lifecycles.h"
#include "orchestrator/model/migration_state.h"

namespace mare::engine {

Status can_cancel(const Operation& operation) {
  if (operation.finished()) {
    return make_error(
        Code::FailedPrecondition,
        operation.id.value + " has ended (" + std::string(to_string(operation.outcome)) + ")",
        "there is nothing left to cancel");
  }
  switch (operation.kind) {
    case OperationKind::VmMigrate: {
      const auto state = migration_state_from(operation.state);
      // One that is being given up may be about to begin anew.
      const bool early = state == MigrationState::Planned || state == MigrationState::Reserved ||
                         state == MigrationState::PreCopying ||
                         state == MigrationState::Switching || state == MigrationState::Saving ||
                         state == MigrationState::Aborting;
      if (early) return ok_status();
      return make_error(Code::FailedPrecondition,
                        operation.id.value + " is " + operation.state +
                            ": the VM has changed hosts, it is too late to cancel",
                        "wait for it, then migrate back");
    }
    case OperationKind::VmStop:
    case OperationKind::PoolDelete:
    case OperationKind::HostRemove:
      return make_error(Code::FailedPrecondition,
                        std::string(to_string(operation.kind)) + " can't be cancelled",
                        "wait for it to end");
    case OperationKind::HostAdd:
    case OperationKind::HostDrain:
    case OperationKind::PoolCreate:
    case OperationKind::PoolScale:
    case OperationKind::VmStart:
    case OperationKind::JobRun:
    case OperationKind::ForecastMake:
    case OperationKind::PlanDrain:
    case OperationKind::PlanLayout:
    case OperationKind::LayoutChange:
    case OperationKind::CheckpointTake:
    case OperationKind::PlanRebalance:
    case OperationKind::ClusterRebalance:
    case OperationKind::HostEvacuate:
    case OperationKind::PlanEvacuate:
      return ok_status();
    case OperationKind::RecoveryRun:
      return make_error(Code::FailedPrecondition,
                        operation.id.value + " brings " + operation.target + " back",
                        "cancel the job with 'mare job cancel " + operation.target + "'");
    case OperationKind::CheckpointRestore:
      if (operation.state == to_string(CheckpointRestoreState::Planned)) return ok_status();
      return make_error(Code::FailedPrecondition,
                        operation.id.value + " has ended what was left of the job's VMs",
                        "wait for it, then cancel the job");
  }
  return ok_status();
}

}  // namespace mare::engine
