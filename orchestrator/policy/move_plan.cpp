#include "orchestrator/policy/move_plan.h"

#include <algorithm>
#include <map>
#include <set>
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

template <typename Key>
int count_of(const std::map<Key, int>& counts, const Key& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

bool fits_in(const MoveLoad& load, const WantedMove& move, const MoveCaps& caps) {
  return load.over(move.source, move.destination, caps).empty();
}

std::string so_many(int count) {
  return std::to_string(count) + (count == 1 ? " migration" : " migrations");
}

using Members = std::vector<std::size_t>;

/// The first wave that has room for all of the group, or else new ones at the end that it fills.
void place_group(const Group& group, const std::vector<WantedMove>& wanted, const MoveCaps& caps,
                 std::vector<Members>& waves, std::vector<MoveLoad>& loads) {
  for (std::size_t w = 0; w < waves.size(); ++w) {
    MoveLoad tried = loads[w];
    const bool fits = std::all_of(group.members.begin(), group.members.end(), [&](std::size_t i) {
      if (!fits_in(tried, wanted[i], caps)) return false;
      tried.add(wanted[i].source, wanted[i].destination);
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
    while (w < waves.size() && !fits_in(loads[w], wanted[i], caps)) ++w;
    if (w == waves.size()) {
      waves.emplace_back();
      loads.emplace_back();
    }
    waves[w].push_back(i);
    loads[w].add(wanted[i].source, wanted[i].destination);
  }
}

/// Every part of it by `combine`.
template <typename Combine>
Estimate each(const Estimate& one, const Estimate& other, Combine combine) {
  return {combine(one.value, other.value), combine(one.low, other.low),
          combine(one.high, other.high), combine(one.model, other.model)};
}
Estimate sum(const Estimate& one, const Estimate& other) {
  return each(one, other, [](double a, double b) { return a + b; });
}
Estimate longest(const Estimate& one, const Estimate& other) {
  return each(one, other, [](double a, double b) { return std::max(a, b); });
}
Estimate times(const Estimate& one, double factor) {
  return {factor * one.value, factor * one.low, factor * one.high, factor * one.model};
}

Wave timed(const Members& members, const MoveLoad& load, const std::vector<WantedMove>& wanted,
           double begins) {
  Wave out;
  out.begins_s = begins;
  for (const std::size_t i : members) {
    const StrategyForecast& forecast = wanted[i].forecast;
    const double share = load.shared_by(wanted[i].source, wanted[i].destination);
    out.moves.push_back(
        {i, times(forecast.total_time_s, share), times(forecast.added_job_time_s, share)});
    out.duration_s = longest(out.duration_s, out.moves.back().total_time_s);
  }
  return out;
}

/// Of one wave.
Estimate together_in(const Wave& wave, const std::vector<WantedMove>& wanted, Quantity quantity,
                     const FigureOf& figure) {
  std::map<std::string, Estimate> jobs;
  Estimate out;
  for (const auto& move : wave.moves) {
    const auto said = figure(move);
    if (!said) continue;
    const auto& job = wanted[move.index].job;
    if (quantity == Quantity::TotalTime) {
      out = longest(out, *said);
    } else if (quantity == Quantity::AddedJobTime && job) {
      const auto [stall, first] = jobs.emplace(job->value, *said);
      if (!first) stall->second = longest(stall->second, *said);
    } else {
      out = sum(out, *said);
    }
  }
  for (const auto& [job, stall] : jobs) out = sum(out, stall);
  return out;
}

}  // namespace

void MoveLoad::add(const HostId& source, const HostId& destination) {
  ++leaving_[source];
  ++coming_[destination];
  ++link_[{source, destination}];
}

std::string MoveLoad::over(const HostId& source, const HostId& destination,
                           const MoveCaps& caps) const {
  for (const HostId& host : {source, destination}) {
    const int here = count_of(leaving_, host) + count_of(coming_, host);
    if (here < std::max(1, caps.per_host)) continue;
    return "host '" + host.value + "' has " + so_many(here) + ", at most " +
           std::to_string(std::max(1, caps.per_host)) + " at once";
  }
  const int there = count_of(link_, {source, destination});
  if (there < std::max(1, caps.per_link)) return "";
  return "from '" + source.value + "' to '" + destination.value + "' " +
         (there == 1 ? "goes " : "go ") + so_many(there) + ", at most " +
         std::to_string(std::max(1, caps.per_link)) + " at once";
}

int MoveLoad::shared_by(const HostId& source, const HostId& destination) const {
  return std::max(count_of(leaving_, source), count_of(coming_, destination));
}

MovePlan plan_moves(const std::vector<WantedMove>& wanted, const MoveCaps& caps) {
  std::vector<Members> waves;
  std::vector<MoveLoad> loads;
  for (const auto& group : groups_of(wanted)) place_group(group, wanted, caps, waves, loads);
  MovePlan out;
  for (std::size_t w = 0; w < waves.size(); ++w) {
    out.waves.push_back(timed(waves[w], loads[w], wanted, out.duration_s.value));
    out.duration_s = sum(out.duration_s, out.waves.back().duration_s);
  }
  out.added_job_time_s = together(out, wanted, Quantity::AddedJobTime);
  return out;
}

Estimate planned(const std::vector<WantedMove>& wanted, const PlannedMove& move,
                 Quantity quantity) {
  if (quantity == Quantity::TotalTime) return move.total_time_s;
  if (quantity == Quantity::AddedJobTime) return move.added_job_time_s;
  return estimate_of(wanted[move.index].forecast, quantity);
}

Estimate together(const MovePlan& plan, const std::vector<WantedMove>& wanted, Quantity quantity,
                  const FigureOf& figure) {
  Estimate out;
  for (const auto& wave : plan.waves) out = sum(out, together_in(wave, wanted, quantity, figure));
  return out;
}

Estimate together(const MovePlan& plan, const std::vector<WantedMove>& wanted, Quantity quantity) {
  return together(plan, wanted, quantity,
                  [&](const PlannedMove& move) { return planned(wanted, move, quantity); });
}

std::vector<std::vector<std::size_t>> waves_in_order(const std::vector<Route>& routes,
                                                     const MoveCaps& caps) {
  std::vector<Members> out;
  MoveLoad load;
  std::set<HostId> left;  // by moves of the wave
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const auto& [from, to] = routes[i];
    if (out.empty() || left.contains(to) || !load.over(from, to, caps).empty()) {
      out.emplace_back();
      load = {};
      left.clear();
    }
    out.back().push_back(i);
    load.add(from, to);
    left.insert(from);
  }
  return out;
}

}  // namespace mare::policy
