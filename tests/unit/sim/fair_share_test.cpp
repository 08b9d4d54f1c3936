#include "hypervisor/sim/fair_share.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace mare::sim {
namespace {

TEST(FairShare, OneFlowGetsTheNarrowestLinkOrItsCap) {
  EXPECT_EQ(fair_share({100, 40}, {{{0, 1}, 1e9}}), (std::vector<double>{40}));
  EXPECT_EQ(fair_share({100, 40}, {{{0, 1}, 25}}), (std::vector<double>{25}));
}

TEST(FairShare, WhatOneCannotUseTheOthersGet) {
  // Three on link 0; the first is held to 10 by link 1.
  const auto rates = fair_share({100, 10}, {{{0, 1}, 1e9}, {{0}, 1e9}, {{0}, 1e9}});
  EXPECT_DOUBLE_EQ(rates[0], 10);
  EXPECT_DOUBLE_EQ(rates[1], 45);
  EXPECT_DOUBLE_EQ(rates[2], 45);
}

TEST(FairShare, NoFlowsNoRates) {
  EXPECT_TRUE(fair_share({1, 2}, {}).empty());
}

/// No link carries more than it can, and every flow is held back by its cap or by a full link on
/// which nobody gets more than it: the definition of max-min fairness.
TEST(FairShare, IsMaxMinFair) {
  const bool ok = rc::check("max-min fair", [] {
    const auto capacities = *rc::gen::container<std::vector<double>>(
        4, rc::gen::map(rc::gen::inRange(1, 1000), [](int c) { return static_cast<double>(c); }));
    const int count = *rc::gen::inRange(1, 8);
    std::vector<Flow> flows;
    for (int i = 0; i < count; ++i) {
      Flow flow;
      flow.links = {*rc::gen::inRange<std::size_t>(0, 2), *rc::gen::inRange<std::size_t>(2, 4)};
      flow.cap = *rc::gen::inRange(1, 500);
      flows.push_back(flow);
    }
    const auto rates = fair_share(capacities, flows);
    std::vector<double> load(capacities.size(), 0);
    std::vector<double> most(capacities.size(), 0);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const auto link : flows[f].links) {
        load[link] += rates[f];
        most[link] = std::max(most[link], rates[f]);
      }
    }
    for (std::size_t link = 0; link < load.size(); ++link) {
      RC_ASSERT(load[link] <= capacities[link] + 1e-6);
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      const bool capped = rates[f] >= flows[f].cap - 1e-6;
      const bool held =
          std::any_of(flows[f].links.begin(), flows[f].links.end(), [&](std::size_t link) {
            return load[link] >= capacities[link] - 1e-6 && rates[f] >= most[link] - 1e-6;
          });
      RC_ASSERT(capped || held);
    }
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace mare::sim
