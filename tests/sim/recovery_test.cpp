// A job comes back by itself: hosts that die, are cut off, hang, freeze and thaw, VMs that end, a
// mared that is killed in the middle, and a second failure on top. The invariants (no two copies,
// one checkpoint, no restart before a lease is over) are checked after every step.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/sim/recovery_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Recovery = RecoveryWorld;

TEST_F(Recovery, OfAHostThatDied) {
  const HostId dead = host_of("demo-1");
  ASSERT_TRUE(world.cluster.kill_host(dead));
  ASSERT_TRUE(is_back());
  for (const auto& id : job(first).vms) EXPECT_NE(host_of(id.value), dead);
  EXPECT_EQ(row_of(dead).fence, HostFence::Over);
  expect_right_result(first);
  ASSERT_EQ(recoveries().size(), 1U);
  EXPECT_EQ(recoveries()[0].outcome, Outcome::Succeeded);
  EXPECT_EQ(recoveries()[0].parent, run_of(first).id);
}

TEST_F(Recovery, WaitsForTheLeaseAndNoLongerThanItMust) {
  const HostId dead = host_of("demo-2");
  ASSERT_TRUE(world.cluster.kill_host(dead));
  EXPECT_TRUE(world.play_while_not([&] { return row_of(dead).fence == HostFence::Begun; }, 1min));
  const auto began = world.clock.now();
  EXPECT_TRUE(world.play_while_not([&] { return row_of(dead).fence == HostFence::Over; }, 1min));
  const auto waited = world.clock.now() - began;
  EXPECT_GE(waited, 10900ms) << "term and margin, but for the step of this loop";
  EXPECT_LT(waited, 14s);
  expect_right_result(first);
}

TEST_F(Recovery, SilenceIsNoticedWithinItsHeartbeatsHoweverLongACallHangs) {
  const HostId cut = host_of("demo-1");
  world.executor.slow_next("beat/" + cut.value, 40s);
  ASSERT_TRUE(world.cluster.cut_host(cut, 90s));
  const auto began = world.clock.now();
  EXPECT_TRUE(world.play_while_not([&] { return row_of(cut).health == HostHealth::Down; }, 1min));
  // Three heartbeats of 3 s, looked at four times in each.
  EXPECT_GE(world.clock.now() - began, 5900ms);
  EXPECT_LE(world.clock.now() - began, 10s);
  expect_right_result(first);
}

TEST_F(Recovery, ACallThatTakesTwoHeartbeatsIsNoSilence) {
  const HostId slow = host_of("demo-1");
  world.executor.slow_next("beat/" + slow.value, 6s);
  EXPECT_LT(world.engine().silences().longest, Seconds{6s});
  EXPECT_FALSE(world.play_while_not([&] { return row_of(slow).health == HostHealth::Down; }, 30s));
  EXPECT_TRUE(recoveries().empty());
  // What /metrics tells of how near it came.
  EXPECT_GE(world.engine().silences().longest, Seconds{6s});
  EXPECT_LT(world.engine().silences().longest, Seconds{9s});
  expect_right_result(first);
}

TEST_F(Recovery, ALibvirtdThatHangsIsNoSilenceOfAHostThatRenewsItsLease) {
  const HostId slow = host_of("demo-1");
  world.executor.slow_next("list/" + slow.value, 40s);
  EXPECT_FALSE(world.play_while_not([&] { return row_of(slow).health == HostHealth::Down; }, 60s));
  EXPECT_TRUE(recoveries().empty());
  expect_right_result(first);
}

TEST_F(Recovery, OfAHostThatIsCutOffAndComesBack) {
  const HostId cut = host_of("demo-1");
  ASSERT_TRUE(world.cluster.cut_host(cut, 90s));
  ASSERT_TRUE(is_back());
  EXPECT_EQ(world.cluster.copy_on(cut, VmId{"demo-1"}), Copy::Absent) << "its lease is over";
  EXPECT_TRUE(world.play_while_not([&] { return row_of(cut).fence == HostFence::None; }, 5min));
  EXPECT_TRUE(world.play_while_not([&] { return row_of(cut).health == HostHealth::Up; }, 10s))
      << "with its next heartbeat";
  EXPECT_TRUE(world.cluster.fence_notes().empty());
  expect_right_result(first);
}

TEST_F(Recovery, OfAHostThatOnlyMaredCannotReach) {
  // Its agent hears nobody, but it sees the storage: without a note its VMs would run for ever.
  const HostId mute = host_of("demo-1");
  ASSERT_TRUE(world.cluster.silence_host(mute, 10min));
  ASSERT_TRUE(a_recovery_reaches("Restarting"));
  EXPECT_EQ(world.cluster.copy_on(mute, VmId{"demo-1"}), Copy::Absent);
  ASSERT_TRUE(is_back());
  expect_right_result(first);
}

TEST_F(Recovery, OfAHostThatFrozeAndThawsLater) {
  const HostId frozen = host_of("demo-1");
  ASSERT_TRUE(world.cluster.freeze_host(frozen, 45s));
  ASSERT_TRUE(is_back());
  EXPECT_NE(world.cluster.copy_on(frozen, VmId{"demo-1"}), Copy::Absent) << "nothing ended it yet";
  world.play(30s);
  EXPECT_EQ(world.cluster.copy_on(frozen, VmId{"demo-1"}), Copy::Absent);
  expect_right_result(first);
}

TEST_F(Recovery, OfAVmThatEndedByItself) {
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-2"}));
  ASSERT_TRUE(is_back());
  for (const auto& host : world.hosts()) EXPECT_EQ(host.fence, HostFence::None);
  expect_right_result(first);
}

TEST_F(Recovery, OfTheLaunchersVm) {
  ASSERT_TRUE(world.cluster.panic_guest(job(first).vms.front()));
  ASSERT_TRUE(is_back());
  expect_right_result(first);
}

TEST_F(Recovery, IsNotForABriefSilence) {
  ASSERT_TRUE(world.cluster.silence_host(host_of("demo-1"), 5s));
  world.play(2s);
  expect_right_result(first);
  EXPECT_TRUE(recoveries().empty());
  EXPECT_EQ(job(first).restarts, 0);
}

TEST_F(Recovery, ADeadMaredEndsNoJob) {
  world.kill_mared();
  world.play(60s);
  for (const auto& ending : world.cluster.endings()) {
    EXPECT_NE(ending.cause, sim::EndCause::LeaseOver) << ending.key.id.value;
  }
  world.start_mared();
  expect_right_result(first);
  EXPECT_TRUE(recoveries().empty());
}

TEST_F(Recovery, AJobWithoutCheckpointsWaitsForItsHost) {
  expect_right_result(first);
  const JobId plain = submit();
  ASSERT_TRUE(world.play_while_not(
      [&] {
        const auto hosts = world.hosts();
        return std::all_of(hosts.begin(), hosts.end(),
                           [](const Host& host) { return host.lease.count() == 0; });
      },
      1min));
  world.play(7s);  // the agents have been told, too
  ASSERT_TRUE(world.cluster.cut_host(host_of("demo-1"), 40s));
  expect_right_result(plain);
  EXPECT_TRUE(recoveries().empty());
  EXPECT_EQ(job(plain).restarts, 0);
}

TEST_F(Recovery, OutlivesAMaredThatIsKilledInAnyOfItsStates) {
  int restarts = 0;
  for (const char* state : {"Fencing", "Restarting"}) {
    SCOPED_TRACE(state);
    if (restarts > 0) {
      ASSERT_TRUE(world.play_while_not([&] { return all_leased(); }, 1min));
    }
    const HostId dead = host_of("demo-1");
    ASSERT_TRUE(world.cluster.kill_host(dead));
    ASSERT_TRUE(a_recovery_reaches(state));
    world.kill_mared();
    world.play(7s);
    world.start_mared();
    ASSERT_TRUE(is_back(++restarts));
    ASSERT_TRUE(world.cluster.boot_host(dead));
    EXPECT_TRUE(world.play_while_not([&] { return row_of(dead).fence == HostFence::None; }, 2min));
  }
  expect_right_result(first);
}

TEST_F(Recovery, OutlivesASecondHostThatDiesMeanwhile) {
  for (const char* state : {"Fencing", "Restarting"}) {
    SCOPED_TRACE(state);
    const int before = job(first).restarts;
    const HostId one = host_of("demo-1");
    const HostId other = host_of("demo-2");
    ASSERT_NE(one, other);
    ASSERT_TRUE(world.cluster.kill_host(one));
    ASSERT_TRUE(a_recovery_reaches(state));
    ASSERT_TRUE(world.cluster.kill_host(other));
    ASSERT_TRUE(is_back(before + 1)) << job(first).reason;
    ASSERT_TRUE(world.cluster.boot_host(one));
    ASSERT_TRUE(world.cluster.boot_host(other));
    ASSERT_TRUE(world.play_while_not(
        [&] {
          const auto hosts = world.hosts();
          return std::all_of(hosts.begin(), hosts.end(), [](const Host& host) {
            return host.health == HostHealth::Up && host.fence == HostFence::None;
          });
        },
        2min));
    if (job(first).state != JobState::Running) break;
    ASSERT_TRUE(world.play_while_not([&] { return all_leased(); }, 1min));
  }
  expect_right_result(first);
}

/// It had no VM before, and so no lease: one that runs where nothing can be fenced would be lost.
class RecoveryTo : public RecoveryWorld, public testing::WithParamInterface<std::string> {};

TEST_P(RecoveryTo, AHostThatFallsSilentMeanwhile) {
  sim::CaptureModel model;
  model.bandwidth = BytesPerSecond{50e6};
  world.cluster.set_capture_model(model);
  const HostId fresh{"h4"};
  ASSERT_EQ(row_of(fresh).lease.count(), 0);
  const std::vector<HostId> dead{host_of("demo-1"), host_of("demo-2")};
  for (const auto& host : dead) ASSERT_TRUE(world.cluster.kill_host(host));
  ASSERT_TRUE(a_restore_reaches(GetParam()));
  std::set<HostId> used;
  for (const auto& id : job(first).vms) used.insert(host_of(id.value));
  ASSERT_TRUE(used.contains(fresh));
  if (GetParam() == "Resuming") {
    EXPECT_GT(row_of(fresh).lease.count(), 0);
  }
  const auto began = world.clock.now();
  for (const auto& host : dead) ASSERT_TRUE(world.cluster.boot_host(host));
  ASSERT_TRUE(world.cluster.cut_host(fresh, 5min));
  ASSERT_TRUE(is_back()) << job(first).reason;
  for (const auto& id : job(first).vms) EXPECT_NE(host_of(id.value), fresh);
  // Heartbeats, and where it may run the lease; no call to it is waited for.
  EXPECT_LT(world.clock.now() - began, 40s);
  expect_right_result(first);
}

INSTANTIATE_TEST_SUITE_P(States, RecoveryTo, testing::Values("Loading", "Resuming"),
                         [](const auto& one) { return one.param; });

TEST_F(Recovery, OfAVmThatEndsWhileItsJobIsPutBack) {
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-2"}));
  ASSERT_TRUE(a_restore_reaches("Resuming"));
  const auto runs = [&] {
    return world.cluster.copy_on(host_of("demo-1"), VmId{"demo-1"}) == Copy::Running;
  };
  ASSERT_TRUE(world.play_while_not(runs, 1min));
  const auto began = world.clock.now();
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-1"}));
  ASSERT_TRUE(is_back());
  EXPECT_LT(world.clock.now() - began, 20s) << "its guest is not waited for";
  expect_right_result(first);
}

/// The recovery waits for the end of what works on the job: a call that hangs must not hold that
/// up.
class RecoveryFrom : public RecoveryWorld, public testing::WithParamInterface<std::string> {};

TEST_P(RecoveryFrom, AHostThatFallsSilentWhileACheckpointIsTaken) {
  sim::CaptureModel model;
  model.bandwidth = BytesPerSecond{10e6};
  world.cluster.set_capture_model(model);
  // Somebody cancels it in the moment in which the host is cut off.
  const bool dropping = GetParam() == "Dropping";
  ASSERT_TRUE(a_take_is(dropping ? "Writing" : GetParam()));
  const HostId cut = host_of("demo-1");
  world.executor.slow_next("gang/demo-1", 60s);
  ASSERT_TRUE(world.cluster.cut_host(cut, 5min));
  if (dropping) {
    ASSERT_TRUE(world.engine().cancel(take_of(first).id));
  }
  ASSERT_TRUE(world.play_while_not([&] { return row_of(cut).health == HostHealth::Down; }, 1min));
  const auto noticed = world.clock.now();
  EXPECT_TRUE(world.play_while_not([&] { return take_of(first).id.value.empty(); }, 1min));
  EXPECT_LT(world.clock.now() - noticed, 3s);
  ASSERT_TRUE(is_back());
  expect_right_result(first);
}

INSTANTIATE_TEST_SUITE_P(States, RecoveryFrom, testing::Values("Holding", "Writing", "Dropping"),
                         [](const auto& one) { return one.param; });

TEST_F(Recovery, OfAJobWhoseHostsWereAllSilentForAWhile) {
  for (const auto& host : world.cluster.hosts()) ASSERT_TRUE(world.cluster.cut_host(host, 60s));
  world.play(55s);
  EXPECT_TRUE(world.cluster.copies().empty()) << "nobody told their hosts that they may run";
  ASSERT_TRUE(is_back()) << job(first).reason;
  expect_right_result(first);
  EXPECT_EQ(recoveries().size(), 1U) << "no room for a moment is no try";
}

TEST_F(Recovery, StopsAfterSomeTriesFromOneCheckpointAndSaysSo) {
  ASSERT_TRUE(world.play_while_not(
      [&] {
        const auto unfinished = world.operations(true);
        return std::none_of(unfinished.begin(), unfinished.end(), [](const Operation& one) {
          return one.kind == OperationKind::CheckpointTake;
        });
      },
      1min));
  for (const auto& one : complete(first)) {
    for (const auto& part : one.parts) ASSERT_TRUE(world.cluster.damage_file(part.path));
  }
  // No newer one.
  sim::CaptureModel model;
  model.disk_is_full = true;
  world.cluster.set_capture_model(model);
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-2"}));
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 10min));
  EXPECT_EQ(job(first).state, JobState::Failed);
  EXPECT_THAT(job(first).reason, HasSubstr("3 times"));
  const auto tries = recoveries();  // newest first
  ASSERT_EQ(tries.size(), 3U);
  for (const auto& one : tries) EXPECT_EQ(one.outcome, Outcome::Failed);
  // Whatever stumbled may be well by then; whoever is brought back at once does not wait.
  EXPECT_GE(tries[0].ended - tries[0].created, 10s);
  EXPECT_LT(tries[1].ended - tries[1].created, 10s);
  EXPECT_LT(tries[2].ended - tries[2].created, 10s);
}

TEST_F(Recovery, AProgramThatFailsIsNotBroughtBack) {
  expect_right_result(first);
  engine::JobSubmitRequest request;
  request.pool = PoolId{"demo"};
  request.command = {"solver", "--sim-work=15", "--sim-exit=3"};
  request.ranks = 3;
  request.checkpoints = {CheckpointRule::Every, Seconds{4}, 2};
  auto accepted = world.engine().submit(request);
  ASSERT_TRUE(accepted);
  const JobId id{accepted->target};
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(id).state); }, 5min));
  EXPECT_EQ(job(id).state, JobState::Failed);
  EXPECT_EQ(job(id).exit_code, 3);
  EXPECT_TRUE(recoveries().empty());
}

}  // namespace
}  // namespace mare::test
