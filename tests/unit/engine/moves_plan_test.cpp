#include "orchestrator/engine/moves_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orchestrator/engine/move_policy.h"

namespace mare::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

policy::WantedMove wanted(const std::string& vm, const std::string& to, double time,
                          const std::string& job = "") {
  policy::WantedMove out{VmId{vm}, HostId{"h1"}, HostId{to}, std::nullopt, {}};
  if (!job.empty()) out.job = JobId{job};
  out.forecast.strategy = Strategy::Compressed;
  out.forecast.total_time_s = {time, time * 0.5, time * 2, time};
  out.forecast.sent_bytes = {time * 1e7, time * 9e6, time * 2e7, time * 1e7};
  out.forecast.downtime_s = {0.1, 0.05, 0.2, 0.1};
  out.forecast.added_job_time_s = {0.3, 0.2, 0.4, 0.3};
  return out;
}

MovesPlan plan_of(std::vector<policy::WantedMove> moves) {
  MovesPlan out;
  for (const auto& move : moves) out.forecasts.emplace(move.vm, OperationId{"op-" + move.vm.value});
  out.moves = std::move(moves);
  out.plan = policy::plan_moves(out.moves, {2, 1});
  return out;
}

void expect_same(const Estimate& got, const Estimate& said) {
  EXPECT_DOUBLE_EQ(got.value, said.value);
  EXPECT_DOUBLE_EQ(got.low, said.low);
  EXPECT_DOUBLE_EQ(got.high, said.high);
}

TEST(MovesPlan, IsKeptWhole) {
  std::vector<policy::WantedMove> moves;
  for (int i = 0; i < 20; ++i) moves.push_back(wanted("v" + std::to_string(i), "h2", 2 + i));
  moves.push_back(wanted("r0", "h2", 4, "job-1"));
  moves.push_back(wanted("r1", "h3", 4, "job-1"));
  MovesPlan plan = plan_of(std::move(moves));
  plan.stay.push_back({VmId{"s"}, "Do not move: so"});
  plan.forecasts.emplace(VmId{"s"}, OperationId{"op-s"});
  PolicyChange change;
  change.priority = Priority::LeastTraffic;
  const std::string kept = text_of(change, plan);
  EXPECT_EQ(policy_change_from(kept).priority, Priority::LeastTraffic);
  const auto back = moves_plan_from(kept);
  ASSERT_TRUE(back);
  ASSERT_EQ(back->plan.waves.size(), plan.plan.waves.size());
  EXPECT_GT(back->plan.waves.size(), 6U);
  for (std::size_t w = 0; w < plan.plan.waves.size(); ++w) {
    const auto& wave = plan.plan.waves[w];
    const auto& again = back->plan.waves[w];
    EXPECT_DOUBLE_EQ(again.begins_s, wave.begins_s);
    expect_same(again.duration_s, wave.duration_s);
    ASSERT_EQ(again.moves.size(), wave.moves.size());
    for (std::size_t i = 0; i < wave.moves.size(); ++i) {
      const auto& move = plan.moves[wave.moves[i].index];
      const auto& same = back->moves[again.moves[i].index];
      EXPECT_EQ(same.vm, move.vm);
      EXPECT_EQ(same.source, move.source);
      EXPECT_EQ(same.destination, move.destination);
      EXPECT_EQ(same.job, move.job);
      EXPECT_EQ(same.forecast.strategy, Strategy::Compressed);
      expect_same(same.forecast.total_time_s, wave.moves[i].total_time_s);
      EXPECT_EQ(back->forecasts.at(same.vm), OperationId{"op-" + move.vm.value});
    }
  }
  for (const auto quantity : policy::kQuantities) {
    expect_same(policy::together(back->plan, back->moves, quantity),
                policy::together(plan.plan, plan.moves, quantity));
  }
  ASSERT_EQ(back->stay.size(), 1U);
  EXPECT_EQ(back->stay[0].vm, VmId{"s"});
  EXPECT_EQ(back->stay[0].why, "Do not move: so");
}

TEST(MovesPlan, OfAnEarlierVersionThereIsNone) {
  for (const char* text : {"", "{}", "[]", R"({"plan":7})"}) EXPECT_FALSE(moves_plan_from(text));
}

TEST(MovesPlan, ASentenceSaysWhatItCostsOrWhyItWillNotBe) {
  MovesPlan plan = plan_of({wanted("a", "h2", 4), wanted("b", "h2", 2)});
  EXPECT_EQ(in_words(plan),
            "2 VMs would move in 2 waves: 6.00 s (3.00 s to 12.0 s) in all, 60.0 MB (54.0 MB to "
            "120 MB), 600 ms (400 ms to 800 ms) of added job time");
  plan.stay = {{VmId{"c"}, "Do not move: so"}, {VmId{"d"}, "Do not move: neither"}};
  EXPECT_THAT(in_words(plan), HasSubstr("2 VMs could move in 2 waves: "));
  EXPECT_THAT(in_words(plan),
              HasSubstr("; nothing will, as VM 'c' had better stay: Do not move: so; and 1 more"));
  EXPECT_THAT(in_words(plan), Not(HasSubstr("neither")));
  EXPECT_EQ(in_words(MovesPlan{}), "there is no VM to move");
}

}  // namespace
}  // namespace mare::engine
