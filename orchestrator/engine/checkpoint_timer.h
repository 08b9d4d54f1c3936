// When the next checkpoint of a running job is due, from the rows: its plan, its past checkpoints
// and how often hosts failed.
#pragma once

#include <optional>

#include "orchestrator/engine/context.h"

namespace mare::engine {

Result<bool> checkpoint_is_due(const store::Reader& reader, const Settings& settings,
                               const Job& job, WallTime now);

}  // namespace mare::engine
