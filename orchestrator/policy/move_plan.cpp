#include "orchestrator/policy/move_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace mare::policy {
namespace {

/// Moves that belong together: the ranks of one job, or one VM without one.
struct Group {
  std::vector<std::size_t> members;
  double added_s = 0;  // stalls overlap
  double total_s = 0;
  std::string name;  // to break ties the same way every time
};

std::vector<Group> groups_of(const std::vector<WantedMove>& wanted) {
  std::map<std::string, Group> jobs;
  std::vector<Group> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Group alone{{}, 0, 0, wanted[i].vm.value};
    Group& group = wanted[i].job ? jobs[wanted[i].job->value] : alone;
    group.members.push_back(i);
    group.added_s = std::max(group.added_s, wanted[i].forecast.added_job_time_s.value);
    group.total_s += wanted[i].forecast.total_time_s.value;
    if (!wanted[i].job) out.push_back(alone);
  }
  for (auto& [name, group] : jobs) {
    group.name = name;
    std::sort(group.members.begin(), group.members.end(), [&](std::size_t a, std::size_t b) {
      return std::pair{-wanted[a].forecast.total_time_s.value, a} <
             std::pair{-wanted[b].forecast.total_time_s.value, b};
    });
    out.push_back(group);
  }
  std::sort(out.begin(), out.end(), [](const Group& a, const Group& b) {
    return std::tie(a.added_s, a.total_s, a.name) < std::tie(b.added_s, b.total_s, b.name);
  });
  return out;
}

struct Load {
  std::map<HostId, int> leaving;
  std::map<HostId, int> coming;
  std::map<HostId, int> at_host;
  std::map<std::pair<HostId, HostId>, int> link;

  void add(const WantedMove& move) {
    ++leaving[move.source];
    ++coming[move.destination];
    ++at_host[move.source];
    ++at_host[move.destination];
    ++link[{move.source, move.destination}];
  }
  bool fits(const WantedMove& move, const MoveCaps& caps) const {
    return at(at_host, move.source) < std::max(1, caps.per_host) &&
           at(at_host, move.destination) < std::max(1, caps.per_host) &&
           at(link, {move.source, move.destination}) < std::max(1, caps.per_link);
  }
  /// Moves that share the narrower end; links are full-duplex.
  int shared_by(const WantedMove& move) const {
    return std::max(at(leaving, move.source), at(coming, move.destination));
  }
  template <typename Key>
  static int at(const std::map<Key, int>& counts, const Key& key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
};

using Members = std::vector<std::size_t>;

/// The first wave that has room for all of the group, or else new ones at the end that it fills.
void place_group(const Group& group, const std::vector<WantedMove>& wanted, const MoveCaps& caps,
                 std::vector<Members>& waves, std::vector<Load>& loads) {
  for (std::size_t w = 0; w < waves.size(); ++w) {
    Load tried = loads[w];
    const bool fits = std::all_of(group.members.begin(), group.members.end(), [&](std::size_t i) {
      if (!tried.fits(wanted[i], caps)) return false;
      tried.add(wanted[i]);
      return true;
    });
    if (!fits) continue;
    loads[w] = tried;
    waves[w].insert(waves[w].end(), group.members.begin(), group.members.end());
    return;
  }
  const std::size_t first_new = waves.size();
  for (const std::size_t i : group.members) {
    std::size_t w = first_new;
    while (w < waves.size() && !loads[w].fits(wanted[i], caps)) ++w;
    if (w == waves.size()) {
      waves.emplace_back();
      loads.emplace_back();
    }
    waves[w].push_back(i);
    loads[w].add(wanted[i]);
  }
}

Wave timed(const Members& members, const Load& load, const std::vector<WantedMove>& wanted,
           double begins) {
  Wave out;
  out.begins_s = begins;
  for (const std::size_t i : members) {
    const StrategyForecast& forecast = wanted[i].forecast;
    const double share = load.shared_by(wanted[i]);
    out.moves.push_back(
        {i, share * forecast.total_time_s.value, share * forecast.added_job_time_s.value});
    out.duration_s = std::max(out.duration_s, out.moves.back().total_time_s);
  }
  return out;
}

double added_in(const Wave& wave, const std::vector<WantedMove>& wanted) {
  std::map<std::string, double> jobs;
  double out = 0;
  for (const auto& move : wave.moves) {
    const auto& job = wanted[move.index].job;
    if (!job) {
      out += move.added_job_time_s;
      continue;
    }
    double& longest = jobs[job->value];
    longest = std::max(longest, move.added_job_time_s);
  }
  for (const auto& [job, added] : jobs) out += added;
  return out;
}

}  // namespace

MovePlan plan_moves(const std::vector<WantedMove>& wanted, const MoveCaps& caps) {
  std::vector<Members> waves;
  std::vector<Load> loads;
  for (const auto& group : groups_of(wanted)) place_group(group, wanted, caps, waves, loads);
  MovePlan out;
  for (std::size_t w = 0; w < waves.size(); ++w) {
    out.waves.push_back(timed(waves[w], loads[w], wanted, out.duration_s));
    out.duration_s += out.waves.back().duration_s;
    out.added_job_time_s += added_in(out.waves.back(), wanted);
  }
  return out;
}

}  // namespace mare::policy
