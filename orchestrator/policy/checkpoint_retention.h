// Which checkpoints of a job are kept, when those that are built on others are among them. Pure.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/model/checkpoint.h"

namespace mare::policy {

/// On how many others it is built; nothing if one of them has no row.
std::optional<int> chain_depth(const std::vector<Checkpoint>& all, const CheckpointId& id);

/// The one that the next is built on; nothing: it must be a full one. `newest_first`: the job's, in
/// any state.
std::optional<Checkpoint> base_for_next(const std::vector<Checkpoint>& newest_first,
                                        const CheckpointPlan& plan);

using Retired = std::pair<CheckpointId, CheckpointState>;
/// What is to become of those that are not what they were: too many or too old ones go, as soon as
/// none that stays or is being written is built on them. The last complete one stays.
std::vector<Retired> retire(const std::vector<Checkpoint>& newest_first, const CheckpointPlan& plan,
                            WallTime now);

/// One to be made full, so that what is only needed for it can go: when the next one would have to
/// be full. Nothing if that would free none.
std::optional<Checkpoint> worth_merging(const std::vector<Checkpoint>& newest_first,
                                        const CheckpointPlan& plan);

}  // namespace mare::policy
