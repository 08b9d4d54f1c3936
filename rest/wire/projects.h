// Projects: what their pools may have together, and what they have.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/model/quota.h"
#include "rest/wire/reader.h"

namespace mare::wire {

/// PUT /projects/{id}/quota: the whole of it; what is absent or null is no limit.
struct QuotaBody {
  std::optional<int> vms;
  std::optional<Bytes> memory;
  std::optional<int> hosts;
};

struct ProjectRecord {
  Quota quota;
  std::vector<PoolId> pools;
  int vms = 0;
  Bytes memory;
  std::vector<HostId> hosts;
};

Json to_json(const QuotaBody& body);
Json to_json(const ProjectRecord& project);

void read(const Json& json, QuotaBody& body, Faults& faults);

}  // namespace mare::wire
