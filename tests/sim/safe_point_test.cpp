// Checkpoints of jobs that announce safe points: they are pulled to the next collective, and never
// held up by it for longer than was said.
#include <gmock/gmock.h>

#include "tests/sim/checkpoint_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class SafePoints : public CheckpointWorld {
 protected:
  void SetUp() override {
    CheckpointWorld::SetUp();
    expect_right_result(first);
    // Guests answer as quickly as real ones.
    world.executor.set_longest_delay(2ms);
  }
  static CheckpointPlan plan(Seconds wait) {
    CheckpointPlan plan;
    plan.safe_points = true;
    plan.safe_point_wait = wait;
    return plan;
  }
  JobId submit_with(const std::string& every_s, const CheckpointPlan& plan) {
    return submit(plan, {"--sim-collective-every=" + every_s});
  }
  Result<SafePointStatus> ask(const JobId& id, const std::string& vm_id = "demo-1") {
    const Vm row = vm(vm_id);
    return world.guests.safe_points({row.id, row.ip, world.pools()[0].token}, id);
  }
  SafePointStatus status(const JobId& id, const std::string& vm_id = "demo-1") {
    auto found = ask(id, vm_id);
    EXPECT_TRUE(found) << (found ? "" : found.error().text());
    return found ? *found : SafePointStatus{};
  }
  /// The last that the guest said before the operation was in this state: in it, the VM may stand
  /// still already.
  std::optional<SafePointStatus> last_before(const OperationId& operation, const std::string& state,
                                             const JobId& id) {
    std::optional<SafePointStatus> last;
    while (!world.operation(operation).finished()) {
      if (auto found = ask(id)) last = *found;
      if (world.operation(operation).state == state) return last;
      world.play(1ms);
    }
    return std::nullopt;
  }
  /// Until the ranks have been out of a collective for so long.
  void play_to(const JobId& id, Milliseconds outside) {
    const MonotonicTime end = world.clock.now() + 1min;
    while (world.clock.now() < end) {
      world.play(1ms);
      const auto seen = status(id);
      const auto late = seen.outside - outside;
      if (seen.ranks == 1 && seen.inside == 0 && late >= 0ms && late < 20ms) return;
    }
    ADD_FAILURE() << "not for " << outside.count() << " ms";
  }
  OperationId begin(const JobId& id) {
    auto accepted = world.engine().submit(engine::CheckpointRequest{id});
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    return accepted ? accepted->id : OperationId{};
  }
  /// What the history says of the moment at which VMs may stand still.
  std::string words(const OperationId& id) {
    std::string found = "(not held)";
    EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
      auto lines = reader.history(id);
      if (!lines) return lines.error();
      for (const auto& line : *lines) {
        if (line.to == "Holding") found = line.detail;
      }
      return ok_status();
    }));
    return found;
  }
  /// From asking for it to the moment from which VMs may stand still.
  Milliseconds waited(const OperationId& id) {
    const Checkpoint one = complete(JobId{world.operation(id).target}).at(0);
    EXPECT_EQ(one.operation, id);
    return std::chrono::floor<Milliseconds>(one.began - world.operation(id).created);
  }
};

TEST_F(SafePoints, TheNextCollectiveIsWaitedFor) {
  const JobId id = submit_with("2", plan(Seconds{10}));
  play_to(id, 1200ms);
  const OperationId taken = begin(id);
  world.play(500ms);
  EXPECT_EQ(world.operation(taken).state, "Planned") << "2 s are not over";
  ASSERT_TRUE(reaches(taken, "Holding"));
  const auto seen = status(id);
  EXPECT_TRUE(seen.inside == 1 || seen.outside <= 100ms) << seen.outside.count();
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::Hit);
  EXPECT_THAT(world.operation(taken).reason, HasSubstr("at a safe point"));
  EXPECT_THAT(words(taken), HasSubstr("at a safe point, after"));
  EXPECT_GE(waited(taken), 700ms);
  EXPECT_LE(waited(taken), 900ms);
  expect_right_result(id);
}

TEST_F(SafePoints, OneThatWasJustPassedIsGoodToo) {
  const JobId id = submit_with("5", plan(Seconds{10}));
  play_to(id, 40ms);
  const OperationId taken = begin(id);
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::Hit);
  EXPECT_LE(waited(taken), 20ms);
  expect_right_result(id);
}

TEST_F(SafePoints, NobodyWaitsForLongerThanWasSaid) {
  const JobId id = submit_with("25", plan(Seconds{0.7}));
  play_to(id, 500ms);
  const OperationId taken = begin(id);
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::Missed);
  EXPECT_EQ(waited(taken), 700ms);
  EXPECT_THAT(words(taken), HasSubstr("no safe point within 700 ms: demo-0 was out of"));
  EXPECT_THAT(world.operation(taken).reason, Not(HasSubstr("safe point")));
  expect_right_result(id);
}

TEST_F(SafePoints, GuestsThatDoNotAnswerHoldNothingUp) {
  const JobId id = submit_with("0.05", plan(Seconds{0.5}));
  sim::FaultModel silent;
  silent.guest_unanswered = 1;
  world.cluster.set_faults(silent);
  OperationId taken = begin(id);
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::Missed);
  EXPECT_EQ(waited(taken), 500ms);
  EXPECT_THAT(words(taken), HasSubstr("no answer in time"));
  // One whose call hangs for longer than that: it is not asked again, and its late answer is
  // nothing.
  world.cluster.set_faults({});
  world.executor.slow_next("guest/demo-1", 5s);
  taken = begin(id);
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::Missed);
  EXPECT_EQ(waited(taken), 500ms);
  EXPECT_THAT(words(taken), HasSubstr("demo-1: no answer yet"));
  world.play(6s);
  expect_right_result(id);
}

TEST_F(SafePoints, AProgramThatAnnouncesNoneIsNotWaitedFor) {
  const JobId id = submit(plan(Seconds{10}));
  OperationId taken = begin(id);
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::Absent);
  EXPECT_LE(waited(taken), 20ms);
  EXPECT_THAT(words(taken), HasSubstr("announce no safe points"));
  expect_right_result(id);
}

TEST_F(SafePoints, AJobThatWasNotAskedForThemHasNone) {
  const JobId id = submit_with("25", {});
  world.play(500ms);
  const OperationId taken = begin(id);
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::NotAsked);
  EXPECT_LE(waited(taken), 20ms);
  EXPECT_EQ(words(taken), "");
  expect_right_result(id);
}

TEST_F(SafePoints, TheWaitCanBeCancelled) {
  const JobId id = submit_with("25", plan(Seconds{20}));
  play_to(id, 500ms);
  const OperationId taken = begin(id);
  world.play(1s);
  ASSERT_EQ(world.operation(taken).state, "Planned");
  ASSERT_TRUE(world.engine().cancel(taken));
  world.play(50ms);
  EXPECT_EQ(world.operation(taken).outcome, Outcome::Cancelled);
  EXPECT_TRUE(world.checkpoints().empty());
  world.play(25s);
  EXPECT_TRUE(world.checkpoints().empty()) << "nor later";
  expect_right_result(id);
}

TEST_F(SafePoints, AMaredThatDiesInTheWaitBeginsItAnew) {
  const JobId id = submit_with("25", plan(Seconds{2}));
  play_to(id, 500ms);
  const OperationId taken = begin(id);
  world.play(1500ms);
  ASSERT_EQ(world.operation(taken).state, "Planned");
  world.kill_mared();
  world.play(500ms);
  world.start_mared();
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  EXPECT_EQ(complete(id).at(0).safe_point, SafePoint::Missed);
  EXPECT_GE(waited(taken), 3900ms);
  EXPECT_LE(waited(taken), 4200ms);
  expect_right_result(id);
}

TEST_F(SafePoints, AMigrationThatBeginsInTheWaitComesFirst) {
  const JobId id = submit_with("5", plan(Seconds{10}));
  play_to(id, 2s);
  const OperationId taken = begin(id);
  world.play(100ms);
  engine::MigrateRequest request;
  request.vm = VmId{"demo-0"};
  request.policy.bandwidth_limit = BytesPerSecond{20e6};
  auto move = world.engine().submit(request);
  ASSERT_TRUE(move) << "nothing is held in the wait";
  ASSERT_TRUE(reaches(move->id, "PreCopying"));
  EXPECT_EQ(world.operation(taken).state, "Planned");
  EXPECT_EQ(world.wait(move->id).outcome, Outcome::Succeeded);
  ASSERT_EQ(world.wait(taken).outcome, Outcome::Succeeded);
  const Checkpoint one = complete(id).at(0);
  EXPECT_EQ(one.safe_point, SafePoint::Hit) << "looked for again after the move";
  EXPECT_EQ(one.parts[0].host, host_of("demo-0"));
  EXPECT_GE(one.began, world.operation(move->id).ended);
  expect_right_result(id);
}

class MovesAtSafePoints : public SafePoints {
 protected:
  static engine::MigrateRequest request_of(Seconds within, std::optional<Strategy> strategy = {}) {
    engine::MigrateRequest request;
    request.vm = VmId{"demo-1"};
    request.timing = {Moment::SafePoint, within};
    request.force = true;
    request.policy.strategy = strategy;
    return request;
  }
  OperationId move(const engine::MigrateRequest& request) {
    auto accepted = world.engine().submit(request);
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    return accepted ? accepted->id : OperationId{};
  }
  std::string began_with(const OperationId& id, const std::string& state) {
    std::string found = "(did not begin)";
    EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
      auto lines = reader.history(id);
      if (!lines) return lines.error();
      for (const auto& line : *lines) {
        if (line.to == state && line.from != line.to) found = line.detail;
      }
      return ok_status();
    }));
    return found;
  }
};

TEST_F(MovesAtSafePoints, TheVmStopsInACollectiveOrJustPastOne) {
  for (const auto& [strategy, state] : {std::pair{Strategy::StopAndCopy, "PreCopying"},
                                        std::pair{Strategy::CheckpointRestart, "Saving"}}) {
    const JobId id = submit_with("3", plan(Seconds{1}));
    play_to(id, 200ms);
    const OperationId moves = move(request_of(Seconds{10}, strategy));
    const auto seen = last_before(moves, state, id);
    ASSERT_TRUE(seen) << world.operation(moves).reason;
    EXPECT_TRUE(seen->inside == 1 || seen->outside <= 150ms) << seen->outside.count();
    EXPECT_THAT(began_with(moves, state), HasSubstr("; at a safe point, after "));
    EXPECT_EQ(world.wait(moves).outcome, Outcome::Succeeded) << world.operation(moves).reason;
    expect_right_result(id);
  }
}

TEST_F(MovesAtSafePoints, NobodyWaitsForLongerThanWasSaid) {
  const JobId id = submit_with("100", plan(Seconds{1}));
  play_to(id, 500ms);
  const OperationId moves = move(request_of(Seconds{2}, Strategy::StopAndCopy));
  EXPECT_EQ(world.wait(moves).outcome, Outcome::Succeeded) << world.operation(moves).reason;
  EXPECT_THAT(began_with(moves, "PreCopying"), HasSubstr("; no safe point within 2000 ms: demo-1"));
}

TEST_F(MovesAtSafePoints, WhereThereIsNoneItBeginsAtOnce) {
  const OperationId moves = move(request_of(Seconds{10}));
  EXPECT_EQ(world.wait(moves).outcome, Outcome::Succeeded) << world.operation(moves).reason;
  EXPECT_THAT(began_with(moves, "PreCopying"), HasSubstr("; at once: no job is on it"));
}

TEST_F(MovesAtSafePoints, ACancelEndsTheWaiting) {
  const JobId id = submit_with("100", plan(Seconds{1}));
  play_to(id, 500ms);
  const HostId home = host_of("demo-1");
  const OperationId moves = move(request_of(Seconds{30}, Strategy::StopAndCopy));
  ASSERT_TRUE(reaches(moves, "Reserved"));
  world.play(3s);
  ASSERT_EQ(world.operation(moves).state, "Reserved");
  ASSERT_TRUE(world.engine().cancel(moves));
  EXPECT_EQ(world.wait(moves, 10s).outcome, Outcome::Cancelled);
  EXPECT_EQ(host_of("demo-1"), home);
}

TEST_F(MovesAtSafePoints, AMaredThatIsKilledMeanwhileLooksAgain) {
  const JobId id = submit_with("8", plan(Seconds{1}));
  play_to(id, 500ms);
  const OperationId moves = move(request_of(Seconds{20}, Strategy::StopAndCopy));
  ASSERT_TRUE(reaches(moves, "Reserved"));
  world.play(1s);
  world.kill_mared();
  world.play(500ms);
  world.start_mared();
  EXPECT_EQ(world.wait(moves).outcome, Outcome::Succeeded) << world.operation(moves).reason;
  EXPECT_THAT(began_with(moves, "PreCopying"), HasSubstr("; at a safe point, after "));
  expect_right_result(id);
}

TEST_F(MovesAtSafePoints, AWrongBoundIsRefused) {
  for (const double wait_s : {0.5, 31.0}) {
    auto refused = world.engine().submit(request_of(Seconds{wait_s}));
    ASSERT_FALSE(refused) << wait_s;
    EXPECT_EQ(refused.error().field, "within_s");
  }
}

TEST_F(SafePoints, AWrongBoundIsRefused) {
  for (const double wait_s : {0.0, 0.005, 61.0}) {
    engine::JobSubmitRequest request;
    request.pool = PoolId{"demo"};
    request.command = {"solver"};
    request.checkpoints = plan(Seconds{wait_s});
    auto refused = world.engine().submit(request);
    ASSERT_FALSE(refused) << wait_s;
    EXPECT_EQ(refused.error().field, "safe_point_wait_s");
  }
}

}  // namespace
}  // namespace mare::test
