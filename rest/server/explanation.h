// A forecast against what came of it: in numbers, round by round, and in one sentence.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/model/entities.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/choice.h"
#include "orchestrator/policy/correction.h"
#include "rest/wire/json.h"

namespace mare::rest {

/// What is said of a move and comes of it, s or bytes.
struct Figure {
  const char* name;
  policy::Quantity quantity;
  const char* verb;  // "took 4.1 s"
  std::string (*say)(double);
};
inline constexpr std::array kFigures{
    Figure{"total_time_s", policy::Quantity::TotalTime, "took", policy::say_time},
    Figure{"sent_bytes", policy::Quantity::SentBytes, "sent", policy::say_bytes},
    Figure{"downtime_s", policy::Quantity::Downtime, "stood still for", policy::say_time},
    Figure{"added_job_time_s", policy::Quantity::AddedJobTime, "cost the job", policy::say_time},
};
/// `actual`: none when it was not measured.
wire::Json figure_json(const Figure& figure, const Estimate& said,
                       const std::optional<double>& actual);
/// "took 4.10 s where 4.00 s (3.80 s to 4.30 s) was forecast, -2.4%".
std::string clause(const Figure& figure, const Estimate& said, double actual);

/// `operation`: none when it was pruned. `forecast`: none when the move began without one.
wire::Json explanation(const Migration& migration, const std::optional<Operation>& operation,
                       const std::optional<Forecast>& forecast);

}  // namespace mare::rest
