// One figure of the answer to an instant query of Prometheus (GET /api/v1/query). Pure.
#pragma once

#include "orchestrator/engine/engine.h"

namespace mare::engine {

/// The value of a scalar, or of the only sample of a vector. An error says why there is none: what
/// the server said, no sample, several, or a value that is no figure of 0 to 1e15.
Result<double> prometheus_figure(const HttpAnswer& answer);

/// InvalidArgument names the field ("url", "query", "query_timeout_s") that can't be used.
Status check(const PrometheusQuery& query);

}  // namespace mare::engine
