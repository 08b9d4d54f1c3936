// Checkpoints of a job and its way back, on a cluster where all is well or one thing goes wrong
// that was bound to.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/sim/checkpoint_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Checkpoints : public CheckpointWorld {};

TEST_F(Checkpoints, AreOneCutAndTheJobGoesOn) {
  world.play(3s);
  const Operation taken = take(first);
  ASSERT_EQ(taken.outcome, Outcome::Succeeded) << taken.reason;
  const auto all = complete(first);
  ASSERT_EQ(all.size(), 1U);
  const Checkpoint& one = all[0];
  EXPECT_EQ(one.operation, taken.id);
  ASSERT_EQ(one.parts.size(), 3U);
  std::set<std::string> paths;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one.parts[i].vm, job(first).vms[i]) << "part i is rank i";
    EXPECT_EQ(one.parts[i].uuid, vm(one.parts[i].vm.value).uuid);
    EXPECT_NE(one.parts[i].checksum, 0U);
    paths.insert(one.parts[i].path);
  }
  EXPECT_EQ(paths.size(), 3U);
  EXPECT_EQ(one.size, mebibytes(3 * 192));
  EXPECT_GT(one.pause, Microseconds{20'000}) << "taking the state alone takes that long here";
  EXPECT_GE(one.skew, Microseconds{0});
  EXPECT_GT(one.pause, one.skew);
  EXPECT_GT(one.completed, one.began);
  expect_right_result(first);
}

TEST_F(Checkpoints, NobodyGoesOnBeforeAllHaveStopped) {
  // Rank 2's host is told late: the others wait for it, and no longer than that.
  auto accepted = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(reaches(accepted->id, "Holding"));
  world.executor.slow_next("gang/demo-2", 700ms);  // after it was told to get ready
  const Operation taken = world.wait(accepted->id);
  ASSERT_EQ(taken.outcome, Outcome::Succeeded) << taken.reason;
  const Checkpoint one = complete(first).at(0);
  EXPECT_GE(one.skew, Microseconds{650'000});
  WallTime last_stop{0};
  WallTime first_resume = one.parts[0].resumed;
  for (const auto& part : one.parts) {
    last_stop = std::max(last_stop, part.stopped);
    first_resume = std::min(first_resume, part.resumed);
  }
  EXPECT_GE(first_resume, last_stop);
}

TEST_F(Checkpoints, AHostThatIsSlowToGetReadyHoldsNobodyUp) {
  world.executor.set_longest_delay(2ms);
  world.executor.slow_next("gang/demo-2", 700ms);
  const Operation taken = take(first);
  ASSERT_EQ(taken.outcome, Outcome::Succeeded) << taken.reason;
  const Checkpoint one = complete(first).at(0);
  EXPECT_GE(one.completed - one.began, 700ms);
  EXPECT_LE(one.skew, Microseconds{2'000}) << "all were ready when the first one stopped";
  EXPECT_LE(one.pause, Microseconds{100'000});
  expect_right_result(first);
}

TEST_F(Checkpoints, OlderAgentsGetReadyWhileTheirVmsStandStill) {
  world.executor.set_longest_delay(2ms);
  sim::CaptureModel model;
  model.prepare = 300ms;
  model.prepares = false;
  world.cluster.set_capture_model(model);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  EXPECT_GE(complete(first).at(0).pause, Microseconds{300'000});
  expect_right_result(first);
}

TEST_F(Checkpoints, WithoutCopyOnWriteVmsStandStillUntilTheirFilesAreWritten) {
  sim::CaptureModel model;
  model.copy_on_write = false;
  model.bandwidth = BytesPerSecond{100e6};
  world.cluster.set_capture_model(model);
  const Operation taken = take(first);
  ASSERT_EQ(taken.outcome, Outcome::Succeeded) << taken.reason;
  EXPECT_GE(complete(first).at(0).pause, Microseconds{2'000'000}) << "192 MiB at 100 MB/s";
  expect_right_result(first);
}

TEST_F(Checkpoints, AJobGoesBackToWhereItWas) {
  world.play(5s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  world.play(10s);
  const auto began = world.clock.now();
  const Operation back = restart(first);
  ASSERT_EQ(back.outcome, Outcome::Succeeded) << back.reason;
  EXPECT_THAT(back.reason, HasSubstr("ck-1"));
  EXPECT_EQ(job(first).restarts, 1);
  EXPECT_EQ(job(first).state, JobState::Running);
  expect_right_result(first);
  // It had 30 s of work, 5 or so were in the checkpoint, and the 10 after it were done twice.
  EXPECT_GT(world.clock.now() - began, 22s);
}

TEST_F(Checkpoints, AJobThatAHostTookWithItComesBackOnOthers) {
  world.play(5s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  world.play(3s);
  const HostId dead = host_of("demo-1");
  ASSERT_TRUE(world.cluster.kill_host(dead));
  world.play(20s);
  // It is silent: a copy may run there, so nothing is put back yet.
  const Operation refused = restart(first);
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_THAT(refused.reason, HasSubstr("twice"));
  ASSERT_TRUE(world.cluster.boot_host(dead));
  EXPECT_TRUE(world.play_while_not([&] { return vm("demo-1").state == VmState::Failed; }, 5min));
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 5min));
  EXPECT_EQ(job(first).state, JobState::Failed);
  std::vector<HostId> others;
  for (const auto& host : world.hosts()) {
    if (host.id != dead) others.push_back(host.id);
  }
  const Operation back = restart(first, "", others);
  ASSERT_EQ(back.outcome, Outcome::Succeeded) << back.reason;
  for (const auto& row : world.vms()) {
    EXPECT_EQ(row.state, VmState::Running);
    EXPECT_NE(row.host, dead);
  }
  expect_right_result(first);
}

TEST_F(Checkpoints, AnOlderOneCanBeChosen) {
  world.play(2s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  world.play(8s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  ASSERT_EQ(complete(first).size(), 2U);
  ASSERT_EQ(restart(first, "ck-1").outcome, Outcome::Succeeded);
  const auto began = world.clock.now();
  expect_right_result(first);
  EXPECT_GT(world.clock.now() - began, 24s) << "it went back to 2 s or so, not to 10";
}

TEST_F(Checkpoints, OfWhatIsNotThereNobodyRestarts) {
  engine::RestartRequest request;
  request.job = first;
  auto none = world.engine().submit(request);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::FailedPrecondition);
  request.checkpoint = CheckpointId{"ck-77"};
  none = world.engine().submit(request);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().field, "checkpoint");
  request.checkpoint.reset();
  request.job = JobId{"job-77"};
  none = world.engine().submit(request);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::NotFound);
}

TEST_F(Checkpoints, OnlySoManyAreKept) {
  for (int i = 0; i < 4; ++i) {
    world.play(1s);
    ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
    EXPECT_GE(complete(first).size(), 1U);
  }
  world.play(10s);
  const auto kept = complete(first);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].id.value, "ck-4");
  EXPECT_EQ(kept[1].id.value, "ck-3");
  EXPECT_EQ(world.checkpoints().size(), 4U) << "the others are needed for them";
  EXPECT_EQ(world.cluster.capture_files().size(), 12U);
  expect_right_result(first);
  const JobId full = submit({CheckpointRule::Never, Seconds{0}, 2, CheckpointMode::Full});
  for (int i = 0; i < 4; ++i) {
    world.play(1s);
    ASSERT_EQ(take(full).outcome, Outcome::Succeeded);
  }
  world.play(10s);
  EXPECT_EQ(complete(full).size(), 2U);
  EXPECT_EQ(world.cluster.capture_files().size(), 6U) << "the files of the others are gone";
}

TEST_F(Checkpoints, GoWhenNobodyCanWantThemAnyMore) {
  world.play(2s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  expect_right_result(first);
  world.play(20s);
  EXPECT_TRUE(world.checkpoints().empty());
  EXPECT_TRUE(world.cluster.capture_files().empty());
}

TEST_F(Checkpoints, AreTakenOneAtATime) {
  auto one = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(one);
  auto two = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, Code::Conflict);
  EXPECT_EQ(end_of(one).outcome, Outcome::Succeeded);
}

TEST_F(Checkpoints, ComeByThemselvesAtTheirInterval) {
  expect_right_result(first);
  const JobId job_id = submit({CheckpointRule::Every, Seconds{6}, 2});
  const auto began = world.clock.now();
  world.play(22s);
  int taken = 0;
  for (const auto& operation : world.operations()) {
    if (operation.kind != OperationKind::CheckpointTake || operation.target != job_id.value)
      continue;
    EXPECT_EQ(operation.outcome, Outcome::Succeeded) << operation.reason;
    ++taken;
  }
  EXPECT_EQ(taken, 3) << "at 6, 12 and 18 s of " << Seconds{world.clock.now() - began}.count();
  expect_right_result(job_id);
}

TEST_F(Checkpoints, ComeMoreOftenWhereHostsFailOften) {
  expect_right_result(first);
  const JobId calm = submit({CheckpointRule::Optimal, Seconds{0}, 2});
  expect_right_result(calm);
  const auto takes = [&](const JobId& id) {
    const auto all = world.operations();
    return std::count_if(all.begin(), all.end(), [&](const Operation& o) {
      return o.kind == OperationKind::CheckpointTake && o.target == id.value;
    });
  };
  EXPECT_EQ(takes(calm), 0) << "in half a year of believed life";
  // A host that has been there for seconds and was lost a million times.
  auto host = world.hosts()[0];
  host.failures = 1'000'000;
  ASSERT_TRUE(world.store().write([&](store::Transaction& tx) { return tx.put(host); }));
  const JobId rough = submit({CheckpointRule::Optimal, Seconds{0}, 2});
  expect_right_result(rough);
  EXPECT_GE(takes(rough), 5);
}

TEST_F(Checkpoints, AMigrationComesBeforeOrAfterButNotMeanwhile) {
  engine::MigrateRequest request;
  request.vm = VmId{"demo-0"};
  request.policy.bandwidth_limit = BytesPerSecond{40e6};
  auto move = world.engine().submit(request);
  ASSERT_TRUE(move);
  ASSERT_TRUE(reaches(move->id, "PreCopying"));
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  world.play(1s);
  EXPECT_EQ(world.operation(taken->id).state, "Planned");
  EXPECT_THAT(world.operation(taken->id).reason, HasSubstr(move->id.value));
  EXPECT_EQ(world.wait(move->id).outcome, Outcome::Succeeded);
  const Operation ended = world.wait(taken->id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(complete(first).at(0).parts[0].host, host_of("demo-0"));

  sim::CaptureModel slow;
  slow.bandwidth = BytesPerSecond{20e6};
  world.cluster.set_capture_model(slow);
  taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  ASSERT_TRUE(reaches(taken->id, "Writing"));
  move = world.engine().submit(request);
  ASSERT_FALSE(move);
  EXPECT_EQ(move.error().code, Code::Conflict);
  const auto stop = world.engine().submit(engine::VmStopRequest{VmId{"demo-0"}, true});
  ASSERT_FALSE(stop);
  EXPECT_EQ(stop.error().code, Code::Conflict);
  EXPECT_EQ(world.wait(taken->id).outcome, Outcome::Succeeded);
}

TEST_F(Checkpoints, AVmThatWasStartedAnewBecomesTheOldOneAgain) {
  world.play(2s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  const std::string uuid = vm("demo-2").uuid;
  ASSERT_EQ(end_of(world.engine().submit(engine::VmStopRequest{VmId{"demo-2"}, true})).outcome,
            Outcome::Succeeded);
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 5min));
  ASSERT_EQ(end_of(world.engine().submit(engine::VmStartRequest{VmId{"demo-2"}, {}})).outcome,
            Outcome::Succeeded);
  EXPECT_NE(vm("demo-2").uuid, uuid);
  ASSERT_EQ(restart(first).outcome, Outcome::Succeeded);
  EXPECT_EQ(vm("demo-2").uuid, uuid);
  expect_right_result(first);
}

TEST_F(Checkpoints, VmsThatAnotherJobHasTakenAreLeftToIt) {
  world.play(2s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  ASSERT_EQ(end_of(world.engine().submit(engine::VmStopRequest{VmId{"demo-2"}, true})).outcome,
            Outcome::Succeeded);
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 5min));
  ASSERT_EQ(end_of(world.engine().submit(engine::VmStartRequest{VmId{"demo-2"}, {}})).outcome,
            Outcome::Succeeded);
  const JobId second = submit();
  const Operation refused = restart(first);
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_THAT(refused.reason, HasSubstr(second.value));
  expect_right_result(second);
}

TEST_F(Checkpoints, AWrongPlanIsRefused) {
  engine::JobSubmitRequest request;
  request.pool = PoolId{"demo"};
  request.command = {"solver"};
  request.checkpoints = {CheckpointRule::Every, Seconds{0.5}, 2};
  auto refused = world.engine().submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "checkpoint_every_s");
  request.checkpoints = {CheckpointRule::Every, Seconds{60}, 0};
  refused = world.engine().submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "checkpoints_kept");
}

}  // namespace
}  // namespace mare::test
