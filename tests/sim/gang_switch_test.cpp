// VMs of one job that move at the same time switch at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/sim/invariants.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class GangSwitch : public testing::Test {
 protected:
  static constexpr int kVms = 4;

  void SetUp() override {
    world.move_caps = {8, 8};
    world.start_mared();
    for (const char* name : {"h1", "h2", "h3"}) ASSERT_TRUE(world.add_host(name));
    engine::PoolCreateRequest request;
    request.id = PoolId{"demo"};
    request.size = kVms;
    request.hosts = {HostId{"h1"}};
    auto made = world.engine().submit(request);
    ASSERT_TRUE(made);
    ASSERT_EQ(world.wait(made->id, 30min).outcome, Outcome::Succeeded);
    world.on_step([this] { invariants.check_moment(); });
  }
  void TearDown() override {
    world.play_while_not([this] { return world.all_ended(); }, 60min);
    world.play(20s);
    world.on_step({});
    invariants.check_quiet();
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }

  void run_job() {
    engine::JobSubmitRequest request;
    request.pool = PoolId{"demo"};
    request.command = {"solver", "--sim-work=300"};
    request.ranks = kVms;
    ASSERT_TRUE(world.engine().submit(request));
    ASSERT_TRUE(world.play_while_not(
        [&] { return world.jobs().front().state == JobState::Running; }, 1min));
  }
  /// 192 MiB at so many MB/s: 10 s at 20.
  Operation move(int index, double mb_per_s, const std::string& to = "h2",
                 Strategy strategy = Strategy::PreCopy, std::optional<Seconds> limit = {}) {
    engine::MigrateRequest request;
    request.policy.time_limit = limit;
    request.vm = VmId{"demo-" + std::to_string(index)};
    request.destination = HostId{to};
    request.policy.strategy = strategy;
    request.policy.bandwidth_limit = BytesPerSecond{mb_per_s * 1e6};
    auto accepted = world.engine().submit(request);
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    return accepted ? *accepted : Operation{};
  }
  /// One of 2.5 s, one of 3.3, one of 5, one of 10.
  std::vector<Operation> move_all() { return {move(0, 80), move(1, 60), move(2, 40), move(3, 20)}; }
  Operation well_ended(const Operation& operation) {
    const Operation ended = world.wait(operation.id, 30min);
    EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
    return ended;
  }
  Migration migration(const Operation& operation) {
    Result<Migration> row = make_error(Code::Internal, "not asked");
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      row = reader.migration(operation.id);
      return ok_status();
    });
    EXPECT_TRUE(row);
    return row ? *row : Migration{};
  }
  /// One of each VM.
  std::vector<Migration> newest_migrations() {
    std::vector<Migration> out;
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      auto rows = reader.migrations(kVms);
      EXPECT_TRUE(rows);
      if (rows) out = std::move(*rows);
      return ok_status();
    });
    return out;
  }
  double switched_at(const Operation& operation) {
    return Seconds{migration(operation).switched}.count();
  }
  /// Between the first and the last of them, in s.
  double spread(const std::vector<Operation>& moves) {
    std::vector<double> at;
    for (const auto& one : moves) at.push_back(switched_at(one));
    const auto [first, last] = std::minmax_element(at.begin(), at.end());
    return *last - *first;
  }
  std::string history(const Operation& operation) {
    std::string out;
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      const auto lines = reader.history(operation.id);
      EXPECT_TRUE(lines);
      for (const auto& line : *lines) out += line.detail + "\n";
      return ok_status();
    });
    return out;
  }
  bool one_holds(int index) {
    const auto source = sim::make_sim_driver(world.cluster, HostId{"h1"});
    const VmId vm{"demo-" + std::to_string(index)};
    VmKey key;
    for (const auto& copy : world.cluster.copies()) {
      if (copy.key.id == vm) key = copy.key;
    }
    return world.play_while_not(
        [&] {
          const auto status = source->outgoing(key);
          return status && status->holds;
        },
        1min);
  }

  SimWorld world{17};
  Invariants invariants{world};
};

TEST_F(GangSwitch, ThoseOfOneJobSwitchTogether) {
  run_job();
  const auto moves = move_all();
  for (const auto& one : moves) well_ended(one);
  EXPECT_LT(spread(moves), 0.4);
  EXPECT_THAT(history(moves[0]), HasSubstr("together with 3 more of its job, held for"));
  const Migration first = migration(moves[0]);
  const Migration last = migration(moves[3]);
  EXPECT_EQ(first.switched_with, 3);
  EXPECT_GT(Seconds{first.held.value_or(Microseconds{0})}.count(), 5) << "2.5 s, then until 10";
  EXPECT_LT(Seconds{last.held.value_or(Microseconds{0})}.count(), 1) << "all others held already";
}

TEST_F(GangSwitch, ThoseOfNoJobSwitchWhenTheyCan) {
  const auto moves = move_all();
  for (const auto& one : moves) well_ended(one);
  EXPECT_GT(spread(moves), 5);
  EXPECT_THAT(history(moves[0]), Not(HasSubstr("together")));
}

TEST_F(GangSwitch, OneByItselfHoldsNothing) {
  run_job();
  const auto alone = move(0, 80);
  well_ended(alone);
  EXPECT_THAT(history(alone), Not(HasSubstr("together")));
  EXPECT_FALSE(migration(alone).held);
  EXPECT_EQ(migration(alone).switched_with, 0);
}

TEST_F(GangSwitch, OneThatLagsBehindIsNotWaitedFor) {
  run_job();
  const std::vector<Operation> quick{move(0, 80), move(1, 60)};
  const auto slow = move(2, 8);  // 25 s
  for (const auto& one : quick) well_ended(one);
  EXPECT_FALSE(world.operation(slow.id).finished());
  EXPECT_LT(spread(quick), 1.5) << "one of them had waited for its 10 s";
  well_ended(slow);
}

TEST_F(GangSwitch, OneWhoseTimeIsNearlyOverDoesNotWait) {
  run_job();
  // 2.5 s, of 6 that it may take; the other takes 10.
  const auto limited = move(0, 80, "h2", Strategy::PreCopy, Seconds{6});
  const auto slow = move(1, 20);
  const auto ended = well_ended(limited);
  EXPECT_LT(Seconds{ended.ended - ended.created}.count(), 7);
  EXPECT_THAT(history(limited), HasSubstr("together with 1 more"));
  EXPECT_FALSE(world.operation(slow.id).finished());
  well_ended(slow);
}

TEST_F(GangSwitch, OneThatFailsOrIsCancelledIsNotWaitedFor) {
  run_job();
  const auto first = move(0, 80);
  const auto broken = move(1, 20, "h3");
  const auto cancelled = move(2, 20);
  ASSERT_TRUE(one_holds(0));
  ASSERT_TRUE(world.cluster.break_migration(VmId{"demo-1"}));
  ASSERT_TRUE(world.engine().cancel(cancelled.id));
  const WallTime now = world.clock.wall_now();
  const auto ended = well_ended(first);
  EXPECT_LT(Seconds{ended.ended - now}.count(), 5);
  EXPECT_EQ(world.wait(broken.id, 5min).outcome, Outcome::Failed);
  EXPECT_EQ(world.wait(cancelled.id, 5min).outcome, Outcome::Cancelled);
}

TEST_F(GangSwitch, StrategiesThatDoNotHoldGoAsEver) {
  run_job();
  const auto held = move(0, 80);
  const auto other = move(1, 20, "h3", Strategy::StopAndCopy);
  const auto ended = well_ended(held);
  EXPECT_LT(Seconds{ended.ended - ended.created}.count(), 6) << "it is not waited for";
  well_ended(other);
}

TEST_F(GangSwitch, ADrainHoldsAndAnEvacuationDoesNot) {
  run_job();
  const auto held_after = [&](const Result<Operation>& accepted) {
    EXPECT_TRUE(accepted);
    if (accepted) well_ended(*accepted);
    int held = 0;
    for (const auto& one : newest_migrations()) {
      EXPECT_TRUE(holds_its_switch(one.sending.strategy));
      if (one.held) ++held;
    }
    return held;
  };
  engine::HostDrainRequest drain;
  drain.id = HostId{"h1"};
  EXPECT_GT(held_after(world.engine().submit(drain)), 0);
  // All are together on one host again.
  ASSERT_TRUE(world.engine().activate(HostId{"h1"}));
  for (int i = 0; i < kVms; ++i) well_ended(move(i, 80, "h1"));
  EXPECT_EQ(
      held_after(world.engine().submit(engine::EvacuateRequest{HostId{"h1"}, Seconds{300}, ""})),
      0);
}

TEST_F(GangSwitch, ARestartOfMaredLetsThemGo) {
  run_job();
  const auto moves = move_all();
  ASSERT_TRUE(one_holds(0));
  world.kill_mared();
  world.play(1s);
  world.start_mared();
  const WallTime now = world.clock.wall_now();
  const auto ended = well_ended(moves[0]);
  EXPECT_LT(Seconds{ended.ended - now}.count(), 3) << "nobody knows of a gang any more";
  for (const auto& one : moves) well_ended(one);
}

TEST_F(GangSwitch, WithoutMaredAHostLetsThemGoByItself) {
  run_job();
  move_all();
  ASSERT_TRUE(one_holds(0));
  world.kill_mared();
  world.play(45s);
  EXPECT_TRUE(world.cluster.check_invariants().empty());
  EXPECT_EQ(world.cluster.running_on(VmId{"demo-0"}), HostId{"h2"});
  world.start_mared();
  world.play_while_not([this] { return world.all_ended(); }, 60min);
}

TEST_F(GangSwitch, AnAgentThatWasRestartedIsToldOnceMore) {
  run_job();
  const auto moves = move_all();
  ASSERT_TRUE(one_holds(0));
  ASSERT_TRUE(world.cluster.restart_agent(HostId{"h1"}, 300ms));
  for (const auto& one : moves) well_ended(one);
}

}  // namespace
}  // namespace mare::test
