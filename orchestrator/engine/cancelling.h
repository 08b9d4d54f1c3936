// Which operations can still be cancelled.
#pragma once

#include "orchestrator/core/result.h"
#include "orchestrator/model/entities.h"

namespace mare::engine {

/// FailedPrecondition says why not.
Status can_cancel(const Operation& operation);

}  // namespace mare::engine
