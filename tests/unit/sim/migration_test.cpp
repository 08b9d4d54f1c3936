// Simulated live migration: its rounds, its ends, and everything that can break it.
#include <algorithm>

#include "tests/unit/sim/fixture.h"

namespace mare::sim {
namespace {

class Migration : public SimTest {
 protected:
  void start(Bytes memory = mebibytes(128)) {
    vm = spec(0, memory);
    ASSERT_TRUE(one->start(vm));
    clock.advance(10s);
  }
  OutgoingStatus progress() {
    auto status = one->outgoing(vm.key());
    EXPECT_TRUE(status.ok());
    return status ? *status : OutgoingStatus{};
  }
  /// Lets time pass until the source pauses the VM for the last round.
  void run_to_switch() {
    for (int i = 0; i < 100'000 && progress().phase == OutgoingPhase::PreCopying; ++i) {
      clock.advance(1ms);
    }
    ASSERT_EQ(progress().phase, OutgoingPhase::Switching);
  }

  VmSpec vm;
};

TEST_F(Migration, RunsInRoundsAndEndsAtTheDestination) {
  start();
  cluster.set_migration_model({.downtime_limit = 50ms});
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_EQ(at(*two, vm), Copy::Incoming);
  EXPECT_TRUE(one->observe(vm.key())->sending);
  EXPECT_FALSE(two->observe(vm.key())->sending);
  // 128 MiB at 125 MB/s: 1.07 s; then min(8 MB/s * 1.07 s, 16 MiB) = 8.6 MB: 69 ms, over the limit
  // of 50 ms; then 0.55 MB: 4.4 ms, within it.
  clock.advance(1s);
  EXPECT_EQ(progress().phase, OutgoingPhase::PreCopying);
  EXPECT_EQ(progress().operation, OperationId{"op-1"});
  EXPECT_NEAR(static_cast<double>(progress().transferred.count), 125e6, 1e4);
  clock.advance(1s);
  const auto done = progress();
  EXPECT_EQ(done.phase, OutgoingPhase::Completed);
  ASSERT_EQ(done.rounds.size(), 3U);
  EXPECT_EQ(done.rounds[0].sent, mebibytes(128));
  EXPECT_NEAR(static_cast<double>(done.rounds[1].sent.count), 8.6e6, 1e5);
  EXPECT_NEAR(static_cast<double>(done.rounds[2].sent.count), 0.55e6, 1e4);
  EXPECT_GT(done.paused_at, WallTime{0});
  EXPECT_EQ(at(*one, vm), Copy::Absent);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  EXPECT_TRUE(cluster.endings().empty());
  auto arrival = two->arrival(vm.key());
  ASSERT_TRUE(arrival);
  // 4.4 ms of sending and 5 ms of device state.
  EXPECT_NEAR(static_cast<double>(arrival->downtime->count()), 9400, 100);
  EXPECT_GT(arrival->resumed_at, done.paused_at);
  EXPECT_EQ(arrival->announced_at, arrival->resumed_at);
  EXPECT_EQ(arrival->announcements, 5);
}

TEST_F(Migration, AWritableWorkingSetCapsARound) {
  start();
  ASSERT_TRUE(cluster.set_dirtying(vm.id, 1e12, mebibytes(32)));
  cluster.set_migration_model({.downtime_limit = 1ms, .max_rounds = 6});
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(60s);
  const auto done = progress();
  // Six rounds that never converge, and the last one.
  ASSERT_EQ(done.rounds.size(), 7U);
  for (std::size_t i = 1; i < done.rounds.size(); ++i) {
    EXPECT_EQ(done.rounds[i].sent, mebibytes(32));
  }
  EXPECT_EQ(done.phase, OutgoingPhase::Completed);
}

TEST_F(Migration, LimitsAndLinksSetTheRate) {
  start();
  ASSERT_TRUE(cluster.set_link(h1, h2, BytesPerSecond{10e6}));
  auto limited = ticket(vm, "op-1");
  limited.bandwidth_limit = BytesPerSecond{5e6};
  ASSERT_TRUE(send(*one, *two, limited));
  clock.advance(2s);
  EXPECT_NEAR(static_cast<double>(progress().transferred.count), 10e6, 1e3);
  ASSERT_TRUE(cluster.set_link(h1, h2, BytesPerSecond{1e6}));
  clock.advance(2s);
  EXPECT_NEAR(static_cast<double>(progress().transferred.count), 12e6, 1e3);
}

TEST_F(Migration, TwoAtOnceShareTheUplink) {
  start();
  ASSERT_TRUE(one->start(spec(1)));
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  ASSERT_TRUE(send(*one, *two, ticket(spec(1), "op-2")));
  clock.advance(1s);
  EXPECT_NEAR(static_cast<double>(progress().transferred.count), 62.5e6, 1e3);
}

TEST_F(Migration, BeginIsIdempotentForItsOperationOnly) {
  start();
  auto endpoint = two->prepare_incoming(ticket(vm, "op-1"));
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(at(*two, vm), Copy::Absent);
  ASSERT_TRUE(one->begin_outgoing(ticket(vm, "op-1"), *endpoint));
  EXPECT_TRUE(one->begin_outgoing(ticket(vm, "op-1"), *endpoint));
  EXPECT_TRUE(two->prepare_incoming(ticket(vm, "op-1")));
  EXPECT_EQ(one->begin_outgoing(ticket(vm, "op-2"), *endpoint).error().code, Code::Conflict);
  EXPECT_EQ(one->begin_outgoing(ticket(spec(5), "op-3"), *endpoint).error().code, Code::NotFound);
}

TEST_F(Migration, ADestinationThatDoesNotExpectItRefuses) {
  start();
  auto endpoint = two->prepare_incoming(ticket(vm, "op-1"));
  ASSERT_TRUE(endpoint);
  ASSERT_TRUE(two->discard_incoming(vm.key()));
  // A call that was under way when its operation was given up must not move the VM.
  ASSERT_TRUE(one->begin_outgoing(ticket(vm, "op-1"), *endpoint));
  EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
  EXPECT_NE(progress().error.find("does not expect"), std::string::npos);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_EQ(at(*two, vm), Copy::Absent);
}

TEST_F(Migration, ADestinationWithoutRoomRefuses) {
  start();
  ASSERT_TRUE(cluster.add_host(HostId{"small"}, {.memory = mebibytes(100)}));
  auto small = make_sim_driver(cluster, HostId{"small"});
  EXPECT_EQ(small->prepare_incoming(ticket(vm, "op-1")).error().code, Code::ResourceExhausted);
}

TEST_F(Migration, AHostThatCannotSaysWhy) {
  start();
  HostModel old;
  old.live_migration_refused = "QEMU is too old";
  ASSERT_TRUE(cluster.add_host(HostId{"old"}, old));
  auto driver = make_sim_driver(cluster, HostId{"old"});
  EXPECT_FALSE(driver->facts()->live_migration);
  const auto refused = driver->prepare_incoming(ticket(vm, "op-1"));
  EXPECT_EQ(refused.error().code, Code::Unsupported);
  EXPECT_EQ(refused.error().message, "QEMU is too old");
}

TEST_F(Migration, CancelLeavesOneCopyAtTheSource) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(500ms);
  ASSERT_TRUE(one->cancel_outgoing(vm.key()));
  ASSERT_TRUE(one->cancel_outgoing(vm.key()));
  EXPECT_EQ(progress().phase, OutgoingPhase::Cancelled);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_EQ(at(*two, vm), Copy::Absent);
  // And it can be tried again.
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-2")));
  clock.advance(60s);
  EXPECT_EQ(at(*two, vm), Copy::Running);
}

TEST_F(Migration, ACancelInTheSwitchCanLoseOrWin) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  run_to_switch();
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  EXPECT_TRUE(one->observe(vm.key())->sending);
  ASSERT_TRUE(one->cancel_outgoing(vm.key()));
  clock.advance(1s);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  cluster.set_migration_model({.cancel_wins_in_switch = 1});
  ASSERT_TRUE(send(*two, *one, ticket(vm, "op-2")));
  while (cluster.copy_on(h2, vm.id) == Copy::Running) clock.advance(1ms);
  ASSERT_TRUE(two->cancel_outgoing(vm.key()));
  EXPECT_EQ(at(*two, vm), Copy::Running);
  EXPECT_EQ(at(*one, vm), Copy::Absent);
}

TEST_F(Migration, TheVmCannotBePausedOrResumedMeanwhile) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  EXPECT_EQ(one->pause(vm.key()).error().code, Code::FailedPrecondition);
  EXPECT_EQ(two->resume(vm.key()).error().code, Code::FailedPrecondition);
  run_to_switch();
  EXPECT_EQ(one->resume(vm.key()).error().code, Code::FailedPrecondition);
}

TEST_F(Migration, DiscardEndsAHalfReceivedCopyButNeverARunningOne) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(500ms);
  ASSERT_TRUE(two->discard_incoming(vm.key()));
  EXPECT_EQ(at(*two, vm), Copy::Absent);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-2")));
  clock.advance(60s);
  ASSERT_TRUE(two->discard_incoming(vm.key()));
  EXPECT_EQ(at(*two, vm), Copy::Running);
}

TEST_F(Migration, TheDestinationRunsAMomentBeforeTheSourceIsGone) {
  start();
  cluster.set_migration_model({.handover = 100ms});
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  while (cluster.copy_on(h2, vm.id) != Copy::Running) clock.advance(1ms);
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  EXPECT_TRUE(one->observe(vm.key())->sending);
  EXPECT_EQ(one->resume(vm.key()).error().code, Code::FailedPrecondition);
  clock.advance(100ms);
  EXPECT_EQ(at(*one, vm), Copy::Absent);
}

TEST_F(Migration, BreaksBeforeTheSwitchLeaveTheSourceRunning) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(500ms);
  ASSERT_TRUE(cluster.break_migration(vm.id));
  EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_EQ(at(*two, vm), Copy::Absent);
  EXPECT_EQ(cluster.break_migration(vm.id).error().code, Code::NotFound);
}

struct SwitchCase {
  BrokenSwitch outcome;
  Copy source;
  Copy destination;
};
class Broken : public Migration, public ::testing::WithParamInterface<SwitchCase> {};

TEST_P(Broken, SwitchLeavesExactlyWhatItSays) {
  const auto expected = GetParam();
  start();
  cluster.break_next_switch(vm.id, expected.outcome);
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(60s);
  EXPECT_EQ(at(*one, vm), expected.source);
  EXPECT_EQ(at(*two, vm), expected.destination);
  EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
  EXPECT_FALSE(one->observe(vm.key())->sending);
  // The safe way out: the copy that has not run goes first.
  ASSERT_TRUE(two->discard_incoming(vm.key()));
  const bool moved = expected.destination == Copy::Running;
  EXPECT_EQ(at(*two, vm), moved ? Copy::Running : Copy::Absent);
  if (moved) {
    ASSERT_TRUE(one->destroy(vm.key()));
  } else {
    ASSERT_TRUE(one->resume(vm.key()));
  }
  EXPECT_EQ(cluster.running_on(vm.id), moved ? h2 : h1);
  EXPECT_TRUE(cluster.endings().empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, Broken,
    ::testing::Values(SwitchCase{BrokenSwitch::SourceResumed, Copy::Running, Copy::Absent},
                      SwitchCase{BrokenSwitch::SourcePaused, Copy::Paused, Copy::Absent},
                      SwitchCase{BrokenSwitch::BothWait, Copy::Paused, Copy::Incoming},
                      SwitchCase{BrokenSwitch::BothPaused, Copy::Paused, Copy::Paused},
                      SwitchCase{BrokenSwitch::HandedOver, Copy::Paused, Copy::Running},
                      SwitchCase{BrokenSwitch::CompletedUnsaid, Copy::Absent, Copy::Running}),
    [](const auto& param) {
      std::string name(to_string(param.param.outcome));
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST_F(Migration, ARestartedAgentKnowsThatItSendsButNotForWhom) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(300ms);
  ASSERT_TRUE(cluster.restart_agent(h1, 200ms));
  EXPECT_FALSE(one->outgoing(vm.key()));
  clock.advance(300ms);
  EXPECT_TRUE(one->observe(vm.key())->sending);
  EXPECT_EQ(progress().phase, OutgoingPhase::PreCopying);
  EXPECT_TRUE(progress().operation.empty());
  clock.advance(60s);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  ASSERT_TRUE(cluster.restart_agent(h1, 0s));
  EXPECT_EQ(progress().phase, OutgoingPhase::None);
}

TEST_F(Migration, ARestartedDestinationAgentDoesNotAnnounceUntilTold) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  ASSERT_TRUE(cluster.restart_agent(h2, 100ms));
  clock.advance(60s);
  EXPECT_EQ(two->arrival(vm.key())->announcements, 0);
  EXPECT_EQ(two->arrival(vm.key())->announced_at, WallTime{0});
  ASSERT_TRUE(two->announce(vm));
  EXPECT_EQ(two->arrival(vm.key())->announcements, 1);
}

TEST_F(Migration, ADeadSourceTakesTheHalfReceivedCopyAlong) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(300ms);
  ASSERT_TRUE(cluster.kill_host(h1));
  EXPECT_EQ(at(*two, vm), Copy::Absent);
  ASSERT_EQ(cluster.endings().size(), 1U);
}

TEST_F(Migration, ADeadDestinationLeavesTheSourceRunning) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(300ms);
  ASSERT_TRUE(cluster.kill_host(h2));
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
  EXPECT_TRUE(cluster.endings().empty());
}

TEST_F(Migration, ACutBreaksItAndASilenceDoesNot) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  ASSERT_TRUE(cluster.silence_host(h1, 500ms));
  clock.advance(600ms);
  EXPECT_EQ(progress().phase, OutgoingPhase::PreCopying);
  ASSERT_TRUE(cluster.cut_host(h2, 500ms));
  EXPECT_EQ(progress().phase, OutgoingPhase::Failed);
  EXPECT_EQ(at(*one, vm), Copy::Running);
}

TEST_F(Migration, DestroyAtTheSourceEndsBothCopies) {
  start();
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  clock.advance(300ms);
  ASSERT_TRUE(one->destroy(vm.key()));
  EXPECT_TRUE(cluster.copies().empty());
}

TEST_F(Migration, AJobGoesOnAcrossTheMove) {
  start();
  GuestRun program{JobId{"job-1"}, "/jobs/job-1", {"prog", "--sim-work=5"}, {}};
  ASSERT_TRUE(guests.run(address(vm), program));
  ASSERT_TRUE(send(*one, *two, ticket(vm, "op-1")));
  // 5 s of work and a downtime of some tens of ms.
  clock.advance(5s);
  EXPECT_EQ(guests.run_status(address(vm), program)->phase, RunPhase::Running);
  clock.advance(200ms);
  EXPECT_EQ(guests.run_status(address(vm), program)->exit_code, 0);
  EXPECT_EQ(at(*two, vm), Copy::Running);
}

/// Whatever the moment of any fault, and whoever is asked to clean up: never two running copies.
TEST(MigrationChaos, NeverRunsTwice) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    ManualClock clock;
    SeededRng rng(seed);
    SimCluster cluster(clock, rng);
    const HostId hosts[] = {HostId{"a"}, HostId{"b"}};
    std::unique_ptr<Driver> drivers[2];
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(cluster.add_host(hosts[i]));
      drivers[i] = make_sim_driver(cluster, hosts[i]);
    }
    cluster.set_migration_model({.downtime_limit = 50ms, .cancel_wins_in_switch = 0.5});
    VmSpec vm;
    vm.id = VmId{"x-0"};
    vm.uuid = "u";
    vm.memory = mebibytes(64);
    ASSERT_TRUE(drivers[0]->start(vm));
    MigrationTicket ticket{OperationId{"op"}, vm, {}, {}, {}};
    ticket.sending.strategy = static_cast<Strategy>(seed % (kStrategies - 1));
    ticket.sending.rate_min = ticket.sending.rate_max = BytesPerSecond{50e6};
    ASSERT_TRUE(drivers[0]->begin_outgoing(ticket, *drivers[1]->prepare_incoming(ticket)));
    cluster.set_faults({.call_unanswered = 0.2, .switch_breaks = 0.5, .post_copy_breaks = 0.3});
    for (int i = 0; i < 100; ++i) {
      clock.advance(std::chrono::microseconds{rng.below(20'000)});
      switch (rng.below(40)) {
        case 0:
          static_cast<void>(cluster.kill_host(hosts[rng.below(2)]));
          break;
        case 1:
          static_cast<void>(cluster.cut_host(hosts[rng.below(2)], 10ms));
          break;
        case 2:
          static_cast<void>(drivers[0]->cancel_outgoing(vm.key()));
          break;
        case 3:
          static_cast<void>(cluster.restart_agent(hosts[rng.below(2)], 5ms));
          break;
        case 4:
          static_cast<void>(drivers[1]->discard_incoming(vm.key()));
          break;
        case 5:
          static_cast<void>(cluster.boot_host(hosts[rng.below(2)]));
          break;
        case 6:
          if (auto endpoint = drivers[1]->prepare_incoming(ticket)) {
            static_cast<void>(drivers[0]->begin_outgoing(ticket, *endpoint));
          }
          break;
        case 7:
          // After a plain switch only who saw both hosts may do this; after post-copy nobody can.
          if (ticket.sending.strategy == Strategy::PostCopy) {
            static_cast<void>(drivers[rng.below(2)]->resume(vm.key()));
          }
          break;
        default:
          break;
      }
      const auto violations = cluster.check_invariants();
      ASSERT_TRUE(violations.empty()) << "seed " << seed << ": " << violations[0].what;
    }
  }
}

}  // namespace
}  // namespace mare::sim
