// How each kind of object is shown: the only place that knows which member goes into which column.
#pragma once

#include <string>

#include "orchestrator/core/clock.h"
#include "ui/cli/table.h"

namespace mare::cli {

Columns host_columns(WallTime now);
Columns pool_columns(WallTime now);
Columns vm_columns(WallTime now);
Columns job_columns(WallTime now);
Columns checkpoint_columns(WallTime now);
Columns operation_columns(WallTime now);
Columns migration_columns(WallTime now);
Columns event_columns();
Columns round_columns();
Columns history_columns();

/// "demo-1 moved from h1 to h3 in 2.1 s: 4 rounds, 210 MiB, downtime 85 ms (guest 90 ms, ...)".
/// "compressed, which was to take 4.20 s and was given up after 10.8 s, 1.18 GB"; "" without any.
std::string earlier_tries(const Json& migration);
std::string migration_summary(const Json& migration);

}  // namespace mare::cli
