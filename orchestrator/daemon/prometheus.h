// Asks Prometheus servers over HTTP.
#pragma once

#include "orchestrator/core/clock.h"
#include "orchestrator/engine/engine.h"

namespace mare::daemon {

/// GET URL/api/v1/query?query=QUERY. Blocks for at most the query's timeout, on a thread that may.
/// An answer with any status is one; Unavailable: none came in time.
Result<engine::HttpAnswer> ask_prometheus(const PrometheusQuery& query, const Clock& clock);

}  // namespace mare::daemon
