// Several VMs in one operation: which first, and how many at once. Moves that share a link lengthen
// each other, and ranks of one job stall it together or one after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/correction.h"

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
  std::size_t index = 0;  // into what was wanted
  Estimate total_time_s;  // with what it shares its hosts' links with
  Estimate added_job_time_s;
};
struct Wave {
  double begins_s = 0;  // after the first one's begin, by what is expected
  Estimate duration_s;
  std::vector<PlannedMove> moves;
};
/// Ends of intervals are those of all moves at their ends at once: moves over the same links and of
/// the same jobs are off together. So an interval here is rather too wide than too narrow.
struct MovePlan {
  std::vector<Wave> waves;
  Estimate duration_s;
  /// Stalls of one job in one wave overlap, those of its ranks in different waves add up; summed
  /// over all jobs, and over VMs without a job.
  Estimate added_job_time_s;
};

/// What moves of a plan come to together, in seconds or bytes: waves' longest times and jobs'
/// longest stalls in each wave, one wave after the other; bytes and downtimes of all. `figure`: of
/// one of its moves; none leaves that one out.
using FigureOf = std::function<std::optional<Estimate>(const PlannedMove& move)>;
Estimate together(const MovePlan& plan, const std::vector<WantedMove>& wanted, Quantity quantity,
                  const FigureOf& figure);
/// By what the plan says itself.
Estimate together(const MovePlan& plan, const std::vector<WantedMove>& wanted, Quantity quantity);
/// What a plan says of one of its moves.
Estimate planned(const std::vector<WantedMove>& wanted, const PlannedMove& move, Quantity quantity);

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
