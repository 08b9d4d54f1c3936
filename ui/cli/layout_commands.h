// mare job spread, mare job pack.
#pragma once

#include "ui/cli/app.h"

namespace mare::cli {

void add_layout_commands(CLI::App& job, Action& action);

}  // namespace mare::cli
