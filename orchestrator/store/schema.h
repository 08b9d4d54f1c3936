// The tables, and how an older file becomes a newer one.
#pragma once

#include "orchestrator/core/result.h"
#include "orchestrator/store/connection.h"

namespace mare::store {

/// Applies every step that the file's user_version lacks, each in a transaction of its own.
Status migrate_schema(Connection& connection);

}  // namespace mare::store
