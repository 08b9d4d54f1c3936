// Forecasts, what came of them, and a VM's memory as JSON. Names carry their units; null stands for
// not known.
#pragma once

#include "orchestrator/model/forecast.h"
#include "rest/wire/json.h"

namespace mare::wire {

Json to_json(const MovePolicy& policy);
Json to_json(const Sending& sending);
Json to_json(const MemoryProfile& profile);
Json to_json(const LinkMeasurement& link);
Json to_json(const Estimate& estimate);
Json to_json(const StrategyForecast& forecast);
Json to_json(const ForecastOutcome& outcome);
Json to_json(const Forecast& forecast);

}  // namespace mare::wire
