// The states of every entity and, for operations, the tables of transitions. All pure.
// A state's name says what is durably true when a row carries it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mare {

enum class HostAdmin : std::uint8_t { Active, Draining, Drained };
enum class HostHealth : std::uint8_t { Unknown, Up, Down };
/// Whether a silent host's VMs are known to be still: docs/adr/0008.
enum class HostFence : std::uint8_t {
  None,
  Begun,  // its lease is not renewed any more, and the storage is to show it
  Over,   // nothing runs there, until it has answered and this is lifted
};
enum class VmState : std::uint8_t {
  Stopped,    // no copy anywhere
  Starting,   // a start was committed; a copy may exist on `host`
  Running,    // one copy on `host`, guest answered
  Migrating,  // one copy, on `host` (the source) until the migration is Committed
  Stopping,   // a stop was committed
  Failed,     // start failed or the guest died; no copy
  Lost,       // its host is silent: a copy may be there
};
enum class JobState : std::uint8_t { Queued, Starting, Running, Succeeded, Failed, Cancelled };
enum class OperationKind : std::uint8_t {
  HostAdd,
  HostRemove,
  HostDrain,
  PoolCreate,
  PoolScale,
  PoolDelete,
  VmStart,
  VmStop,
  VmMigrate,
  JobRun,
  ForecastMake,    // of a VM: what a move of it would cost
  PlanDrain,       // of a host: the same of every VM that it has
  PlanLayout,      // of a job: which of its VMs had better be elsewhere, and what that would cost
  LayoutChange,    // of a job: its VMs over more hosts or on fewer
  CheckpointTake,  // of a job, as the next one: one at a time by their common noun
  CheckpointRestore,  // of a job: it goes on from a checkpoint
  RecoveryRun,        // of a job: one try to bring it back after a host or a VM of it died
  PlanRebalance,      // which running VMs had better be elsewhere, and what that would cost
  ClusterRebalance,   // they move there
  HostEvacuate,       // away from a host that will fail at a known time
  PlanEvacuate,       // of a host: what of that can be done in time
};
enum class Outcome : std::uint8_t { Pending, Succeeded, Failed, Cancelled, NeedsOperator };

std::string_view to_string(HostAdmin value);
std::string_view to_string(HostHealth value);
std::string_view to_string(HostFence value);
std::string_view to_string(VmState value);
std::string_view to_string(JobState value);
std::string_view to_string(OperationKind value);
std::string_view to_string(Outcome value);
std::optional<HostAdmin> host_admin_from(std::string_view text);
std::optional<HostHealth> host_health_from(std::string_view text);
std::optional<HostFence> host_fence_from(std::string_view text);
std::optional<VmState> vm_state_from(std::string_view text);
std::optional<JobState> job_state_from(std::string_view text);
std::optional<OperationKind> operation_kind_from(std::string_view text);
std::optional<Outcome> outcome_from(std::string_view text);

/// May a job in this state still change?
constexpr bool is_final(JobState state) {
  return state == JobState::Succeeded || state == JobState::Failed || state == JobState::Cancelled;
}

}  // namespace mare
