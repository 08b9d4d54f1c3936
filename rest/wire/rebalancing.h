// How running VMs are kept well placed, as clients write it and as they see it.
#pragma once

#include "orchestrator/model/rebalancing.h"
#include "rest/wire/reader.h"

namespace mare::wire {

/// PUT /rebalancing: the whole setting; what is absent is the default.
struct RebalancingBody {
  RebalanceSetting setting = {};
};

Json to_json(const RebalancingBody& body);
Json to_json(const Rebalancing& rebalancing);

void read(const Json& json, RebalancingBody& body, Faults& faults);

}  // namespace mare::wire
