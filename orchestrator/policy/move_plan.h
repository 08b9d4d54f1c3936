// Several VMs in one operation: which first, and how many at once. Moves that share a link lengthen
// each other, and ranks of one job stall it together or one after the other.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/model/forecast.h"

namespace mare::policy {

/// One VM to move, with the forecast of the strategy that was chosen for it alone.
struct WantedMove {
  VmId vm;
  HostId source;
  HostId destination;
  std::optional<JobId> job;
  StrategyForecast forecast;
};

struct MoveCaps {
  int per_host = 2;  // moves at once that leave a host or come to it
  int per_link = 1;  // between the same two hosts in the same direction
};

/// Moves that go on at once, counted by host and by link.
class MoveLoad {
 public:
  void add(const HostId& source, const HostId& destination);
  /// "" if one more keeps the caps, else which of them it would exceed, in words.
  std::string over(const HostId& source, const HostId& destination, const MoveCaps& caps) const;
  /// Moves that share the narrower end of that one; links are full-duplex.
  int shared_by(const HostId& source, const HostId& destination) const;

 private:
  std::map<HostId, int> leaving_;
  std::map<HostId, int> coming_;
  std::map<std::pair<HostId, HostId>, int> link_;
};

struct PlannedMove {
  std::size_t index = 0;    // into what was wanted
  double total_time_s = 0;  // with what it shares its hosts' links with
  double added_job_time_s = 0;
};
struct Wave {
  double begins_s = 0;
  double duration_s = 0;
  std::vector<PlannedMove> moves;
};
struct MovePlan {
  std::vector<Wave> waves;
  double duration_s = 0;
  /// Stalls of one job in one wave overlap, those of its ranks in different waves add up; summed
  /// over all jobs, and over VMs without a job.
  double added_job_time_s = 0;
};

/// Jobs that lose least go first (a job that waits for its move loses nothing meanwhile, and a plan
/// that is stopped midway has done the most moves for its stalls); ranks of one job stay together
/// as far as the caps allow. Every wanted move is in exactly one wave. Caps below 1 count as 1.
MovePlan plan_moves(const std::vector<WantedMove>& wanted, const MoveCaps& caps);

/// From, to.
using Route = std::pair<HostId, HostId>;
/// The same of moves whose order counts: each wave goes on in it as far as the caps allow, and no
/// move of a wave counts on room that another one of it makes. The members are indices.
std::vector<std::vector<std::size_t>> waves_in_order(const std::vector<Route>& routes,
                                                     const MoveCaps& caps);

}  // namespace mare::policy
