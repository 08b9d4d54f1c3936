// One place per entity that knows its columns and their order, for reading and for writing.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/model/autoscaler.h"
#include "orchestrator/model/entities.h"
#include "orchestrator/model/rebalancing.h"
#include "orchestrator/store/connection.h"

namespace mare::store {

inline constexpr const char* kHostColumns =
    "id, address, admin, health, health_reason, memory_bytes, cpus, vm_overhead_bytes, hypervisor, "
    "live_migration, added_us, last_seen_us, strategies, dirty_log, dirty_log_why, "
    "migration_tls, failures, lease_ms, fence, fences, migration_address, cpu_speed";
inline constexpr const char* kPoolColumns =
    "id, image, image_version, size, memory_bytes, vcpus, token, hosts, created_us, "
    "move_policy, project";
inline constexpr const char* kVmColumns =
    "id, pool, idx, uuid, mac, ip, memory_bytes, vcpus, state, host, reason, created_us, "
    "started_us";
inline constexpr const char* kJobColumns =
    "id, name, pool, command, environment, ranks, state, exit_code, reason, vms, output_bytes, "
    "created_us, started_us, ended_us, checkpoint_rule, checkpoint_every_us, checkpoints_kept, "
    "restarts, recovery_from, recovery_tries, safe_points, safe_point_wait_us, checkpoint_mode, "
    "checkpoint_chain, checkpoints_max_age_us, checkpoint_partner, tightness";
inline constexpr const char* kOperationColumns =
    "id, kind, target, state, outcome, reason, error_code, parent, cancel_requested, attempt, "
    "request, "
    "progress, created_us, started_us, ended_us, deadline_us";
inline constexpr const char* kMigrationColumns =
    "id, vm, source, destination, bandwidth_limit_bytes_per_s, downtime_limit_ms, rounds, "
    "memory_total_bytes, transferred_bytes, remaining_bytes, total_time_us, "
    "downtime_hypervisor_us, "
    "downtime_guest_us, downtime_peers_us, announce_delay_us, announcements, switched_us, jobs, "
    "sending, planned_us, file_path, file, held_us, switched_with, earlier, reconsiders";

inline constexpr const char* kForecastColumns =
    "id, vm, source, destination, made_us, has_job, program, choice, reason, sending, policy, "
    "profile, link, strategies, outcome, job, verdicts, "
    "destination_speed, tightness";

inline constexpr const char* kCheckpointColumns =
    "id, job, operation, state, began_us, completed_us, pause_us, skew_us, size_bytes, parts, "
    "safe_point";

inline constexpr const char* kAutoscalerColumns =
    "id, setting, posted, posted_us, memory, looked_us, metric, desired, reason, operation";

inline constexpr const char* kQuotaColumns = "id, vms, memory_bytes, hosts";
inline constexpr const char* kRebalancingColumns = "id, setting, state";

Host read_host(Statement& row);
Pool read_pool(Statement& row);
Vm read_vm(Statement& row);
Job read_job(Statement& row);
Operation read_operation(Statement& row);
Migration read_migration(Statement& row);
Forecast read_forecast(Statement& row);
Checkpoint read_checkpoint(Statement& row);

Autoscaler read_autoscaler(Statement& row);
Quota read_quota(Statement& row);
Rebalancing read_rebalancing(Statement& row);

void bind_row(Statement& to, const Host& host);
void bind_row(Statement& to, const Pool& pool);
void bind_row(Statement& to, const Vm& vm);
void bind_row(Statement& to, const Job& job);
void bind_row(Statement& to, const Operation& operation);
void bind_row(Statement& to, const Migration& migration);
void bind_row(Statement& to, const Forecast& forecast);
void bind_row(Statement& to, const Checkpoint& checkpoint);
void bind_row(Statement& to, const Autoscaler& autoscaler);
void bind_row(Statement& to, const Quota& quota);
void bind_row(Statement& to, const Rebalancing& rebalancing);

/// A Sending as its column has it, in both tables; what it does not hold reads as the default.
std::string sending_text(const Sending& sending);
Sending sending_from(const std::string& text);
std::string file_move_text(const FileMove& file);
FileMove file_move_from(const std::string& text);
/// The same for a policy.
std::string policy_text(const MovePolicy& policy);
MovePolicy policy_from(const std::string& text);

}  // namespace mare::store
