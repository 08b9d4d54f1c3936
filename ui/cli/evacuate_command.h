// mare host evacuate.
#pragma once

#include "ui/cli/app.h"

namespace mare::cli {

void add_evacuate_command(CLI::App& host, Action& action);

}  // namespace mare::cli
