// The rule by which a pool's size follows a figure, as clients write it and as they see it.
#pragma once

#include "orchestrator/model/autoscaler.h"
#include "rest/wire/reader.h"

namespace mare::wire {

/// PUT /pools/{id}/autoscale: the whole rule; what is absent is the default.
struct AutoscaleBody {
  AutoscaleSetting setting = {};
};
/// POST /pools/{id}/metrics
struct MetricBody {
  double value = 0;
};

Json to_json(const AutoscaleBody& body);
Json to_json(const MetricBody& body);
Json to_json(const Autoscaler& autoscaler);

void read(const Json& json, AutoscaleBody& body, Faults& faults);
void read(const Json& json, MetricBody& body, Faults& faults);

}  // namespace mare::wire
