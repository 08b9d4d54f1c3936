// How the placement of running VMs is kept good: what an administrator asks for, what the last look
// saw, what was proposed. Values only; the arithmetic is in orchestrator/policy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"

namespace mare {

enum class RebalanceMode : std::uint8_t {
  Manual,     // proposes, moves nothing
  Partial,    // moves what hard rules need: N+1, capacity, anti-affinity
  Automatic,  // also evens out
};
std::string_view to_string(RebalanceMode value);
std::optional<RebalanceMode> rebalance_mode_from(std::string_view text);

struct RebalanceSetting {
  RebalanceMode mode = RebalanceMode::Manual;
  double threshold = 0.1;  // of the score; below it nothing is evened out
  Seconds hold{60};        // so long it must be above
  double margin = 0.05;    // a plan must take away this share of the score
  Seconds cooldown{300};   // after a round, however it ended
  int max_moves = 4;       // of one round; 0: any number
  Seconds rest{600};       // a VM that has moved is left for so long
  /// Pools that are held back further: manual, their VMs stay; partial, only hard rules move them.
  std::map<PoolId, RebalanceMode> pools = {};
};

struct ProposedMove {
  VmId vm;
  HostId from;
  HostId to;
  double added_job_time_s = 0;
  double bytes = 0;
  std::string reason = {};
};

struct RebalanceProposal {
  WallTime made{0};
  std::optional<OperationId> operation =
      {};  // that forecast the moves; none: their cost is unknown
  double score_before = 0;
  double score_after = 0;
  int broken_before = 0;  // hard rules
  int broken_after = 0;
  std::vector<ProposedMove> moves = {};
  std::string reason = {};
};

/// The one row of it.
struct Rebalancing {
  RebalanceSetting setting = {};
  // The last look at which something was new.
  WallTime looked{0};
  double score = 0;
  int broken = 0;                             // hard rules
  std::optional<WallTime> above_since = {};   // the score is above the threshold, or a rule broken
  std::string reason = {};                    // what it does, and why
  std::optional<OperationId> operation = {};  // the last cluster.rebalance
  std::optional<WallTime> ended = {};         // when it ended
  std::optional<RebalanceProposal> proposal = {};
  // Since the database was made.
  std::uint64_t rounds = 0;
  std::uint64_t moves = 0;
  std::uint64_t refusals = 0;  // moves that were not worth their cost
};

}  // namespace mare
