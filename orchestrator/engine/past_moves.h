// From stored forecasts and migrations to what policy learns from. Pure.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/model/entities.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/forecast.h"

namespace mare::engine {

/// A site's links and programs change; what is older teaches little.
inline constexpr std::size_t kPastMovesUsed = 500;

/// What came of a migration that moved its VM. None: the hypervisor never told how long it took.
std::optional<ForecastOutcome> measured_outcome(const Migration& migration);

/// The forecast of the strategy that was taken, none if it was not looked at.
const StrategyForecast* forecast_of(const Forecast& forecast, Strategy strategy);

/// None: it has no outcome.
std::optional<policy::PastMove> past_move(const Forecast& forecast);
std::vector<policy::PastMove> past_moves(const std::vector<Forecast>& forecasts);

/// What that forecast was made from, without what had been learned by then.
policy::ForecastInput input_of(const Forecast& forecast);

}  // namespace mare::engine
