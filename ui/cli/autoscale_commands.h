// mare pool autoscale, mare pool metric.
#pragma once

#include "ui/cli/app.h"

namespace mare::cli {

void add_autoscale_commands(CLI::App& pool, Action& action);

}  // namespace mare::cli
