#include "orchestrator/model/states.h"

#include "orchestrator/model/names.h"

namespace mare {
namespace {

constexpr std::array kHostAdmin{Name<HostAdmin>{HostAdmin::Active, "active"},
                                Name<HostAdmin>{HostAdmin::Draining, "draining"},
                                Name<HostAdmin>{HostAdmin::Drained, "drained"}};
constexpr std::array kHostHealth{Name<HostHealth>{HostHealth::Unknown, "unknown"},
                                 Name<HostHealth>{HostHealth::Up, "up"},
                                 Name<HostHealth>{HostHealth::Down, "down"}};
constexpr std::array kHostFence{Name<HostFence>{HostFence::None, "none"},
                                Name<HostFence>{HostFence::Begun, "begun"},
                                Name<HostFence>{HostFence::Over, "over"}};
constexpr std::array kVmState{
    Name<VmState>{VmState::Stopped, "stopped"},   Name<VmState>{VmState::Starting, "starting"},
    Name<VmState>{VmState::Running, "running"},   Name<VmState>{VmState::Migrating, "migrating"},
    Name<VmState>{VmState::Stopping, "stopping"}, Name<VmState>{VmState::Failed, "failed"},
    Name<VmState>{VmState::Lost, "lost"}};
constexpr std::array kJobState{
    Name<JobState>{JobState::Queued, "queued"},   Name<JobState>{JobState::Starting, "starting"},
    Name<JobState>{JobState::Running, "running"}, Name<JobState>{JobState::Succeeded, "succeeded"},
    Name<JobState>{JobState::Failed, "failed"},   Name<JobState>{JobState::Cancelled, "cancelled"}};
constexpr std::array kKind{
    Name<OperationKind>{OperationKind::HostAdd, "host.add"},
    Name<OperationKind>{OperationKind::HostRemove, "host.remove"},
    Name<OperationKind>{OperationKind::HostDrain, "host.drain"},
    Name<OperationKind>{OperationKind::PoolCreate, "pool.create"},
    Name<OperationKind>{OperationKind::PoolScale, "pool.scale"},
    Name<OperationKind>{OperationKind::PoolDelete, "pool.delete"},
    Name<OperationKind>{OperationKind::VmStart, "vm.start"},
    Name<OperationKind>{OperationKind::VmStop, "vm.stop"},
    Name<OperationKind>{OperationKind::VmMigrate, "vm.migrate"},
    Name<OperationKind>{OperationKind::JobRun, "job.run"},
    Name<OperationKind>{OperationKind::ForecastMake, "forecast.make"},
    Name<OperationKind>{OperationKind::PlanDrain, "plan.drain"},
    Name<OperationKind>{OperationKind::PlanLayout, "plan.layout"},
    Name<OperationKind>{OperationKind::LayoutChange, "layout.change"},
    Name<OperationKind>{OperationKind::CheckpointTake, "checkpoint.take"},
    Name<OperationKind>{OperationKind::CheckpointRestore, "checkpoint.restore"},
    Name<OperationKind>{OperationKind::RecoveryRun, "recovery.run"},
    Name<OperationKind>{OperationKind::PlanRebalance, "plan.rebalance"},
    Name<OperationKind>{OperationKind::ClusterRebalance, "cluster.rebalance"},
    Name<OperationKind>{OperationKind::HostEvacuate, "host.evacuate"},
    Name<OperationKind>{OperationKind::PlanEvacuate, "plan.evacuate"}};
constexpr std::array kOutcome{
    Name<Outcome>{Outcome::Pending, "pending"}, Name<Outcome>{Outcome::Succeeded, "succeeded"},
    Name<Outcome>{Outcome::Failed, "failed"}, Name<Outcome>{Outcome::Cancelled, "cancelled"},
    Name<Outcome>{Outcome::NeedsOperator, "needs_operator"}};

}  // namespace

std::string_view to_string(HostAdmin value) {
  return name_of(kHostAdmin, value);
}
std::string_view to_string(HostHealth value) {
  return name_of(kHostHealth, value);
}
std::string_view to_string(HostFence value) {
  return name_of(kHostFence, value);
}
std::string_view to_string(VmState value) {
  return name_of(kVmState, value);
}
std::string_view to_string(JobState value) {
  return name_of(kJobState, value);
}
std::string_view to_string(OperationKind value) {
  return name_of(kKind, value);
}
std::string_view to_string(Outcome value) {
  return name_of(kOutcome, value);
}
std::optional<HostAdmin> host_admin_from(std::string_view t) {
  return value_of(kHostAdmin, t);
}
std::optional<HostHealth> host_health_from(std::string_view t) {
  return value_of(kHostHealth, t);
}
std::optional<HostFence> host_fence_from(std::string_view t) {
  return value_of(kHostFence, t);
}
std::optional<VmState> vm_state_from(std::string_view t) {
  return value_of(kVmState, t);
}
std::optional<JobState> job_state_from(std::string_view t) {
  return value_of(kJobState, t);
}
std::optional<OperationKind> operation_kind_from(std::string_view t) {
  return value_of(kKind, t);
}
std::optional<Outcome> outcome_from(std::string_view t) {
  return value_of(kOutcome, t);
}

}  // namespace mare
