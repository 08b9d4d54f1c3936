// Checkpoints as answers show them.
#pragma once

#include "orchestrator/model/checkpoint.h"
#include "rest/wire/json.h"

namespace mare::wire {

Json to_json(const Checkpoint& checkpoint);

}  // namespace mare::wire
