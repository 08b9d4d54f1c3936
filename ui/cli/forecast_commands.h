// Waiting for a forecast and showing it, for the commands that have a --dry-run.
#pragma once

#include "ui/cli/session.h"

namespace mare::cli {

/// `operation`: a forecast.make. Prints the forecast.
int finish_forecast(Session& session, const Json& operation);
/// `operation`: a plan.drain. Prints the forecasts of its children.
int finish_drain_forecast(Session& session, const Json& operation);

}  // namespace mare::cli
