// A forecast against what came of it: in numbers, round by round, and in one sentence.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/model/entities.h"
#include "orchestrator/model/forecast.h"
#include "rest/wire/json.h"

namespace mare::rest {

/// `operation`: none when it was pruned. `forecast`: none when the move began without one.
wire::Json explanation(const Migration& migration, const std::optional<Operation>& operation,
                       const std::optional<Forecast>& forecast);

}  // namespace mare::rest
