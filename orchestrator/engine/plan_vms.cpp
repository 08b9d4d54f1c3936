#include <algorithm>
#include <cstdint>

#include "orchestrator/engine/autoscaling.h"
#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/scale_plan.h"

namespace mare::engine {
namespace {

/// A VM that runs nowhere is sent by nobody.
Status check_encryption(const store::Reader& reader, const Vm& vm, const Host& destination) {
  if (!vm.host) return ok_status();
  auto source = reader.host(*vm.host);
  if (!source) return source.error();
  if (source->migration_tls == destination.migration_tls) return ok_status();
  const Host& with = source->migration_tls ? *source : destination;
  const Host& without = source->migration_tls ? destination : *source;
  return make_error(
      Code::FailedPrecondition,
      "host '" + with.id.value + "' encrypts migrations, host '" + without.id.value + "' does not",
      "start both agents with --migration-tls, or both without");
}

/// Is this host fit to receive a running VM?
Status check_destination(const store::Reader& reader, const Vm& vm, const HostId& destination) {
  auto host = reader.host(destination);
  if (!host) {
    Error error = host.error();
    if (error.code == Code::NotFound) error.field = "destination";
    return error;
  }
  if (destination == vm.host) {
    return field_error("destination",
                       "VM '" + vm.id.value + "' is on host '" + destination.value + "' already",
                       "name another host, or none to let Maré choose");
  }
  if (host->health != HostHealth::Up) {
    return make_error(Code::Unavailable,
                      "host '" + destination.value + "' is " +
                          std::string(to_string(host->health)) +
                          (host->health_reason.empty() ? "" : ": " + host->health_reason),
                      "name a host that 'mare host list' shows as up");
  }
  if (host->admin != HostAdmin::Active) {
    return make_error(Code::FailedPrecondition,
                      "host '" + destination.value + "' is " + std::string(to_string(host->admin)),
                      "take it into use with 'mare host activate " + destination.value + "'");
  }
  if (auto alike = check_encryption(reader, vm, *host); !alike) return alike;
  auto rooms = rooms_now(reader, {destination}, {});
  if (!rooms) return rooms.error();
  const Bytes need = vm.memory + host->vm_overhead;
  if (rooms->empty() || rooms->front().free < need) {
    const Bytes free = rooms->empty() ? Bytes{} : rooms->front().free;
    return make_error(Code::ResourceExhausted,
                      "host '" + destination.value + "' has no room for VM '" + vm.id.value +
                          "': it needs " + mib_text(need) + ", " + mib_text(free) + " are free",
                      "name another host, or make room there");
  }
  return ok_status();
}

}  // namespace

Result<std::vector<Job>> jobs_on(const store::Reader& reader, const Vm& vm) {
  auto jobs = reader.unfinished_jobs_of(vm.pool);
  if (!jobs) return jobs.error();
  std::erase_if(*jobs, [&](const Job& job) {
    return std::find(job.vms.begin(), job.vms.end(), vm.id) == job.vms.end();
  });
  return jobs;
}

Error wrong_state(const Vm& vm, const std::string& wanted) {
  return make_error(Code::FailedPrecondition,
                    "VM '" + vm.id.value + "' is " + std::string(to_string(vm.state)) +
                        (vm.reason.empty() ? "" : " (" + vm.reason + ")"),
                    "it must be " + wanted);
}

Result<HostId> find_destination(const store::Reader& reader, const Vm& vm,
                                const std::optional<HostId>& wanted, Strategy strategy) {
  auto source = reader.host(*vm.host);
  if (!source) return source.error();
  const bool stands_still =
      strategy == Strategy::StopAndCopy || strategy == Strategy::CheckpointRestart;
  if (!source->live_migration && !stands_still) {
    return make_error(
        Code::Unsupported,
        "host '" + source->id.value + "' (" + source->hypervisor + ") can't migrate a running VM",
        "its 'mare host show' tells why; with the strategy stop-and-copy the VM stands still");
  }
  std::optional<HostId> destination = wanted;
  if (!destination) {
    auto alike = encrypting_alike(reader, *source);
    if (!alike) return alike.error();
    auto rooms = rooms_now(reader, *alike, vm.host);
    if (!rooms) return rooms.error();
    auto chosen = policy::place(*rooms, vm.memory);
    if (!chosen) return chosen.error();
    destination = *chosen;
  }
  if (auto fits = check_destination(reader, vm, *destination); !fits) return fits.error();
  return *destination;
}

Result<Operation> plan(store::Transaction& tx, Context& context, const VmStartRequest& request,
                       const std::optional<OperationId>& parent) {
  auto vm = tx.vm(request.id);
  if (!vm) return vm.error();
  if (!parent) {
    if (auto free = check_not_scaled(tx, *vm); !free) return free.error();
  }
  if (vm->state != VmState::Stopped && vm->state != VmState::Failed) {
    return wrong_state(*vm, "stopped");
  }
  if (auto free = check_not_in_checkpoint(tx, *vm); !free) return free.error();
  if (request.host) {
    if (auto fits = check_destination(tx, *vm, *request.host); !fits) {
      Error error = fits.error();
      if (!error.field.empty()) error.field = "host";
      return error;
    }
  }
  Operation draft;
  draft.kind = OperationKind::VmStart;
  draft.target = request.id.value;
  draft.parent = parent;
  if (request.host) draft.request = request.host->value;
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context, const VmStopRequest& request,
                       const std::optional<OperationId>& parent) {
  auto vm = tx.vm(request.id);
  if (!vm) return vm.error();
  if (!parent) {
    if (auto free = check_not_scaled(tx, *vm); !free) return free.error();
  }
  auto jobs = jobs_on(tx, *vm);
  if (!jobs) return jobs.error();
  if (!jobs->empty() && !request.force) {
    return make_error(Code::FailedPrecondition,
                      "VM '" + request.id.value + "' runs a rank of " + jobs->front().id.value,
                      "cancel the job first, or stop with force: the job will fail");
  }
  if (auto free = check_not_in_checkpoint(tx, *vm); !free) return free.error();
  Operation draft;
  draft.kind = OperationKind::VmStop;
  draft.target = request.id.value;
  draft.parent = parent;
  if (request.force) draft.request = "force";
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context, const MigrateRequest& request,
                       const std::optional<OperationId>& parent) {
  auto vm = tx.vm(request.vm);
  if (!vm) return vm.error();
  if (!parent) {
    if (auto free = check_not_scaled(tx, *vm); !free) return free.error();
  }
  if (request.timeout.count() < 1 || request.timeout.count() > 86400) {
    return field_error(
        "timeout_s", "a migration can't be given " + std::to_string(request.timeout.count()) + " s",
        "give 1 to 86400");
  }
  auto pool = tx.pool(vm->pool);
  if (!pool) return pool.error();
  const MovePolicy policy = changed(pool->move_policy, request.policy);
  if (auto good = check(policy); !good) return good.error();
  if (auto good = check(request.timing); !good) return good.error();
  const Sending sending = sending_for(policy);
  // Who holds the VM is the better answer than what state that holder has put it into.
  if (auto free = check_not_in_checkpoint(tx, *vm); !free) return free.error();
  auto holder = tx.unfinished("vm", request.vm.value);
  if (!holder) return holder.error();
  if (!*holder && vm->state != VmState::Running) return wrong_state(*vm, "running");
  std::optional<HostId> destination = request.destination;
  if (!*holder) {
    auto found = find_destination(tx, *vm, request.destination, sending.strategy);
    if (!found) return found.error();
    destination = *found;
  }
  Operation draft;
  draft.kind = OperationKind::VmMigrate;
  draft.target = request.vm.value;
  draft.parent = parent;
  draft.request = text_of(policy, request.force, request.timing);
  // What is to be done at the policy's own limit takes time as well.
  const Seconds longest = request.timeout + policy.time_limit.value_or(Seconds{0});
  draft.deadline = context.ports.clock.wall_now() + std::chrono::duration_cast<WallTime>(longest);
  auto accepted = insert_operation(tx, context.ports.clock, draft);  // Conflict if it is held
  if (!accepted) return accepted.error();

  Migration migration;
  migration.id = accepted->id;
  migration.vm = vm->id;
  migration.source = *vm->host;
  migration.destination = *destination;
  migration.bandwidth_limit = policy.bandwidth_limit;
  migration.downtime_limit = policy.downtime_limit;
  migration.sending = sending;
  migration.memory_total = vm->memory;
  migration.remaining = vm->memory;
  auto jobs = jobs_on(tx, *vm);
  if (!jobs) return jobs.error();
  for (const auto& job : *jobs) migration.jobs.push_back(job.id);
  if (auto done = tx.put(migration); !done) return done.error();
  return accepted;
}

}  // namespace mare::engine
