#include "orchestrator/policy/rebalance_search.h"

#include <algorithm>
#include <limits>

#include "orchestrator/policy/hard_rules.h"

namespace mare::policy {
namespace {

// How many of the best candidates of one host are tried before it is left alone: N+1 refuses few.
constexpr std::size_t kTried = 8;
// Exchanges are looked for with so many hosts of the other end of the order only: with all of them
// a pass over 1000 hosts would take 10^8 evaluations.
constexpr std::size_t kPartners = 48;
// Each pass over all hosts must have moved something to be followed by another; this bounds both.
constexpr std::size_t kMovesPerVm = 4;
constexpr double kFirst = 1000;  // above any score

template <typename Candidates>
void keep_best(Candidates& candidates) {
  const auto better = [](const auto& a, const auto& b) {
    if (a.surplus != b.surplus) return a.surplus > b.surplus;
    if (a.vm != b.vm) return a.vm < b.vm;
    return a.other != b.other ? a.other < b.other : a.to < b.to;
  };
  const std::size_t kept = std::min(kTried, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept),
                    candidates.end(), better);
  candidates.resize(kept);
}

}  // namespace

RebalanceSearch::RebalanceSearch(ClusterState& state, NPlusOne& n_plus_one)
    : state_(state), n_plus_one_(n_plus_one) {
  const int cap = state.policy().max_moves;
  limit_ = cap > 0 ? ClusterState::at(cap) : kMovesPerVm * ClusterState::at(state.vms());
}

bool RebalanceSearch::may_go_on(std::size_t moves) const {
  return moves_ + moves <= limit_;
}

void RebalanceSearch::done(Step step) {
  moves_ += step.size();
  steps_.push_back(std::move(step));
}

/// What a move of this VM must gain: the least gain and its cost, both of one host's share.
double RebalanceSearch::required(VmIndex v) const {
  const PlanPolicy& policy = state_.policy();
  const double horizon = std::max(1.0, policy.horizon_s);
  const double cost = policy.min_gain + state_.source(v).cost.added_job_time_s / horizon;
  return cost / std::max(1, state_.usable_hosts()) + kNothing;
}

std::vector<Step> RebalanceSearch::run() {
  relieve();
  repair();
  while (may_go_on(1)) {
    // From fresh sums and fresh refuges, so that a plan for the outcome sees what is seen here.
    state_.resum();
    n_plus_one_.renew();
    const std::size_t before = moves_;
    while (single_moves()) {
    }
    if (state_.policy().exchanges) exchanges();
    if (moves_ == before) break;
  }
  return std::move(steps_);
}

/// VMs on hosts that give out more than they have, the largest first, and one of every pair that
/// must not share a host: to where the score is best.
void RebalanceSearch::relieve() {
  for (int h = 0; h < state_.hosts(); ++h) {
    std::vector<VmIndex> own = state_.vms_on(h);
    std::stable_sort(own.begin(), own.end(), [this](VmIndex a, VmIndex b) {
      return state_.memory_of(a) > state_.memory_of(b);
    });
    for (const VmIndex v : own) {
      if (!may_go_on(1)) return;
      const bool wanted = overfull(state_, h) || (state_.usable(h) && in_conflict(state_, v));
      if (!wanted || state_.locked(v)) continue;
      const Settled place = settle(state_, n_plus_one_, v, h);
      if (place.host != kNowhere) done({{v, place.host}});
    }
  }
}

/// Hosts whose failure could not be survived: any move helps that strands fewer bytes.
void RebalanceSearch::repair() {
  bool helped = n_plus_one_.exposed_hosts() > 0;
  while (helped && may_go_on(1)) {
    helped = false;
    for (int h = 0; h < state_.hosts(); ++h) {
      if (n_plus_one_.exposed(h) && repair_host(h)) helped = true;
    }
  }
}

/// Its own VMs first, the largest first; then those in the way on the hosts with most room, the
/// smallest first.
bool RebalanceSearch::repair_host(HostIndex exposed) {
  const auto by_memory = [this](VmIndex a, VmIndex b) {
    return state_.memory_of(a) < state_.memory_of(b);
  };
  std::vector<VmIndex> own = state_.vms_on(exposed);
  std::stable_sort(own.rbegin(), own.rend(), by_memory);
  std::vector<VmIndex> others;
  for (const HostIndex h : roomiest([&](HostIndex one) { return one != exposed; })) {
    others.insert(others.end(), state_.vms_on(h).begin(), state_.vms_on(h).end());
  }
  std::stable_sort(others.begin(), others.end(), by_memory);
  own.insert(own.end(), others.begin(), others.end());
  return std::any_of(own.begin(), own.end(), [this](VmIndex v) {
    return !state_.locked(v) && may_go_on(1) && repair_by(v);
  });
}

/// The hosts with most memory free among those that pass.
std::vector<HostIndex> RebalanceSearch::roomiest(
    const std::function<bool(HostIndex)>& passes) const {
  std::vector<HostIndex> out;
  for (int h = 0; h < state_.hosts(); ++h) {
    if (state_.usable(h) && passes(h)) out.push_back(h);
  }
  std::stable_sort(out.begin(), out.end(), [this](HostIndex a, HostIndex b) {
    return state_.free_memory(a) > state_.free_memory(b);
  });
  out.resize(std::min(out.size(), kTried));
  return out;
}

bool RebalanceSearch::repair_by(VmIndex v) {
  const HostIndex from = state_.host_of(v);
  const auto takes = [&](HostIndex h) {
    return h != from && state_.obstacle(v, h) == Obstacle::None;
  };
  const std::uint64_t before = n_plus_one_.stranded_bytes();
  const double score = state_.score() + n_plus_one_.penalty();
  for (const HostIndex to : roomiest(takes)) {
    n_plus_one_.begin();
    if (!try_move(state_, n_plus_one_, v, to)) continue;
    n_plus_one_.retry_exposed();
    const bool fewer = n_plus_one_.stranded_bytes() < before;
    if (fewer && state_.score() + n_plus_one_.penalty() < score - kNothing) {
      done({{v, to}});
      return true;
    }
    state_.move(v, from);
    n_plus_one_.roll_back();
  }
  return false;
}

std::vector<HostIndex> RebalanceSearch::by_pressure() const {
  std::vector<std::pair<double, HostIndex>> order;
  for (int h = 0; h < state_.hosts(); ++h) {
    if (state_.usable(h)) order.emplace_back(-state_.pressure(h), h);
  }
  std::sort(order.begin(), order.end());
  std::vector<HostIndex> out;
  for (const auto& [pressure, h] : order) out.push_back(h);
  return out;
}

/// Lazily greedy: what each host promised when it was last looked at; the one that promises most is
/// looked at again, and moves its best VM if it still promises most. A promise that has grown
/// meanwhile is seen in the next pass, for which all promise everything.
bool RebalanceSearch::single_moves() {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  const std::size_t before = moves_;
  std::vector<double> promise(ClusterState::at(state_.hosts()), kUnknown);
  while (may_go_on(1)) {
    const auto [best, second] = two_best(promise);
    if (best == kNowhere) break;
    const Candidates candidates = moves_from(best);
    double& promised = promise[ClusterState::at(best)];
    promised = candidates.empty() ? 0 : candidates.front().surplus;
    // The slowest rank holds up its whole job: hosts that are short of cpus come before all others.
    if (promised > 0 && state_.demand_ratio(best) > 1 + kNothing) promised += kFirst;
    if (promised < second) continue;
    const HostIndex to = take_first(candidates);
    promised = to == kNowhere ? 0 : kUnknown;
    if (to != kNowhere) promise[ClusterState::at(to)] = kUnknown;
  }
  return moves_ != before;
}

/// The host that promises most, and what the next one promises.
std::pair<HostIndex, double> RebalanceSearch::two_best(const std::vector<double>& promise) const {
  HostIndex best = kNowhere;
  double most = 0;
  double second = 0;
  for (int h = 0; h < state_.hosts(); ++h) {
    const double here = state_.usable(h) ? promise[ClusterState::at(h)] : 0;
    if (here > most) {
      second = most;
      most = here;
      best = h;
    } else {
      second = std::max(second, here);
    }
  }
  return {best, second};
}

RebalanceSearch::Candidates RebalanceSearch::moves_from(HostIndex h) const {
  Candidates out;
  for (const VmIndex v : state_.vms_on(h)) {
    if (state_.locked(v) || state_.source(v).by_rule_only) continue;
    const double most = state_.score() - required(v);
    const ClusterState::Departure departure = state_.leave(v);
    for (int to = 0; to < state_.hosts(); ++to) {
      if (to == h || state_.obstacle(v, to) != Obstacle::None) continue;
      const double surplus = most - state_.score_on(departure, to);
      if (surplus > 0) out.push_back({surplus, v, kNowhere, to});
    }
  }
  keep_best(out);
  return out;
}

/// Where the first that N+1 allows went.
HostIndex RebalanceSearch::take_first(const Candidates& candidates) {
  for (const Candidate& candidate : candidates) {
    if (!try_move(state_, n_plus_one_, candidate.vm, candidate.to)) continue;
    done({{candidate.vm, candidate.to}});
    return candidate.to;
  }
  return kNowhere;
}

bool RebalanceSearch::exchanges() {
  const std::size_t before = moves_;
  for (const HostIndex h : by_pressure()) {
    while (may_go_on(2) && exchange_from(h)) {
    }
  }
  return moves_ != before;
}

/// The hosts least like it: those from the other end of the order of pressure, and those that are
/// emptiest in memory and in vcpus, since the order weighs these against each other.
std::vector<HostIndex> RebalanceSearch::partners_of(HostIndex h) const {
  const bool few = state_.usable_hosts() <= static_cast<int>(kPartners);
  const std::size_t most = few ? kPartners : kPartners / 3;
  std::vector<HostIndex> out;
  std::vector<std::pair<double, HostIndex>> order;
  const auto take_least = [&](auto key) {
    order.clear();
    for (int other = 0; other < state_.hosts(); ++other) {
      if (other != h && state_.usable(other)) order.emplace_back(key(other), other);
    }
    const std::size_t taken = std::min(order.size(), most);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(taken),
                      order.end());
    for (std::size_t i = 0; i < taken; ++i) out.push_back(order[i].second);
  };
  take_least([this](HostIndex one) { return state_.pressure(one); });
  take_least([this](HostIndex one) { return state_.memory_ratio(one); });
  take_least([this](HostIndex one) { return state_.vcpu_ratio(one); });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

RebalanceSearch::Candidates RebalanceSearch::exchanges_between(HostIndex a, HostIndex b) const {
  Candidates out;
  const double now = state_.score();
  for (const VmIndex mine : state_.vms_on(a)) {
    // Relations between the two would be counted twice; VMs with relations move singly.
    if (state_.source(mine).by_rule_only) continue;
    if (state_.locked(mine) || state_.related(mine) || !state_.tags_allow(mine, b)) continue;
    for (const VmIndex other : state_.vms_on(b)) {
      if (state_.source(other).by_rule_only) continue;
      if (state_.locked(other) || state_.related(other) || !state_.tags_allow(other, a)) continue;
      const double surplus =
          now - required(mine) - required(other) - state_.score_exchanged(mine, other);
      if (surplus > 0) out.push_back({surplus, mine, other, b});
    }
  }
  return out;
}

bool RebalanceSearch::exchange_from(HostIndex h) {
  Candidates all;
  for (const HostIndex partner : partners_of(h)) {
    const Candidates some = exchanges_between(h, partner);
    all.insert(all.end(), some.begin(), some.end());
  }
  keep_best(all);
  return std::any_of(all.begin(), all.end(),
                     [this](const Candidate& candidate) { return try_exchange(candidate); });
}

bool RebalanceSearch::try_exchange(const Candidate& candidate) {
  const HostIndex from = state_.host_of(candidate.vm);
  return move_pair(candidate.vm, candidate.to, candidate.other, from) ||
         move_pair(candidate.other, from, candidate.vm, candidate.to);
}

/// Both moves, the first before the second, each state possible; or none of them.
bool RebalanceSearch::move_pair(VmIndex first, HostIndex to, VmIndex second, HostIndex back) {
  const HostIndex from = state_.host_of(first);
  if (state_.obstacle(first, to) != Obstacle::None) return false;
  n_plus_one_.begin();
  if (!try_move(state_, n_plus_one_, first, to)) return false;
  if (state_.obstacle(second, back) == Obstacle::None &&
      try_move(state_, n_plus_one_, second, back)) {
    done({{first, to}, {second, back}});
    return true;
  }
  state_.move(first, from);
  n_plus_one_.roll_back();
  return false;
}

}  // namespace mare::policy
