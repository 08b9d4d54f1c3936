// The strategies of simulated migration: what each costs, and what post-copy can't take back.
#include <algorithm>

#include "tests/unit/sim/fixture.h"

namespace mare::sim {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

class Strategies : public SimTest {
 protected:
  Strategies() { cluster.set_migration_model({.downtime_limit = 50ms}); }

  void start(double dirty_bytes_per_s, Bytes wws) {
    vm = spec(0, mebibytes(128));
    cluster.set_vm_model({.dirty_bytes_per_s = dirty_bytes_per_s, .wws = wws});
    ASSERT_TRUE(one->start(vm));
    clock.advance(10s);
  }
  MigrationTicket with(Strategy strategy, const std::string& operation = "op-1") {
    auto made = ticket(vm, operation);
    made.sending.strategy = strategy;
    return made;
  }
  OutgoingStatus progress() {
    auto status = one->outgoing(vm.key());
    EXPECT_TRUE(status.ok());
    return status ? *status : OutgoingStatus{};
  }
  void run_to(OutgoingPhase phase) {
    for (int i = 0; i < 100'000 && progress().phase != phase; ++i) clock.advance(1ms);
    ASSERT_EQ(progress().phase, phase);
  }
  double downtime_ms() {
    auto report = two->arrival(vm.key());
    return report && report->downtime ? static_cast<double>(report->downtime->count()) / 1e3 : -1;
  }
  /// Until its end; what the source says of it then.
  OutgoingStatus whole(const MigrationTicket& what) {
    EXPECT_TRUE(send(*one, *two, what));
    for (int i = 0; i < 100'000; ++i) {
      const auto status = progress();
      const bool over =
          status.phase == OutgoingPhase::Completed || status.phase == OutgoingPhase::Failed;
      if (over) return status;
      clock.advance(5ms);
    }
    ADD_FAILURE() << "it does not end";
    return progress();
  }
  /// A migration by pre-copy of a guest that writes 8 MB/s, which holds its switch.
  MigrationTicket holding() {
    start(8e6, mebibytes(16));
    auto out = with(Strategy::PreCopy);
    out.holds_switch = true;
    EXPECT_TRUE(send(*one, *two, out));
    return out;
  }
  void post_copy_to_its_middle() {
    start(8e6, mebibytes(16));
    ASSERT_TRUE(send(*one, *two, with(Strategy::PostCopy)));
    run_to(OutgoingPhase::PostCopying);
    clock.advance(300ms);
    ASSERT_EQ(progress().phase, OutgoingPhase::PostCopying);
  }

  VmSpec vm;
};

TEST_F(Strategies, AreOfferedAndAHostThatIsTooOldOffersOne) {
  EXPECT_EQ(one->facts()->strategies.size(), static_cast<std::size_t>(kStrategies - 1));
  HostModel old;
  old.live_migration_refused = "too old";
  ASSERT_TRUE(cluster.add_host(HostId{"old"}, old));
  EXPECT_EQ(make_sim_driver(cluster, HostId{"old"})->facts()->strategies,
            std::vector<Strategy>{Strategy::StopAndCopy});
}

TEST_F(Strategies, StopAndCopySendsAllOfItInOneRoundWhileTheVmStands) {
  start(1e9, mebibytes(64));
  ASSERT_TRUE(send(*one, *two, with(Strategy::StopAndCopy)));
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  EXPECT_EQ(progress().phase, OutgoingPhase::Switching);
  clock.advance(60s);
  const auto done = progress();
  ASSERT_EQ(done.phase, OutgoingPhase::Completed);
  ASSERT_EQ(done.rounds.size(), 1U);
  EXPECT_EQ(done.rounds[0].sent, mebibytes(128));
  // 128 MiB at 125 MB/s, and 5 ms for the devices.
  EXPECT_NEAR(downtime_ms(), 1073.7 + 5, 1);
}

TEST_F(Strategies, CompressionSendsLess) {
  start(8e6, mebibytes(16));
  const auto done = whole(with(Strategy::Compressed));
  ASSERT_EQ(done.phase, OutgoingPhase::Completed);
  EXPECT_NEAR(static_cast<double>(done.rounds[0].sent.count), 0.4 * 128 * kMib, 10);
  EXPECT_LT(done.transferred, mebibytes(60));
  EXPECT_LT(done.elapsed, Milliseconds{600});
}

TEST_F(Strategies, AThrottledGuestConvergesWhereAnotherDoesNot) {
  // It dirties at the link's rate: each round is as long as the one before.
  start(130e6, mebibytes(100));
  const auto plain = whole(with(Strategy::PreCopy, "op-1"));
  EXPECT_GT(plain.rounds.size(), 25U) << "only the limit of rounds ended it";
  ASSERT_EQ(plain.phase, OutgoingPhase::Completed);
  std::swap(one, two);
  auto throttled = with(Strategy::Throttled, "op-2");
  throttled.sending.throttle_initial_percent = 40;
  throttled.sending.throttle_step_percent = 20;
  const auto done = whole(throttled);
  ASSERT_EQ(done.phase, OutgoingPhase::Completed);
  EXPECT_LT(done.rounds.size(), 12U);
  EXPECT_LT(done.rounds.back().dirty_bytes_per_s, 80e6);
  // Afterwards it is as fast as ever.
  const auto before = two->statistics(vm.key())->cpu_time;
  clock.advance(1s);
  EXPECT_EQ(two->statistics(vm.key())->cpu_time - before, Microseconds{1'000'000});
}

TEST_F(Strategies, RateControlBeginsSlowAndGrowsByTheDirtyRate) {
  start(10e6, mebibytes(128));
  auto slow = with(Strategy::RateControlled);
  slow.sending.rate_min = BytesPerSecond{20e6};
  slow.sending.rate_max = BytesPerSecond{100e6};
  slow.downtime_limit = Milliseconds{20};
  ASSERT_TRUE(send(*one, *two, slow));
  clock.advance(1s);
  EXPECT_NEAR(static_cast<double>(progress().transferred.count), 20e6, 1e4);
  const auto done = whole(slow);
  ASSERT_GE(done.rounds.size(), 3U);
  const auto rate = [&](std::size_t i) {
    return static_cast<double>(done.rounds[i].sent.count) /
           std::chrono::duration<double>(done.rounds[i].duration).count();
  };
  EXPECT_NEAR(rate(0), 20e6, 1e4);
  // V_1 = V_0 + dirtied / duration.
  EXPECT_NEAR(rate(1), 30e6, 1e5);
  EXPECT_NEAR(rate(done.rounds.size() - 1), 125e6, 1e6) << "the last round has no limit";
}

TEST_F(Strategies, PostCopyRunsThereAtOnceAndFetchesTheRest) {
  start(1e9, mebibytes(64));
  ASSERT_TRUE(send(*one, *two, with(Strategy::PostCopy)));
  run_to(OutgoingPhase::PostCopying);
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  EXPECT_TRUE(one->observe(vm.key())->sending);
  EXPECT_NEAR(downtime_ms(), 5, 0.1);
  EXPECT_FALSE(two->arrival(vm.key())->total_time);
  EXPECT_EQ(one->resume(vm.key()).error().code, Code::FailedPrecondition);
  EXPECT_EQ(two->pause(vm.key()).error().code, Code::FailedPrecondition);
  EXPECT_FALSE(two->save(vm.key(), "/f").ok());
  // It waits for its working set, and is slow until that is there: 64 MiB at 125 MB/s.
  const auto before = two->statistics(vm.key())->cpu_time;
  clock.advance(500ms);
  EXPECT_LT(two->statistics(vm.key())->cpu_time - before, Microseconds{200'000});
  clock.advance(60s);
  const auto done = progress();
  EXPECT_EQ(done.phase, OutgoingPhase::Completed);
  EXPECT_NEAR(static_cast<double>(done.transferred.count), 128 * kMib, 10);
  EXPECT_EQ(at(*one, vm), Copy::Absent);
  ASSERT_TRUE(two->arrival(vm.key())->total_time);
  EXPECT_TRUE(cluster.endings().empty());
}

TEST_F(Strategies, HybridSwitchesAfterItsRounds) {
  start(60e6, mebibytes(100));
  auto hybrid = with(Strategy::Hybrid);
  hybrid.sending.pre_copy_rounds = 2;
  ASSERT_TRUE(send(*one, *two, hybrid));
  run_to(OutgoingPhase::PostCopying);
  EXPECT_EQ(progress().rounds.size(), 2U);
  clock.advance(60s);
  const auto done = progress();
  EXPECT_EQ(done.phase, OutgoingPhase::Completed);
  ASSERT_EQ(done.rounds.size(), 3U);
  EXPECT_EQ(done.rounds[1].remaining, done.rounds[2].sent);
}

TEST_F(Strategies, AChosenDowntimeLimitGivesWay) {
  start(100e6, mebibytes(100));
  cluster.set_migration_model({.downtime_limit = 1ms, .max_rounds = 1'000'000});
  auto chosen = with(Strategy::PreCopy);
  chosen.sending.later_downtime_limit = Milliseconds{500};
  const auto done = whole(chosen);
  EXPECT_EQ(done.phase, OutgoingPhase::Completed);
  EXPECT_EQ(done.rounds.size(), static_cast<std::size_t>(kRoundsWithFirstLimit) + 1);
}

TEST_F(Strategies, OneThatHoldsItsSwitchWaitsForItsRelease) {
  holding();
  clock.advance(500ms);
  EXPECT_FALSE(progress().holds) << "the first round still goes";
  clock.advance(5s);
  EXPECT_EQ(progress().phase, OutgoingPhase::PreCopying);
  EXPECT_TRUE(progress().holds);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  ASSERT_TRUE(one->release_outgoing(vm.key()));
  EXPECT_FALSE(progress().holds);
  clock.advance(200ms);
  EXPECT_EQ(progress().phase, OutgoingPhase::Completed);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  // What it wrote while it held was sent all along.
  EXPECT_LT(downtime_ms(), 50);
  EXPECT_TRUE(one->release_outgoing(vm.key())) << "nothing holds any more";
}

TEST_F(Strategies, NobodysSilenceHoldsASwitchForEver) {
  holding();
  clock.advance(25s);
  EXPECT_TRUE(progress().holds);
  clock.advance(10s);
  EXPECT_EQ(progress().phase, OutgoingPhase::Completed);
}

TEST_F(Strategies, OneThatIsReleasedBeforeItHoldsNeverDoes) {
  holding();
  ASSERT_TRUE(one->release_outgoing(vm.key()));
  clock.advance(3s);
  EXPECT_EQ(progress().phase, OutgoingPhase::Completed);
}

TEST_F(Strategies, OneThatHoldsCanBeCancelledForcedAndBroken) {
  auto again = holding();
  clock.advance(5s);
  ASSERT_TRUE(progress().holds);
  ASSERT_TRUE(one->cancel_outgoing(vm.key()));
  EXPECT_EQ(progress().phase, OutgoingPhase::Cancelled);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  again.operation = OperationId{"op-2"};
  ASSERT_TRUE(send(*one, *two, again));
  clock.advance(5s);
  ASSERT_TRUE(cluster.break_migration(vm.id));
  EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  again.operation = OperationId{"op-3"};
  ASSERT_TRUE(send(*one, *two, again));
  clock.advance(5s);
  ASSERT_TRUE(one->force_outgoing(vm.key(), LimitAction::StopAndCopy));
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  clock.advance(1s);
  EXPECT_EQ(at(*two, vm), Copy::Running);
}

TEST_F(Strategies, WhatEndsInPostCopyOrStandsStillHoldsNothing) {
  for (const auto strategy : {Strategy::StopAndCopy, Strategy::PostCopy, Strategy::Hybrid}) {
    SCOPED_TRACE(std::string(to_string(strategy)));
    EXPECT_FALSE(holds_its_switch(strategy));
    start(8e6, mebibytes(16));
    auto holding = with(strategy, "op-" + std::string(to_string(strategy)));
    holding.holds_switch = true;
    EXPECT_EQ(whole(holding).phase, OutgoingPhase::Completed);
    ASSERT_TRUE(two->destroy(vm.key()));
  }
}

TEST_F(Strategies, AnEndlessMigrationIsForcedToItsEnd) {
  start(1e9, mebibytes(100));
  cluster.set_migration_model({.downtime_limit = 1ms, .max_rounds = 1'000'000});
  auto plain = with(Strategy::PreCopy);
  ASSERT_TRUE(send(*one, *two, plain));
  clock.advance(20s);
  ASSERT_EQ(progress().phase, OutgoingPhase::PreCopying);
  EXPECT_EQ(one->force_outgoing(vm.key(), LimitAction::PostCopy).error().code,
            Code::FailedPrecondition);
  ASSERT_TRUE(one->force_outgoing(vm.key(), LimitAction::StopAndCopy));
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  clock.advance(5s);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  auto allowed = with(Strategy::PreCopy, "op-2");
  allowed.sending.allow_post_copy = true;
  ASSERT_TRUE(send(*two, *one, allowed));
  clock.advance(20s);
  ASSERT_TRUE(two->force_outgoing(vm.key(), LimitAction::PostCopy));
  ASSERT_TRUE(two->force_outgoing(vm.key(), LimitAction::PostCopy));
  clock.advance(5s);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_EQ(at(*two, vm), Copy::Absent);
  EXPECT_EQ(one->force_outgoing(vm.key(), LimitAction::PostCopy).error().code, Code::NotFound);
}

TEST_F(Strategies, ACancelInPostCopyDoesNothing) {
  post_copy_to_its_middle();
  ASSERT_TRUE(one->cancel_outgoing(vm.key()));
  EXPECT_EQ(progress().phase, OutgoingPhase::PostCopying);
  clock.advance(60s);
  EXPECT_EQ(at(*two, vm), Copy::Running);
}

TEST_F(Strategies, ACutInPostCopyStopsTheVmUntilItIsMended) {
  post_copy_to_its_middle();
  ASSERT_TRUE(cluster.cut_host(h1, 5s));
  EXPECT_EQ(at(*two, vm), Copy::Paused);
  EXPECT_FALSE(two->resume(vm.key()).ok());
  clock.advance(4s);
  EXPECT_EQ(cluster.copy_on(h1, vm.id), Copy::Paused);
  clock.advance(2s);
  // The link is back, and nothing goes on by itself.
  EXPECT_EQ(progress().phase, OutgoingPhase::PostCopying);
  EXPECT_FALSE(progress().error.empty());
  EXPECT_TRUE(one->observe(vm.key())->sending);
  const auto before = progress().transferred;
  ASSERT_TRUE(send(*one, *two, with(Strategy::PostCopy)));
  EXPECT_EQ(at(*two, vm), Copy::Running);
  EXPECT_TRUE(progress().error.empty());
  EXPECT_EQ(progress().transferred, before);
  clock.advance(60s);
  EXPECT_EQ(progress().phase, OutgoingPhase::Completed);
  EXPECT_TRUE(cluster.endings().empty());
}

TEST_F(Strategies, WhileTheLinkIsCutNothingIsMended) {
  post_copy_to_its_middle();
  ASSERT_TRUE(cluster.cut_host(h2, 5s));
  auto endpoint = IncomingEndpoint{"sim://h2"};
  ASSERT_TRUE(one->begin_outgoing(with(Strategy::PostCopy), endpoint));
  EXPECT_EQ(cluster.copy_on(h2, vm.id), Copy::Paused);
  EXPECT_FALSE(progress().error.empty());
}

TEST_F(Strategies, ARestartedAgentMendsWhatItDidNotBegin) {
  post_copy_to_its_middle();
  ASSERT_TRUE(cluster.break_migration(vm.id));
  ASSERT_TRUE(cluster.restart_agent(h1, 100ms));
  clock.advance(200ms);
  EXPECT_EQ(progress().phase, OutgoingPhase::PostCopying);
  EXPECT_FALSE(progress().error.empty());
  ASSERT_TRUE(send(*one, *two, with(Strategy::PostCopy)));
  clock.advance(60s);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  EXPECT_EQ(at(*one, vm), Copy::Absent);
}

TEST_F(Strategies, ALostSourceIsALostVm) {
  post_copy_to_its_middle();
  ASSERT_TRUE(cluster.kill_host(h1));
  EXPECT_EQ(at(*two, vm), Copy::Paused);
  EXPECT_EQ(two->resume(vm.key()).error().code, Code::FailedPrecondition);
  EXPECT_TRUE(cluster.endings().empty()) << "half of it is still there";
  ASSERT_TRUE(two->destroy(vm.key()));
  ASSERT_EQ(cluster.endings().size(), 1U);
  EXPECT_EQ(cluster.endings()[0].cause, EndCause::PagesLost);
}

TEST_F(Strategies, ALostDestinationIsALostVmThoughTheSourceIsThere) {
  post_copy_to_its_middle();
  ASSERT_TRUE(cluster.kill_host(h2));
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  EXPECT_EQ(one->resume(vm.key()).error().code, Code::FailedPrecondition) << "what it has is old";
  ASSERT_TRUE(one->destroy(vm.key()));
  ASSERT_EQ(cluster.endings().size(), 1U);
  EXPECT_EQ(cluster.endings()[0].cause, EndCause::PagesLost);
}

TEST_F(Strategies, ASwitchToPostCopyThatBreaksLeavesTheSourceWhole) {
  for (int outcome = 0; outcome < kBrokenSwitches; ++outcome) {
    SCOPED_TRACE(outcome);
    vm = spec(outcome, mebibytes(64));
    ASSERT_TRUE(one->start(vm));
    cluster.break_next_switch(vm.id, static_cast<BrokenSwitch>(outcome));
    ASSERT_TRUE(send(*one, *two, with(Strategy::PostCopy)));
    clock.advance(5s);
    EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
    EXPECT_NE(at(*two, vm), Copy::Running);
    ASSERT_TRUE(two->discard_incoming(vm.key()));
    ASSERT_TRUE(one->resume(vm.key()));
    EXPECT_EQ(cluster.running_on(vm.id), h1);
  }
}

TEST_F(Strategies, AnEndedMigrationIsNotBegunAgain) {
  start(8e6, mebibytes(16));
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(300ms);
  ASSERT_TRUE(one->cancel_outgoing(vm.key()));
  EXPECT_TRUE(one->begin_outgoing(ticket(vm, "op-1"), {"sim://h2"}));
  EXPECT_EQ(progress().phase, OutgoingPhase::Cancelled);
  EXPECT_EQ(at(*two, vm), Copy::Absent);
}

}  // namespace
}  // namespace mare::sim
