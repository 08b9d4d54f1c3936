#include "orchestrator/policy/job_layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "orchestrator/policy/best_host.h"
#include "orchestrator/policy/plan_words.h"

namespace mare::policy {
namespace {

// A job that waited for the wire all the time would not compute at all.
constexpr double kMostWire = 0.95;
constexpr double kRounding = 1e-9;

class Layouter {
 public:
  // n_plus_one_ looks at state_: a copy would look at the original's.
  Layouter(const Layouter&) = delete;
  Layouter& operator=(const Layouter&) = delete;
  Layouter(const Cluster& cluster, const PlanPolicy& policy, const LayoutRequest& request)
      : state_(cluster, policy), n_plus_one_(state_), request_(request) {
    for (int v = 0; v < state_.vms(); ++v) {
      const bool ours = state_.source(v).job == request.job && state_.host_of(v) != kNowhere;
      if (ours) ranks_.push_back(v);
    }
    if (ranks_.empty()) return;
    slowdown_ = slowdown();
    wire_ = wire();
    plan_.slowdown_before = plan_.slowdown_after = slowdown_;
    plan_.hosts_before = plan_.hosts_after = static_cast<int>(hosts().size());
  }

  bool has_ranks() const { return !ranks_.empty(); }
  void spread();
  Status pack();
  LayoutPlan finish();

 private:
  double slowdown() const;
  double wire() const;
  std::set<HostIndex> hosts() const;
  double pace(HostIndex h) const { return std::max(1.0, state_.demand_ratio(h)); }
  double pace_with(HostIndex h, double change) const {
    return std::max(1.0, state_.demand_ratio(h) + change / state_.cpus(h));
  }
  bool spread_one();
  std::vector<HostIndex> homes(int count) const;
  bool pack_on(const std::vector<HostIndex>& kept);
  HostIndex home_for(VmIndex v, const std::vector<HostIndex>& kept) const;
  void note(VmIndex v, HostIndex from, const std::string& why);
  void weigh();

  ClusterState state_;
  NPlusOne n_plus_one_;
  const LayoutRequest& request_;
  std::vector<VmIndex> ranks_;
  double slowdown_ = 1;
  double wire_ = 0;
  LayoutPlan plan_;
};

std::set<HostIndex> Layouter::hosts() const {
  std::set<HostIndex> out;
  for (const VmIndex v : ranks_) out.insert(state_.host_of(v));
  return out;
}

/// All wait for the slowest: the job is as slow as its most loaded host.
double Layouter::slowdown() const {
  double worst = 1;
  for (const HostIndex h : hosts()) worst = std::max(worst, pace(h));
  return worst;
}

/// Share of a second in which the busiest of its hosts' links carries the job's traffic.
double Layouter::wire() const {
  if (request_.link.value <= 0) return 0;
  std::map<HostIndex, double> crossing;
  for (const VmIndex v : ranks_) {
    for (const auto& [peer, rate] : state_.peers(v)) {
      if (state_.source(peer).job == request_.job && state_.host_of(peer) != state_.host_of(v)) {
        crossing[state_.host_of(v)] += rate;
      }
    }
  }
  double worst = 0;
  for (const auto& [h, rate] : crossing) worst = std::max(worst, rate / request_.link.value);
  return std::min(kMostWire, worst);
}

void Layouter::note(VmIndex v, HostIndex from, const std::string& why) {
  Relocation move;
  move.vm = state_.source(v).id;
  move.from = state_.host(from).id;
  move.to = state_.host(state_.host_of(v)).id;
  move.step = static_cast<int>(plan_.moves.size()) + 1;
  move.score_after = state_.score();
  move.cost = state_.source(v).cost;
  move.reason = why;
  plan_.cost_s += move.cost.added_job_time_s;
  plan_.moves.push_back(std::move(move));
  weigh();
}

void Layouter::weigh() {
  plan_.slowdown_after = slowdown();
  plan_.hosts_after = static_cast<int>(hosts().size());
  plan_.gain_s = request_.remaining_s - remaining_after(request_.remaining_s, slowdown_,
                                                        plan_.slowdown_after, wire_, wire());
  plan_.worth = plan_.gain_s > plan_.cost_s;
}

/// Slowest rank first: a VM leaves the job's most loaded host for the one where it is best off.
bool Layouter::spread_one() {
  const std::set<HostIndex> now = hosts();
  const HostIndex worst = *std::max_element(
      now.begin(), now.end(), [this](HostIndex a, HostIndex b) { return pace(a) < pace(b); });
  const bool full = request_.hosts > 0 && static_cast<int>(now.size()) >= request_.hosts;
  std::vector<std::pair<std::pair<double, double>, std::pair<VmIndex, HostIndex>>> wanted;
  for (const VmIndex v : ranks_) {
    if (state_.host_of(v) != worst || state_.locked(v)) continue;
    for (int h = 0; h < state_.hosts(); ++h) {
      if (h == worst || (full && !now.contains(h))) continue;
      if (state_.obstacle(v, h) != Obstacle::None) continue;
      const double demand = state_.demand_of(v);
      const double after = std::max(pace_with(worst, -demand), pace_with(h, demand));
      const double there = state_.demand_ratio(h) + demand / state_.cpus(h);
      // Only if the slower of both hosts becomes faster; of equals the one with most cpu to spare.
      if (pace_with(h, demand) >= pace(worst)) continue;
      wanted.push_back({{after, there - 1e-9 * state_.traffic_with(v, h)}, {v, h}});
    }
  }
  std::sort(wanted.begin(), wanted.end());
  for (const auto& [rank, move] : wanted) {
    const double before = pace(worst);
    if (!try_move(state_, n_plus_one_, move.first, move.second)) continue;
    note(move.first, worst,
         "its host asks for " + figure(before, 2) + " times the cpus that it has, '" +
             state_.host(move.second).id.value + "' for " + figure(pace(move.second), 2) +
             " with it");
    return true;
  }
  return false;
}

/// The job is as slow as its slowest rank, so single moves may gain nothing until all crowded hosts
/// are relieved: the best of all prefixes is kept.
void Layouter::spread() {
  LayoutPlan best = plan_;
  for (std::size_t i = 0; i < ranks_.size() && slowdown() > 1 + 1e-9 && spread_one(); ++i) {
    if (plan_.gain_s - plan_.cost_s > best.gain_s - best.cost_s) best = plan_;
  }
  if (best.worth) plan_ = std::move(best);  // else what was found is what is refused
}

/// The hosts to keep: where most of its VMs are, then those with most memory free.
std::vector<HostIndex> Layouter::homes(int count) const {
  std::map<HostIndex, int> mine;
  for (const VmIndex v : ranks_) ++mine[state_.host_of(v)];
  std::vector<HostIndex> out;
  for (int h = 0; h < state_.hosts(); ++h) {
    if (state_.usable(h)) out.push_back(h);
  }
  std::stable_sort(out.begin(), out.end(), [&](HostIndex a, HostIndex b) {
    const int in_a = mine.contains(a) ? mine.at(a) : 0;
    const int in_b = mine.contains(b) ? mine.at(b) : 0;
    return in_a != in_b ? in_a > in_b : state_.free_memory(a) > state_.free_memory(b);
  });
  out.resize(std::min(out.size(), static_cast<std::size_t>(count)));
  return out;
}

HostIndex Layouter::home_for(VmIndex v, const std::vector<HostIndex>& kept) const {
  HostIndex best = kNowhere;
  for (const HostIndex h : kept) {
    if (state_.obstacle(v, h) != Obstacle::None) continue;
    const double demand = state_.demand_of(v);
    if (best == kNowhere || pace_with(h, demand) < pace_with(best, demand)) best = h;
  }
  return best;
}

bool Layouter::pack_on(const std::vector<HostIndex>& kept) {
  std::vector<VmIndex> leaving;
  for (const VmIndex v : ranks_) {
    const bool stays = std::find(kept.begin(), kept.end(), state_.host_of(v)) != kept.end();
    if (!stays) leaving.push_back(v);
  }
  std::stable_sort(leaving.begin(), leaving.end(), [this](VmIndex a, VmIndex b) {
    return state_.memory_of(a) > state_.memory_of(b);
  });
  for (const VmIndex v : leaving) {
    const HostIndex from = state_.host_of(v);
    const HostIndex to = state_.locked(v) ? kNowhere : home_for(v, kept);
    if (to == kNowhere || !try_move(state_, n_plus_one_, v, to)) return false;
    note(v, from, "the job's ranks come together on '" + state_.host(to).id.value + "'");
  }
  return true;
}

Status Layouter::pack() {
  const int now = plan_.hosts_before;
  const int most = request_.hosts > 0 ? std::min(request_.hosts, now) : now;
  const int least = request_.hosts > 0 ? most : 1;
  for (int count = least; count <= most; ++count) {
    Layouter attempt(state_.cluster(), state_.policy(), request_);
    if (!attempt.pack_on(attempt.homes(count))) continue;
    plan_ = std::move(attempt.plan_);
    return ok_status();
  }
  return make_error(Code::ResourceExhausted,
                    "the VMs of job '" + request_.job.value + "' do not fit on " +
                        counted(static_cast<std::size_t>(most), "host") +
                        (state_.policy().n_plus_one ? " with N+1 kept" : ""),
                    "allow more hosts, or free memory on those that it uses");
}

/// A VM that was moved on from where it had just been put moves once.
std::vector<Relocation> merged(const std::vector<Relocation>& moves) {
  std::vector<Relocation> out;
  for (const auto& move : moves) {
    const auto earlier = std::find_if(out.begin(), out.end(),
                                      [&](const Relocation& one) { return one.vm == move.vm; });
    if (earlier == out.end()) {
      out.push_back(move);
      continue;
    }
    earlier->to = move.to;
    earlier->reason = move.reason;
  }
  std::erase_if(out, [](const Relocation& move) { return move.from == move.to; });
  for (std::size_t i = 0; i < out.size(); ++i) out[i].step = static_cast<int>(i) + 1;
  return out;
}

LayoutPlan Layouter::finish() {
  plan_.moves = merged(plan_.moves);
  double cost_s = 0;
  for (const auto& move : plan_.moves) cost_s += move.cost.added_job_time_s;
  policy::weigh(plan_, request_, cost_s);
  return std::move(plan_);
}

}  // namespace

double remaining_after(double remaining_s, double slowdown, double slowdown_after, double wire,
                       double wire_after) {
  // Of today's second 1 - wire is computing, which changes with the slowest rank's pace; the rest
  // is the wire's, which changes with the bytes that have to cross it.
  return remaining_s * ((1 - wire) * slowdown_after / slowdown + wire_after);
}

void weigh(LayoutPlan& plan, const LayoutRequest& request, double cost_s) {
  plan.cost_s = cost_s;
  plan.worth = !plan.moves.empty() && plan.gain_s > cost_s;
  const std::string job = "job '" + request.job.value + "'";
  const std::string left = figure(request.remaining_s, 0) + " s that remain";
  if (plan.moves.empty()) {
    const bool roomy = plan.slowdown_before <= 1 + kRounding && request.layout == Layout::Spread;
    plan.reason =
        job + " stays: " +
        (roomy ? "none of its hosts is asked for more cpus than it has" : "no move helps it");
    return;
  }
  const std::string moves = counted(plan.moves.size(), "move") + " to " +
                            counted(static_cast<std::size_t>(plan.hosts_after), "host");
  const std::string effect = "the slowest rank's slow-down goes from " +
                             figure(plan.slowdown_before, 2) + " to " +
                             figure(plan.slowdown_after, 2);
  const std::string cost = figure(cost_s, 1) + " s";
  const std::string gain = figure(std::abs(plan.gain_s), 1) + " s over the " + left;
  if (plan.worth) {
    plan.reason =
        moves + ": " + effect + ", which gains " + gain + ", for " + cost + " of added job time";
  } else if (plan.gain_s <= 0) {
    plan.reason = job + " stays: with " + moves + " " + effect + ", which loses " + gain +
                  " and costs " + cost;
  } else {
    plan.reason = job + " stays: " + moves + " would gain " + gain + ", not more than the " + cost +
                  " that they cost";
  }
}

Result<LayoutPlan> lay_out(const Cluster& cluster, const PlanPolicy& policy,
                           const LayoutRequest& request) {
  Layouter layouter(cluster, policy, request);
  if (!layouter.has_ranks()) {
    return make_error(Code::NotFound, "no VM of job '" + request.job.value + "' is on a host");
  }
  if (request.layout == Layout::Spread) {
    layouter.spread();
    return layouter.finish();
  }
  const Status packed = layouter.pack();
  if (!packed) return packed.error();
  return layouter.finish();
}

}  // namespace mare::policy
