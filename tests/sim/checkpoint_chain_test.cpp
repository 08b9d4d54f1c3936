// Checkpoints that are built on one another: what is kept, what goes, what is merged, and the way
// back from any of them.
#include <gmock/gmock.h>

#include <algorithm>

#include "orchestrator/policy/checkpoint_retention.h"
#include "tests/sim/checkpoint_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class CheckpointChain : public CheckpointWorld {
 protected:
  /// Ends the first job, submits one with that plan and takes so many.
  JobId with_checkpoints(int count, int keep, int chain, Seconds max_age = Seconds{0}) {
    expect_right_result(first);
    const JobId id = submit(
        {CheckpointRule::Never, Seconds{0}, keep, CheckpointMode::Incremental, chain, max_age});
    for (int i = 0; i < count; ++i) take_one(id);
    return id;
  }
  Operation take_one(const JobId& id) {
    world.play(500ms);
    Operation taken = take(id);
    EXPECT_EQ(taken.outcome, Outcome::Succeeded) << taken.reason;
    return taken;
  }
  std::vector<Checkpoint> all_of(const JobId& id) {
    auto all = world.checkpoints();
    std::erase_if(all, [&](const Checkpoint& one) { return one.job != id; });
    std::reverse(all.begin(), all.end());
    return all;  // newest first
  }
  int depth(const JobId& id) {
    return policy::chain_depth(all_of(id), complete(id).at(0).id).value_or(-1);
  }
};

TEST_F(CheckpointChain, OnlyWhatChangedIsWritten) {
  const JobId id = with_checkpoints(2, 2, 8);
  const auto all = complete(id);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(base_of(all[1]), CheckpointId{});
  EXPECT_EQ(base_of(all[0]), all[1].id);
  EXPECT_EQ(all[0].size, all[1].size) << "either is all of the memory";
  EXPECT_EQ(written_by(all[1]), all[1].size);
  EXPECT_LT(written_by(all[0]).count, all[0].size.count / 4);
  ASSERT_EQ(restart(id).outcome, Outcome::Succeeded);
  ASSERT_EQ(restart(id, all[1].id.value).outcome, Outcome::Succeeded);
  // What comes after it is built on what was newest, also when the job went back to an older one.
  EXPECT_THAT(take_one(id).reason, HasSubstr("built on " + all[0].id.value));
  expect_right_result(id);
}

TEST_F(CheckpointChain, WhatKeptOnesAreBuiltOnIsKeptAndIsNoneToGoBackTo) {
  const JobId id = with_checkpoints(4, 1, 8);
  const auto all = all_of(id);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].state, CheckpointState::Complete);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(all[i].state, CheckpointState::Needed);
  world.play(20s);
  EXPECT_EQ(all_of(id).size(), 4U);
  engine::RestartRequest request;
  request.job = id;
  request.checkpoint = all[1].id;
  EXPECT_FALSE(world.engine().submit(request));
  ASSERT_EQ(restart(id).outcome, Outcome::Succeeded);
  expect_right_result(id);
  world.play(20s);
  EXPECT_TRUE(world.cluster.capture_files().empty());
}

TEST_F(CheckpointChain, AChainThatIsLongIsMergedInTheBackground) {
  const JobId id = with_checkpoints(4, 2, 3);
  EXPECT_EQ(depth(id), 3);
  world.play(12s);
  EXPECT_EQ(depth(id), 1) << "the older of the two that are kept is a full one by now";
  auto all = all_of(id);
  ASSERT_EQ(all.size(), 2U) << "what it was built on is gone";
  EXPECT_EQ(written_by(all[1]), all[1].size);
  EXPECT_EQ(world.cluster.capture_files().size(), 6U);
  EXPECT_THAT(take_one(id).reason, HasSubstr("built on " + all[0].id.value));
  ASSERT_EQ(restart(id, all[0].id.value).outcome, Outcome::Succeeded);
  expect_right_result(id);
}

TEST_F(CheckpointChain, WhereNobodyMergesTheNextIsAFullOne) {
  const JobId id = with_checkpoints(1, 2, 3);
  int longest = 0;
  int full = 0;
  // Faster than the keeper looks.
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(take(id).outcome, Outcome::Succeeded);
    longest = std::max(longest, depth(id));
    full += depth(id) == 0 ? 1 : 0;
  }
  EXPECT_LE(longest, 3);
  EXPECT_GE(full, 1);
  expect_right_result(id);
}

TEST_F(CheckpointChain, OnADamagedOneNothingIsBuilt) {
  const JobId id = with_checkpoints(2, 2, 8);
  ASSERT_TRUE(world.cluster.damage_file(complete(id)[0].parts[1].path));
  const Operation taken = take_one(id);
  EXPECT_THAT(taken.reason, HasSubstr("in full"));
  const Checkpoint newest = complete(id)[0];
  EXPECT_TRUE(newest.parts[1].base.value.empty());
  EXPECT_FALSE(newest.parts[0].base.value.empty()) << "the others are whole";
  ASSERT_EQ(restart(id).outcome, Outcome::Succeeded);
  expect_right_result(id);
}

TEST_F(CheckpointChain, OldOnesGoButNotTheLast) {
  const JobId id = with_checkpoints(1, 10, 1, Seconds{60});
  take_one(id);
  take_one(id);
  ASSERT_EQ(complete(id).size(), 3U);
  const std::string last = complete(id)[0].id.value;
  // The job fails, so that its checkpoints stay for a restart.
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-2"}));
  world.play(50s);
  EXPECT_TRUE(is_final(job(id).state));
  EXPECT_EQ(complete(id).size(), 3U);
  world.play(30s);
  ASSERT_EQ(complete(id).size(), 1U);
  EXPECT_EQ(complete(id)[0].id.value, last);
  world.play(10min);
  EXPECT_EQ(complete(id).size(), 1U) << "the last good one stays";
}

TEST_F(CheckpointChain, AMergeThatACrashOfMaredBreaksIsDoneAgain) {
  const JobId id = with_checkpoints(4, 2, 3);
  world.executor.slow_next("merge", 3s);
  world.play(6s);
  world.kill_mared();
  world.start_mared();
  world.play(12s);
  EXPECT_EQ(depth(id), 1);
  EXPECT_EQ(all_of(id).size(), 2U);
  ASSERT_EQ(restart(id).outcome, Outcome::Succeeded);
  expect_right_result(id);
}

TEST_F(CheckpointChain, AWrongPlanIsRefused) {
  engine::JobSubmitRequest request;
  request.pool = PoolId{"demo"};
  request.command = {"solver"};
  request.checkpoints.chain = 0;
  auto refused = world.engine().submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "checkpoint_chain");
  request.checkpoints.chain = 1;
  request.checkpoints.max_age = Seconds{5};
  refused = world.engine().submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "checkpoints_max_age_s");
}

}  // namespace
}  // namespace mare::test
