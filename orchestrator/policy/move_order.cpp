#include "orchestrator/policy/move_order.h"

#include <algorithm>
#include <unordered_map>

namespace mare::policy {
namespace {

// Pairs are looked for among so many moves that do not go singly: quadratic beyond.
constexpr std::size_t kPairsAmong = 256;

class Ordering {
 public:
  Ordering(const Cluster& cluster, const PlanPolicy& policy)
      : state_(cluster, policy), n_plus_one_(state_) {}

  /// Whether all of `wanted` could be carried out.
  bool carry_out(std::vector<Hop> wanted) {
    bool went = true;
    while (!wanted.empty() && went) went = singles(wanted) || pair(wanted);
    return wanted.empty();
  }
  std::vector<Step> take() { return std::move(steps_); }
  const ClusterState& state() const { return state_; }

 private:
  bool go(const Hop& hop) {
    return state_.obstacle(hop.vm, hop.to) == Obstacle::None &&
           try_move(state_, n_plus_one_, hop.vm, hop.to);
  }
  double score() const { return state_.score() + n_plus_one_.penalty(); }

  /// Every move that is possible and helps by itself.
  bool singles(std::vector<Hop>& wanted) {
    const std::size_t before = wanted.size();
    wanted.erase(std::remove_if(wanted.begin(), wanted.end(),
                                [this](const Hop& hop) { return helps(hop) && step({hop}); }),
                 wanted.end());
    return wanted.size() < before;
  }
  bool helps(const Hop& hop) const {
    return n_plus_one_.exposed_hosts() > 0 || state_.gain(hop.vm, hop.to) > 0;
  }
  /// Carries a step out, or leaves everything as it was.
  bool step(const Step& hops) {
    const double before = score();
    n_plus_one_.begin();
    std::vector<HostIndex> from;
    for (const Hop& hop : hops) {
      const HostIndex here = state_.host_of(hop.vm);
      if (!go(hop)) break;
      from.push_back(here);
    }
    if (from.size() == hops.size()) n_plus_one_.retry_exposed();
    if (from.size() == hops.size() && score() < before - kNothing) {
      steps_.push_back(hops);
      return true;
    }
    for (std::size_t i = from.size(); i-- > 0;) state_.move(hops[i].vm, from[i]);
    n_plus_one_.roll_back();
    return false;
  }
  /// Two that help only together.
  bool pair(std::vector<Hop>& wanted) {
    const std::size_t count = std::min(kPairsAmong, wanted.size());
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t j : partners(wanted, i, count)) {
        if (!step({wanted[i], wanted[j]})) continue;
        wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
        wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
        return true;
      }
    }
    return false;
  }
  /// By the score alone, which is quickly told; the partner of an exchange stands beside it.
  std::vector<std::size_t> partners(const std::vector<Hop>& wanted, std::size_t i,
                                    std::size_t count) {
    const Hop& first = wanted[i];
    if (state_.obstacle(first.vm, first.to) != Obstacle::None) return {};
    std::vector<std::size_t> out;
    const double least = state_.score() - kNothing;
    const HostIndex from = state_.host_of(first.vm);
    state_.move(first.vm, first.to);
    for (std::size_t k = 1; k < count; ++k) {
      const Hop& second = wanted[(i + k) % count];
      if (state_.obstacle(second.vm, second.to) != Obstacle::None) continue;
      if (state_.terms_after(second.vm, second.to).sum() < least) out.push_back((i + k) % count);
    }
    state_.move(first.vm, from);
    return out;
  }

  ClusterState state_;
  NPlusOne n_plus_one_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> ordered(const Cluster& cluster, const PlanPolicy& policy,
                          const std::vector<Step>& steps) {
  std::vector<Hop> net;
  std::unordered_map<VmIndex, std::size_t> place;
  std::size_t hops = 0;
  for (const Step& step : steps) {
    for (const Hop& hop : step) {
      ++hops;
      const auto [found, is_new] = place.try_emplace(hop.vm, net.size());
      if (is_new) {
        net.push_back(hop);
      } else {
        net[found->second].to = hop.to;
      }
    }
  }
  if (net.size() == hops) return steps;  // each moved once already
  Ordering ordering(cluster, policy);
  net.erase(std::remove_if(
                net.begin(), net.end(),
                [&ordering](const Hop& hop) { return ordering.state().host_of(hop.vm) == hop.to; }),
            net.end());
  return ordering.carry_out(std::move(net)) ? ordering.take() : steps;
}

}  // namespace mare::policy
