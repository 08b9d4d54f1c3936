// How forecasts, explanations and a VM's memory are shown. Pure.
#pragma once

#include <string>

#include "orchestrator/core/clock.h"
#include "ui/cli/table.h"

namespace mare::cli {

/// Of a list of forecasts.
Columns forecast_columns(WallTime now);

/// Every strategy with its figures and their intervals, the choice marked, then the reason.
std::string forecast_text(const Json& forecast, bool colour);
/// A DrainPlan: a line for each VM with its choice, or with why it stays, and one for all of them.
std::string drain_text(const Json& plan, bool colour);
/// Forecast against outcome: figures, rounds, one sentence.
std::string explanation_text(const Json& explanation, bool colour);
/// The same of a drain: sums, a line for each migration, one sentence. `wide`: downtime and added
/// job time of each.
std::string drain_explanation_text(const Json& explanation, bool wide, bool colour);
/// Of all moves, then of each group.
std::string accuracy_text(const Json& accuracy, bool colour);
/// What a client told of a migration, beside what was forecast. One line.
std::string report_text(const Json& forecast);
/// WWS, D(t), the history of both, and the heat strip.
std::string memory_text(const Json& memory, bool colour);

/// A character for each share of 0 to 1, higher for more: " ▁▂▃▄▅▆▇█".
std::string heat_strip(const Json& shares);

}  // namespace mare::cli
