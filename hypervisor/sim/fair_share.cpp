#include "hypervisor/sim/fair_share.h"

#include <algorithm>
#include <limits>

namespace mare::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// What each flow of a link would get if what is left were dealt out evenly now.
std::vector<double> even_shares(const std::vector<double>& left, const std::vector<Flow>& flows,
                                const std::vector<bool>& fixed) {
  std::vector<std::size_t> users(left.size(), 0);
  for (std::size_t f = 0; f < flows.size(); ++f) {
    if (fixed[f]) continue;
    for (const std::size_t link : flows[f].links) ++users[link];
  }
  std::vector<double> shares(left.size(), kInfinite);
  for (std::size_t link = 0; link < left.size(); ++link) {
    if (users[link] > 0) {
      shares[link] = std::max(0.0, left[link]) / static_cast<double>(users[link]);
    }
  }
  return shares;
}

}  // namespace

std::vector<double> fair_share(const std::vector<double>& capacities,
                               const std::vector<Flow>& flows) {
  std::vector<double> left = capacities;
  std::vector<double> rates(flows.size(), 0);
  std::vector<bool> fixed(flows.size(), false);
  // Each turn fixes at least one flow.
  for (std::size_t turn = 0; turn < flows.size(); ++turn) {
    const auto shares = even_shares(left, flows, fixed);
    std::size_t tightest = flows.size();
    double least = kInfinite;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (fixed[f]) continue;
      double rate = flows[f].cap;
      for (const std::size_t link : flows[f].links) rate = std::min(rate, shares[link]);
      if (tightest == flows.size() || rate < least) {
        tightest = f;
        least = rate;
      }
    }
    if (tightest == flows.size()) break;
    fixed[tightest] = true;
    rates[tightest] = least;
    for (const std::size_t link : flows[tightest].links) left[link] -= least;
  }
  return rates;
}

}  // namespace mare::sim
