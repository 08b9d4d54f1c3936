// A drain's plan against what came of it: all its moves together, each of them, and one sentence.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/model/entities.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/store/store.h"
#include "rest/wire/json.h"

namespace mare::rest {

struct DrainRows {
  struct Move {
    Operation operation;
    Migration migration;
    std::optional<Forecast> forecast;  // of its own, made when it began
  };
  Operation drain;
  std::optional<Operation> plan;  // its plan.drain; none: not asked for yet
  std::vector<Move> moves;        // those begun, the oldest first
};
/// NotFound for what is no host.drain, with what is to be asked instead.
Result<DrainRows> read_drain(const store::Reader& reader, const OperationId& id);

/// Sums are of the moves that were measured, in what was said and in what came, so that a drain
/// that did not come to its end, or moves that nobody reported on, compare like with like.
wire::Json drain_explanation(const DrainRows& rows);

}  // namespace mare::rest
