#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/engine/plan.h"
#include "orchestrator/model/checkpoint_lifecycles.h"
#include "orchestrator/policy/checkpoint_retention.h"

namespace mare::engine {
namespace {

constexpr Seconds kShortest{1};
constexpr Seconds kLongest{30.0 * 86400};
constexpr int kMostKept = 100;
constexpr Seconds kShortestWait{0.01};
constexpr Seconds kLongestWait{60};
constexpr int kLongestChain = 100;
constexpr Seconds kYoungest{60};
constexpr Seconds kOldest{10 * 365.0 * 86400};

bool holds(const Operation& operation) {
  // Both kinds call it so.
  return operation.state != to_string(CheckpointTakeState::Planned);
}

}  // namespace

Result<Checkpoint> find_checkpoint(const store::Reader& reader, const RestartRequest& request) {
  auto all = reader.checkpoints_of(request.job);
  if (!all) return all.error();
  const auto found = std::find_if(all->begin(), all->end(), [&](const Checkpoint& one) {
    if (one.state != CheckpointState::Complete) return false;
    return !request.checkpoint || one.id == *request.checkpoint;
  });
  if (found != all->end()) return *found;
  if (request.checkpoint) {
    return field_error("checkpoint",
                       request.job.value + " has no checkpoint '" + request.checkpoint->value + "'",
                       "see 'mare job checkpoints " + request.job.value + "'");
  }
  return make_error(Code::FailedPrecondition, request.job.value + " has no checkpoint",
                    "take one with 'mare job checkpoint " + request.job.value +
                        "', or submit it with --checkpoint-every");
}

Status retire_checkpoints(store::Transaction& tx, const Clock& clock, const Job& job) {
  auto all = tx.checkpoints_of(job.id);
  if (!all) return all.error();
  for (const auto& [id, state] : policy::retire(*all, job.checkpoints, clock.wall_now())) {
    auto one = tx.checkpoint(id);
    if (!one) return one.error();
    one->state = state;
    if (auto done = put_checkpoint(tx, clock, *one); !done) return done;
  }
  return ok_status();
}

Result<bool> comes_back(const store::Reader& reader, const Job& job) {
  auto all = reader.checkpoints_of(job.id);
  if (!all) return all.error();
  const auto newest = std::find_if(all->begin(), all->end(), [](const Checkpoint& one) {
    return one.state == CheckpointState::Complete;
  });
  if (newest == all->end()) return false;
  if (job.checkpoints.rule != CheckpointRule::Never) return true;
  auto take = reader.operation(newest->operation);
  if (!take || !take->parent) return false;  // by hand, or so long ago that nobody knows
  auto parent = reader.operation(*take->parent);
  return parent && parent->kind == OperationKind::HostEvacuate;
}

Status check(const CheckpointPlan& plan) {
  if (plan.rule == CheckpointRule::Every && (plan.every < kShortest || plan.every > kLongest)) {
    return field_error(
        "checkpoint_every_s",
        "a checkpoint every " + std::to_string(plan.every.count()) + " s can't be taken",
        "give 1 s to 30 days");
  }
  if (plan.keep < 1 || plan.keep > kMostKept) {
    return field_error("checkpoints_kept", std::to_string(plan.keep) + " checkpoints can't be kept",
                       "give 1 to " + std::to_string(kMostKept));
  }
  if (plan.safe_point_wait < kShortestWait || plan.safe_point_wait > kLongestWait) {
    return field_error("safe_point_wait_s",
                       "a checkpoint can't wait " + std::to_string(plan.safe_point_wait.count()) +
                           " s for a safe point",
                       "give 0.01 to 60 s");
  }
  if (plan.chain < 1 || plan.chain > kLongestChain) {
    return field_error(
        "checkpoint_chain",
        "a full checkpoint can't be followed by " + std::to_string(plan.chain) + " built on it",
        "give 1 to " + std::to_string(kLongestChain) + ", or the mode 'full'");
  }
  if (plan.max_age != Seconds{0} && (plan.max_age < kYoungest || plan.max_age > kOldest)) {
    return field_error(
        "checkpoints_max_age_s",
        "checkpoints can't be kept for " + std::to_string(plan.max_age.count()) + " s at most",
        "give 60 s to 10 years, or 0 for any age");
  }
  return ok_status();
}

Status check_not_in_checkpoint(const store::Reader& reader, const Vm& vm) {
  auto jobs = jobs_on(reader, vm);
  if (!jobs) return jobs.error();
  for (const auto& job : *jobs) {
    auto holder = reader.unfinished("checkpoint", job.id.value);
    if (!holder) return holder.error();
    if (!*holder || !holds(**holder)) continue;
    return make_error(Code::Conflict,
                      "VM '" + vm.id.value + "' is held by " + (*holder)->id.value + " (" +
                          std::string(to_string((*holder)->kind)) + " of " + job.id.value + ", " +
                          (*holder)->state + ")",
                      "wait for it with 'mare operation wait " + (*holder)->id.value + "'");
  }
  return ok_status();
}

Result<std::string> who_works_on(const store::Reader& reader, const Job& job) {
  for (const auto& vm : job.vms) {
    auto holder = reader.unfinished("vm", vm.value);
    if (!holder) return holder.error();
    if (!*holder) continue;
    const Operation& operation = **holder;
    const bool waits = operation.kind == OperationKind::VmMigrate &&
                       operation.state == to_string(MigrationState::Planned);
    if (waits) continue;
    return "VM '" + vm.value + "' is held by " + operation.id.value + " (" +
           std::string(to_string(operation.kind)) + ", " + operation.state + ")";
  }
  return std::string{};
}

Result<Operation> plan(store::Transaction& tx, Context& context, const CheckpointRequest& request,
                       const std::optional<OperationId>& parent) {
  auto job = tx.job(request.job);
  if (!job) return job.error();
  // Who works on it already is the better answer than what state that has put it into.
  auto holder = tx.unfinished("checkpoint", request.job.value);
  if (!holder) return holder.error();
  if (!*holder && job->state != JobState::Running) {
    return make_error(
        Code::FailedPrecondition,
        request.job.value + " is " + std::string(to_string(job->state)) + ", it does not run");
  }
  Operation draft;
  draft.kind = OperationKind::CheckpointTake;
  draft.target = request.job.value;
  draft.parent = parent;
  draft.deadline = context.ports.clock.wall_now() +
                   std::chrono::duration_cast<WallTime>(context.settings.checkpoint_timeout);
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context, const RestartRequest& request,
                       const std::optional<OperationId>& parent) {
  auto job = tx.job(request.job);
  if (!job) return job.error();
  auto checkpoint = find_checkpoint(tx, request);
  if (!checkpoint) return checkpoint.error();
  nlohmann::json hosts = nlohmann::json::array();
  for (const auto& host : request.hosts) {
    auto row = tx.host(host);
    if (!row) {
      Error error = row.error();
      if (error.code == Code::NotFound) error.field = "hosts";
      return error;
    }
    hosts.push_back(host.value);
  }
  auto pool = tx.pool(job->pool);
  if (!pool) return pool.error();
  Operation draft;
  draft.kind = OperationKind::CheckpointRestore;
  draft.target = request.job.value;
  draft.parent = parent;
  draft.request = nlohmann::json{
      {"checkpoint", checkpoint->id.value},
      {"hosts", hosts},
      {"eager",
       request.eager}}.dump();
  draft.deadline = context.ports.clock.wall_now() +
                   std::chrono::duration_cast<WallTime>(context.settings.checkpoint_timeout);
  return insert_operation(tx, context.ports.clock, draft);
}

}  // namespace mare::engine
