// Checkpoints as answers show them.
#pragma once

#include <cstddef>

#include "orchestrator/model/checkpoint.h"
#include "rest/wire/json.h"

namespace mare::wire {

Json to_json(const Checkpoint& checkpoint);
/// Of its parts, those that a partner host has in its memory.
std::size_t parts_in_memory(const Checkpoint& checkpoint);

}  // namespace mare::wire
