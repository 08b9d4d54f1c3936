#include "orchestrator/policy/move_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <string>

#include "orchestrator/core/rng.h"

namespace mare::policy {
namespace {

WantedMove move(const std::string& vm, const std::string& from, const std::string& to, double time,
                double added, const std::string& job = "") {
  WantedMove out{VmId{vm}, HostId{from}, HostId{to}, std::nullopt, {}};
  if (!job.empty()) out.job = JobId{job};
  out.forecast.total_time_s.value = time;
  out.forecast.added_job_time_s.value = added;
  return out;
}

TEST(MovePlan, LeastAddedJobTimeFirst) {
  const MovePlan plan =
      plan_moves({move("a", "h1", "h2", 10, 3, "j1"), move("b", "h1", "h2", 20, 1, "j2"),
                  move("c", "h1", "h2", 5, 2)},
                 {2, 1});
  ASSERT_EQ(plan.waves.size(), 3U);
  EXPECT_EQ(plan.waves[0].moves[0].index, 1U);
  EXPECT_EQ(plan.waves[1].moves[0].index, 2U);
  EXPECT_EQ(plan.waves[2].moves[0].index, 0U);
  EXPECT_DOUBLE_EQ(plan.waves[2].begins_s, 25);
  EXPECT_DOUBLE_EQ(plan.duration_s.value, 35);
  EXPECT_DOUBLE_EQ(plan.added_job_time_s.value, 6);
}

TEST(MovePlan, RanksOfOneJobStallTogether) {
  const MovePlan plan =
      plan_moves({move("a", "h1", "h3", 10, 2, "j"), move("b", "h2", "h4", 12, 3, "j")}, {2, 1});
  ASSERT_EQ(plan.waves.size(), 1U);
  EXPECT_DOUBLE_EQ(plan.duration_s.value, 12);
  EXPECT_DOUBLE_EQ(plan.added_job_time_s.value, 3);
}

TEST(MovePlan, WhoSharesALinkTakesLonger) {
  const MovePlan plan =
      plan_moves({move("a", "h1", "h2", 10, 2, "j"), move("b", "h1", "h3", 10, 3, "j")}, {2, 1});
  ASSERT_EQ(plan.waves.size(), 1U);
  EXPECT_DOUBLE_EQ(plan.duration_s.value, 20);
  EXPECT_DOUBLE_EQ(plan.added_job_time_s.value, 6);
}

/// With intervals of half to twice the value.
WantedMove unsure(const std::string& vm, const std::string& to, double time, double added,
                  const std::string& job = "") {
  WantedMove out = move(vm, "h1", to, time, added, job);
  out.forecast.total_time_s = {time, time / 2, time * 2, time};
  out.forecast.added_job_time_s = {added, added / 2, added * 2, added};
  out.forecast.sent_bytes = {time * 100, time * 50, time * 200, time * 100};
  return out;
}

void expect(const Estimate& got, double value, double low, double high) {
  EXPECT_DOUBLE_EQ(got.value, value);
  EXPECT_DOUBLE_EQ(got.low, low);
  EXPECT_DOUBLE_EQ(got.high, high);
}

TEST(MovePlan, TotalsHaveTheEndsOfAllIntervals) {
  // Two waves: a with b, which stall one job at once and share h1's link; then c.
  const std::vector<WantedMove> wanted{unsure("a", "h2", 10, 1, "j"), unsure("b", "h3", 6, 2, "j"),
                                       unsure("c", "h2", 4, 3)};
  const MovePlan plan = plan_moves(wanted, {2, 1});
  ASSERT_EQ(plan.waves.size(), 2U);
  expect(plan.waves[0].duration_s, 20, 10, 40);
  expect(plan.duration_s, 24, 12, 48);
  expect(plan.added_job_time_s, 4 + 3, 2 + 1.5, 8 + 6);
  expect(together(plan, wanted, Quantity::TotalTime), 24, 12, 48);
  expect(together(plan, wanted, Quantity::SentBytes), 2000, 1000, 4000);
}

TEST(MovePlan, OfSomeMovesOnly) {
  const std::vector<WantedMove> wanted{unsure("a", "h2", 10, 1, "j"), unsure("b", "h3", 6, 2, "j"),
                                       unsure("c", "h2", 4, 3)};
  const MovePlan plan = plan_moves(wanted, {2, 1});
  const auto all_but_a = [&](Quantity quantity) {
    return together(plan, wanted, quantity, [&](const PlannedMove& one) -> std::optional<Estimate> {
      if (wanted[one.index].vm == VmId{"a"}) return std::nullopt;
      return planned(wanted, one, quantity);
    });
  };
  expect(all_but_a(Quantity::TotalTime), 12 + 4, 6 + 2, 24 + 8);
  expect(all_but_a(Quantity::SentBytes), 1000, 500, 2000);
  expect(all_but_a(Quantity::AddedJobTime), 4 + 3, 2 + 1.5, 8 + 6);
}

TEST(MovePlan, NothingToMove) {
  EXPECT_TRUE(plan_moves({}, {}).waves.empty());
}

RC_GTEST_PROP(MovePlan, EveryMoveOnceAndNeverOverTheCaps, (std::uint64_t seed)) {
  SeededRng rng(seed);
  std::vector<WantedMove> wanted;
  for (std::uint64_t i = rng.below(30); i > 0; --i) {
    const auto from = rng.below(5);
    const auto to = (from + 1 + rng.below(4)) % 5;
    wanted.push_back(move("v" + std::to_string(i), "h" + std::to_string(from),
                          "h" + std::to_string(to), 1 + 20 * rng.unit(), 5 * rng.unit(),
                          rng.chance(0.5) ? "j" + std::to_string(rng.below(4)) : ""));
  }
  const MoveCaps caps{static_cast<int>(rng.below(4)), static_cast<int>(rng.below(3))};
  const MovePlan plan = plan_moves(wanted, caps);
  std::set<std::size_t> seen;
  double end = 0;
  for (const auto& wave : plan.waves) {
    std::map<std::string, int> hosts;
    std::map<std::string, int> links;
    RC_ASSERT(!wave.moves.empty());
    RC_ASSERT(wave.begins_s == end);
    end = wave.begins_s + wave.duration_s.value;
    for (const auto& one : wave.moves) {
      RC_ASSERT(seen.insert(one.index).second);
      const auto& what = wanted[one.index];
      RC_ASSERT(one.total_time_s.value >= what.forecast.total_time_s.value);
      RC_ASSERT(++hosts[what.source.value] <= std::max(1, caps.per_host));
      RC_ASSERT(++hosts[what.destination.value] <= std::max(1, caps.per_host));
      RC_ASSERT(++links[what.source.value + ">" + what.destination.value] <=
                std::max(1, caps.per_link));
    }
  }
  RC_ASSERT(seen.size() == wanted.size());
}

}  // namespace
}  // namespace mare::policy
