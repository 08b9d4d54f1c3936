// Checks of a request against the rows, inside the transaction that accepts it. They may look and
// must not act: on success the operation's row is inserted, on error nothing is changed.
#pragma once

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/placement.h"

namespace mare::engine {

Result<Operation> plan(store::Transaction& tx, Context& context, const HostAddRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const HostRemoveRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const HostDrainRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const EvacuateRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context,
                       const EvacuationForecastRequest& request,
                       const std::optional<OperationId>& parent = {});
/// The evacuation of that host that goes on already, from now on with the earlier of both
/// deadlines; none if there is none.
Result<std::optional<Operation>> tighten(store::Transaction& tx, Context& context,
                                         const EvacuateRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const PoolCreateRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const PoolScaleRequest& request);
/// The unfinished operation that was accepted for the same request: asking twice asks once.
Result<std::optional<Operation>> find_same(const store::Reader& reader,
                                           const PoolScaleRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const PoolDeleteRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const VmStartRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context, const VmStopRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context, const MigrateRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context, const ForecastRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context,
                       const DrainForecastRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context,
                       const LayoutForecastRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context,
                       const LayoutChangeRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context,
                       const RebalanceForecastRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context, const RebalanceRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const JobSubmitRequest& request);
Result<Operation> plan(store::Transaction& tx, Context& context, const CheckpointRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context, const RestartRequest& request,
                       const std::optional<OperationId>& parent = {});
Result<Operation> plan(store::Transaction& tx, Context& context, const RecoveryRequest& request,
                       const std::optional<OperationId>& parent = {});

/// The one that is asked for, or the newest; complete in any case.
Result<Checkpoint> find_checkpoint(const store::Reader& reader, const RestartRequest& request);
/// Those of the job that are too many or too old go, or are kept as long as others are built on
/// them. Only while nobody goes back to one.
Status retire_checkpoints(store::Transaction& tx, const Clock& clock, const Job& job);
/// Conflict while a checkpoint of a job that has ranks on that VM is being taken, or the job goes
/// back to one. One that only waits for its moment holds nothing.
Status check_not_in_checkpoint(const store::Reader& reader, const Vm& vm);
/// Who works on a VM of the job, in words; "" if nobody does. A migration that waits for its turn
/// has touched nothing.
Result<std::string> who_works_on(const store::Reader& reader, const Job& job);
Status check(const CheckpointPlan& plan);
/// Does the job go back to its newest complete checkpoint by itself when it loses a VM? Those that
/// take them by themselves do, and those whose newest was taken when a host of theirs was to fail.
Result<bool> comes_back(const store::Reader& reader, const Job& job);

/// A host that can take this running VM: the wanted one, or the one that placement chooses.
Result<HostId> find_destination(const store::Reader& reader, const Vm& vm,
                                const std::optional<HostId>& wanted, Strategy strategy);
/// Unfinished jobs that have ranks on a VM.
Result<std::vector<Job>> jobs_on(const store::Reader& reader, const Vm& vm);
/// Hosts for all VMs of a host that is to be emptied, in the order of its VMs; an error if it can't
/// be.
Result<std::vector<HostId>> find_destinations(const store::Reader& reader, const HostId& host);
/// A field that can't be granted to the VMs of that host, each by its pool's policy with the
/// change.
Status check_on(const store::Reader& reader, const HostId& host, const PolicyChange& change);
Error wrong_state(const Vm& vm, const std::string& wanted);

/// Hosts with what they have left, by the rows as they are in this transaction.
Result<std::vector<policy::Room>> rooms_now(const store::Reader& reader,
                                            const std::vector<HostId>& allowed,
                                            const std::optional<HostId>& except);

/// The hosts that encrypt migrations as this one does, itself among them: only they can take its
/// VMs.
Result<std::vector<HostId>> encrypting_alike(const store::Reader& reader, const Host& source);

/// 1 to 32 of a-z, 0-9 and '-', beginning with a letter: it becomes a host name, a file name and a
/// URL.
Status check_name(const std::string& field, const std::string& name);

}  // namespace mare::engine
