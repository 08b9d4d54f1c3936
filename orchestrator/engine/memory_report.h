// What is asked of the engine besides operations, and what it is told: a VM's memory as it is now,
// and what a client measured of a migration. From any thread.
#pragma once

#include <functional>

#include "orchestrator/engine/context.h"

namespace mare::engine {

/// See Engine.
Result<Forecast> keep_report(Context& context, const OperationId& migration,
                             const MigrationReport& report);
void ask_memory_profile(Context& context, const VmId& vm,
                        std::function<void(Result<MemoryProfile>)> then);

}  // namespace mare::engine
