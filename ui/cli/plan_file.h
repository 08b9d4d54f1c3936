// A cluster in a file, for `mare plan`: docs/placement.md describes it member by member.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "orchestrator/core/result.h"
#include "orchestrator/policy/cluster_model.h"

namespace mare::cli {

struct PlanFile {
  policy::Cluster cluster;
  policy::PlanPolicy policy;
  std::map<std::string, double> remaining_s;  // of each job
  BytesPerSecond link;                        // of a host; 0: not known
};

/// All that is wrong in one error.
Result<PlanFile> read_plan(std::string_view text, const std::string& name);

}  // namespace mare::cli
