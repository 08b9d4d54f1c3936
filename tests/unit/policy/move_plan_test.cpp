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
  EXPECT_DOUBLE_EQ(plan.duration_s, 35);
  EXPECT_DOUBLE_EQ(plan.added_job_time_s, 6);
}

TEST(MovePlan, RanksOfOneJobStallTogether) {
  const MovePlan plan =
      plan_moves({move("a", "h1", "h3", 10, 2, "j"), move("b", "h2", "h4", 12, 3, "j")}, {2, 1});
  ASSERT_EQ(plan.waves.size(), 1U);
  EXPECT_DOUBLE_EQ(plan.duration_s, 12);
  EXPECT_DOUBLE_EQ(plan.added_job_time_s, 3);
}

TEST(MovePlan, WhoSharesALinkTakesLonger) {
  const MovePlan plan =
      plan_moves({move("a", "h1", "h2", 10, 2, "j"), move("b", "h1", "h3", 10, 3, "j")}, {2, 1});
  ASSERT_EQ(plan.waves.size(), 1U);
  EXPECT_DOUBLE_EQ(plan.duration_s, 20);
  EXPECT_DOUBLE_EQ(plan.added_job_time_s, 6);
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
    end = wave.begins_s + wave.duration_s;
    for (const auto& one : wave.moves) {
      RC_ASSERT(seen.insert(one.index).second);
      const auto& what = wanted[one.index];
      RC_ASSERT(one.total_time_s >= what.forecast.total_time_s.value);
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
