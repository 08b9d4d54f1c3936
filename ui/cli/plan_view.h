// What a plan would move, for every command that has one by --dry-run.
#pragma once

#include "ui/cli/session.h"
#include "ui/cli/table.h"

namespace mare::cli {

/// Of a plan.* operation that has ended: its moves in these columns, then its sentence; or as -o
/// says.
void show_planned_moves(Session& session, const Json& operation, const Columns& columns);
/// Nothing for none.
void print_moves(const Json& moves, const Columns& columns);

}  // namespace mare::cli
