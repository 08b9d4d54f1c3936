// The verbs and options of jobs that are about checkpoints.
#pragma once

#include <CLI/CLI.hpp>

#include "rest/wire/bodies.h"
#include "ui/cli/session.h"

namespace mare::cli {

void add_checkpoint_commands(CLI::App& job, Action& action);
/// `plan` outlives the parsing.
void add_checkpoint_options(CLI::App& submit, CheckpointPlan& plan);

}  // namespace mare::cli
