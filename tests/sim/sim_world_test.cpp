// The world without faults: a day on which everything works, and one kill of mared.
#include "tests/sim/sim_world.h"

#include <gtest/gtest.h>

namespace mare::test {
namespace {

using namespace std::chrono_literals;

class World : public ::testing::Test {
 protected:
  World() : world(1) {
    world.start_mared();
    for (const char* name : {"h1", "h2", "h3"}) EXPECT_TRUE(world.add_host(name));
  }
  Operation done(Result<Operation> accepted) {
    EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
    if (!accepted) return {};
    auto ended = world.wait(accepted->id);
    EXPECT_TRUE(ended.finished()) << ended.id.value << " in " << ended.state;
    return ended;
  }
  void make_pool(int size) {
    engine::PoolCreateRequest request;
    request.id = PoolId{"demo"};
    request.size = size;
    const auto made = done(world.engine().submit(request));
    ASSERT_EQ(made.outcome, Outcome::Succeeded) << made.reason;
  }
  Vm vm(int index) { return world.vms().at(static_cast<std::size_t>(index)); }
  void TearDown() override {
    for (const auto& violation : world.cluster.check_invariants()) ADD_FAILURE() << violation.what;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }

  SimWorld world;
};

TEST_F(World, AJobEndsRightWhileItsRankMoves) {
  make_pool(3);
  engine::JobSubmitRequest job;
  job.pool = PoolId{"demo"};
  job.command = {"solver", "--sim-work=20"};
  job.ranks = 3;
  auto submitted = world.engine().submit(job);
  ASSERT_TRUE(submitted);
  world.play(5s);
  engine::MigrateRequest move;
  move.vm = vm(1).id;
  const auto before = vm(1).host;
  const auto moved = done(world.engine().submit(move));
  EXPECT_EQ(moved.outcome, Outcome::Succeeded) << moved.reason;
  EXPECT_NE(vm(1).host, before);
  const auto ended = world.wait(submitted->id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  const auto row = world.jobs().front();
  EXPECT_EQ(row.state, JobState::Succeeded);
  EXPECT_EQ(row.exit_code, 0);
  const auto output = world.output_of(row.id);
  EXPECT_EQ(output.size(), row.output_bytes);
  EXPECT_NE(output.find("iteration 40 of 40\nchecksum "), std::string::npos) << output;
}

TEST_F(World, ADrainEmptiesAHost) {
  make_pool(4);
  const HostId host = *vm(0).host;
  const auto drained = done(world.engine().submit(engine::HostDrainRequest{host}));
  EXPECT_EQ(drained.outcome, Outcome::Succeeded) << drained.reason;
  for (const auto& copy : world.cluster.copies()) EXPECT_NE(copy.host, host);
}

TEST_F(World, AKilledMaredFinishesAMigrationWhenItIsBack) {
  make_pool(1);
  engine::MigrateRequest move;
  move.vm = vm(0).id;
  auto accepted = world.engine().submit(move);
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(world.play_while_not(
      [&] { return world.operation(accepted->id).state == "PreCopying"; }, 10s));
  world.kill_mared();
  world.play(30s);
  world.start_mared();
  const auto ended = world.wait(accepted->id);
  EXPECT_GE(ended.attempt, 1);
  EXPECT_TRUE(ended.finished());
  EXPECT_EQ(world.cluster.running_on(vm(0).id), vm(0).host);
}

TEST_F(World, DeletingThePoolLeavesNothing) {
  make_pool(2);
  const auto gone = done(world.engine().submit(engine::PoolDeleteRequest{PoolId{"demo"}, false}));
  EXPECT_EQ(gone.outcome, Outcome::Succeeded) << gone.reason;
  EXPECT_TRUE(world.cluster.copies().empty());
  EXPECT_TRUE(world.vms().empty());
}

TEST_F(World, TheSameSeedPlaysTheSame) {
  const auto play = [](std::uint64_t seed) {
    SimWorld other(seed);
    other.start_mared();
    EXPECT_TRUE(other.add_host("a"));
    EXPECT_TRUE(other.add_host("b"));
    engine::PoolCreateRequest request;
    request.id = PoolId{"p"};
    request.size = 2;
    EXPECT_TRUE(other.engine().submit(request));
    other.play(20s);
    return other.log_tail(400);
  };
  EXPECT_EQ(play(5), play(5));
  EXPECT_NE(play(5), play(6));
}

}  // namespace
}  // namespace mare::test
