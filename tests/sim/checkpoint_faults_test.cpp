// Checkpoints and restarts in which something breaks, at every step: complete or absent, the job
// goes on, and what was lost can be put back.
#include <gmock/gmock.h>

#include "tests/sim/checkpoint_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class CheckpointFaults : public CheckpointWorld {
 protected:
  /// It failed, left nothing, and the job did not notice.
  void expect_dropped(const Operation& taken) {
    EXPECT_EQ(taken.outcome, Outcome::Failed) << taken.reason;
    EXPECT_FALSE(taken.reason.empty());
    world.play(40s);
    EXPECT_TRUE(world.checkpoints().empty());
    EXPECT_TRUE(world.cluster.capture_files().empty());
    expect_right_result(first);
  }
};

TEST_F(CheckpointFaults, DiskFull) {
  sim::CaptureModel model;
  model.disk_is_full = true;
  world.cluster.set_capture_model(model);
  const Operation taken = take(first);
  EXPECT_THAT(taken.reason, HasSubstr("no space left"));
  expect_dropped(taken);
}

TEST_F(CheckpointFaults, DiskFullWhileVmsStandStill) {
  sim::CaptureModel model;
  model.disk_is_full = true;
  model.copy_on_write = false;
  world.cluster.set_capture_model(model);
  expect_dropped(take(first));
}

TEST_F(CheckpointFaults, AFailedOneLeavesTheLastGoodOne) {
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  sim::CaptureModel model;
  model.disk_is_full = true;
  world.cluster.set_capture_model(model);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(first).outcome, Outcome::Failed);
  world.play(1s);
  ASSERT_EQ(complete(first).size(), 1U);
  EXPECT_EQ(complete(first)[0].id.value, "ck-1");
  ASSERT_EQ(restart(first).outcome, Outcome::Succeeded);
  expect_right_result(first);
}

/// Something happens to a host, or the VM on it, while a checkpoint is in a state.
struct Blow {
  std::string name;
  std::string state;
  std::function<void(SimWorld&, const HostId&)> strike;
  bool job_lives = true;
};
void PrintTo(const Blow& blow, std::ostream* out) {
  *out << blow.name;
}

std::vector<Blow> blows() {
  std::vector<Blow> all;
  for (const char* state : {"Planned", "Holding", "Writing"}) {
    const auto add = [&](const std::string& name, auto strike, bool job_lives = true) {
      all.push_back({name + "While" + state, state, strike, job_lives});
    };
    add(
        "HostDies", [](SimWorld& w, const HostId& h) { EXPECT_TRUE(w.cluster.kill_host(h)); },
        false);
    add("AgentSilent",
        [](SimWorld& w, const HostId& h) { EXPECT_TRUE(w.cluster.silence_host(h, 20s)); });
    add("HostCutOff",
        [](SimWorld& w, const HostId& h) { EXPECT_TRUE(w.cluster.cut_host(h, 20s)); });
    add("AgentRestarts",
        [](SimWorld& w, const HostId& h) { EXPECT_TRUE(w.cluster.restart_agent(h, 2s)); });
    add("AgentRestartsLate",
        [](SimWorld& w, const HostId& h) { EXPECT_TRUE(w.cluster.restart_agent(h, 30s)); });
    add("CallsBreak", [](SimWorld& w, const HostId& h) {
      w.cluster.fail_next_calls(h, 3, Code::OutcomeUnknown, true);
    });
    add("CallsGetLost", [](SimWorld& w, const HostId& h) {
      w.cluster.fail_next_calls(h, 3, Code::Unavailable, false);
    });
    add("MaredDies", [](SimWorld& w, const HostId&) {
      w.kill_mared();
      w.play(3s);
      w.start_mared();
    });
    add("MaredIsAwayForLong", [](SimWorld& w, const HostId&) {
      w.kill_mared();
      w.play(90s);
      w.start_mared();
    });
  }
  return all;
}

class Blows : public CheckpointWorld, public testing::WithParamInterface<Blow> {};

TEST_P(Blows, DoNotHoldTheJobUp) {
  // Long enough to be hit in any state.
  sim::CaptureModel model;
  model.take = 200ms;
  model.bandwidth = BytesPerSecond{50e6};
  world.cluster.set_capture_model(model);
  world.play(1s);
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  ASSERT_TRUE(reaches(taken->id, GetParam().state));
  if (GetParam().state == "Holding") world.play(50ms);
  const HostId host = host_of("demo-1");
  GetParam().strike(world, host);
  const Operation ended = world.wait(taken->id, 10min);
  ASSERT_TRUE(ended.finished()) << ended.state;
  EXPECT_FALSE(ended.reason.empty());
  const bool whole = ended.outcome == Outcome::Succeeded;
  if (!GetParam().job_lives) {
    ASSERT_TRUE(world.cluster.boot_host(host));
    EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 10min));
    EXPECT_EQ(complete(first).size(), whole ? 1U : 0U) << "complete or absent";
    return;
  }
  // Nothing stands still for longer than somebody holds it.
  EXPECT_TRUE(world.play_while_not(
      [&] {
        const auto copies = world.cluster.copies();
        return std::all_of(copies.begin(), copies.end(),
                           [](const auto& copy) { return copy.copy == Copy::Running; });
      },
      90s));
  if (!is_final(job(first).state)) {
    EXPECT_EQ(complete(first).size(), whole ? 1U : 0U) << "complete or absent";
  }
  expect_right_result(first);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Blows, testing::ValuesIn(blows()),
                         [](const auto& param) { return param.param.name; });

TEST_F(CheckpointFaults, ASilentHostDoesNotHoldTheOthers) {
  world.play(1s);
  ASSERT_TRUE(world.cluster.silence_host(host_of("demo-1"), 20s));
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  ASSERT_TRUE(reaches(taken->id, "Dropping"));
  world.play(2s);
  for (const auto& copy : world.cluster.copies()) {
    EXPECT_EQ(copy.copy, Copy::Running) << copy.key.id.value;
  }
  expect_dropped(world.wait(taken->id, 5min));
}

/// Rank 1's host hears late that it is to get ready; the others are.
class WhileHostsGetReady : public CheckpointFaults {
 protected:
  Operation begun() {
    world.play(1s);
    world.executor.slow_next("gang/demo-1", 3s);
    auto taken = world.engine().submit(engine::CheckpointRequest{first});
    EXPECT_TRUE(taken);
    EXPECT_TRUE(reaches(taken->id, "Holding"));
    world.play(1s);
    EXPECT_EQ(world.cluster.capture_files().size(), 2U);
    expect_all_run();
    return *taken;
  }
  void expect_all_run() {
    for (const auto& copy : world.cluster.copies()) {
      EXPECT_EQ(copy.copy, Copy::Running) << copy.key.id.value;
    }
  }
};

TEST_F(WhileHostsGetReady, ACancelLeavesNothing) {
  const Operation taken = begun();
  ASSERT_TRUE(world.engine().cancel(taken.id));
  const Operation ended = world.wait(taken.id);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
  EXPECT_TRUE(world.cluster.capture_files().empty());
  world.play(5s);
  EXPECT_TRUE(world.cluster.capture_files().empty()) << "the late call was refused";
  expect_all_run();
  expect_right_result(first);
}

TEST_F(WhileHostsGetReady, ACrashOfMaredLeavesNothing) {
  const Operation taken = begun();
  world.kill_mared();
  world.play(1s);
  expect_all_run();
  world.start_mared();
  expect_dropped(world.wait(taken.id));
}

TEST_F(WhileHostsGetReady, TheyGiveUpWhenMaredStaysAway) {
  begun();
  world.kill_mared();
  world.play(70s);
  EXPECT_TRUE(world.cluster.capture_files().empty());
  expect_all_run();
  world.start_mared();
  expect_right_result(first);
}

TEST_F(WhileHostsGetReady, AnAgentThatIsRestartedSpoilsIt) {
  const Operation taken = begun();
  ASSERT_TRUE(world.cluster.restart_agent(host_of("demo-0"), 0ms));
  const Operation ended = world.wait(taken.id);
  EXPECT_THAT(ended.reason, HasSubstr("exists"));
  expect_dropped(ended);
}

TEST_F(CheckpointFaults, AHostThatIsSlowToGetReadyIsNotWaitedForLong) {
  world.play(1s);
  world.executor.slow_next("gang/demo-1", 30s);
  const auto began = world.clock.now();
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  ASSERT_TRUE(reaches(taken->id, "Dropping"));
  EXPECT_LT(world.clock.now() - began, 8s);
  expect_dropped(world.wait(taken->id, 5min));
}

TEST_F(CheckpointFaults, AHostThatIsSlowToStopItsVmsIsNotWaitedForLong) {
  world.play(1s);
  const auto began = world.clock.now();
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  ASSERT_TRUE(reaches(taken->id, "Holding"));
  world.executor.slow_next("gang/demo-1", 30s);  // after it was told to get ready
  ASSERT_TRUE(reaches(taken->id, "Dropping"));
  EXPECT_LT(world.clock.now() - began, 8s);
  expect_dropped(world.wait(taken->id, 5min));
}

TEST_F(CheckpointFaults, CancelledInTheMiddle) {
  for (const char* state : {"Planned", "Holding", "Writing"}) {
    auto taken = world.engine().submit(engine::CheckpointRequest{first});
    ASSERT_TRUE(taken);
    ASSERT_TRUE(reaches(taken->id, state)) << state;
    ASSERT_TRUE(world.engine().cancel(taken->id));
    const Operation ended = world.wait(taken->id);
    EXPECT_EQ(ended.outcome, Outcome::Cancelled) << state << ": " << ended.reason;
  }
  world.play(10s);
  EXPECT_TRUE(world.cluster.capture_files().empty());
  expect_right_result(first);
}

TEST_F(CheckpointFaults, ARankThatDiesDropsItAndTheJobFails) {
  sim::CaptureModel model;
  model.bandwidth = BytesPerSecond{20e6};
  world.cluster.set_capture_model(model);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  ASSERT_TRUE(reaches(taken->id, "Writing"));
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-1"}));
  EXPECT_EQ(world.wait(taken->id).outcome, Outcome::Failed);
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 5min));
  ASSERT_EQ(complete(first).size(), 1U);
  ASSERT_EQ(restart(first).outcome, Outcome::Succeeded);
  expect_right_result(first);
}

// --- the way back

TEST_F(CheckpointFaults, ADamagedPartIsFoundAndNobodyHasRun) {
  world.play(2s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  world.play(2s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  ASSERT_TRUE(world.cluster.damage_file(complete(first)[0].parts[1].path));
  const Operation failed = restart(first);
  EXPECT_EQ(failed.outcome, Outcome::Failed);
  EXPECT_THAT(failed.reason, HasSubstr("damaged"));
  world.play(10s);
  EXPECT_TRUE(world.cluster.copies().empty()) << "none of the job's VMs is left";
  EXPECT_EQ(job(first).state, JobState::Failed);
  const Operation back = restart(first, "ck-1");
  ASSERT_EQ(back.outcome, Outcome::Succeeded) << back.reason;
  expect_right_result(first);
}

TEST_F(CheckpointFaults, ARestartThatFindsNoRoomTouchesNothing) {
  world.play(2s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  sim::HostModel small;
  small.memory = mebibytes(300);
  ASSERT_TRUE(world.add_host("h9", small));
  const Operation refused = restart(first, "", {HostId{"h9"}});
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_EQ(refused.error_code, to_string(Code::ResourceExhausted));
  EXPECT_EQ(job(first).state, JobState::Running);
  expect_right_result(first);
}

TEST_F(CheckpointFaults, AHostThatVanishesDuringARestartFailsItAndItCanBeTriedAgain) {
  for (const char* state : {"Clearing", "Loading", "Resuming"}) {
    SCOPED_TRACE(state);
    ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
    engine::RestartRequest request;
    request.job = first;
    auto back = world.engine().submit(request);
    ASSERT_TRUE(back);
    ASSERT_TRUE(reaches(back->id, state));
    const HostId dead = host_of("demo-1");
    ASSERT_TRUE(world.cluster.kill_host(dead));
    world.play(5s);
    ASSERT_TRUE(world.cluster.boot_host(dead));
    const Operation ended = world.wait(back->id, 10min);
    EXPECT_TRUE(ended.finished());
    if (ended.outcome == Outcome::Succeeded) continue;
    world.play(30s);
    ASSERT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
    EXPECT_TRUE(world.cluster.copies().empty()) << "half a job runs";
    const Operation again = restart(first);
    ASSERT_EQ(again.outcome, Outcome::Succeeded) << again.reason;
  }
  expect_right_result(first);
}

TEST_F(CheckpointFaults, CallsThatBreakDoNotDoubleOrMixAnything) {
  world.play(1s);
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  sim::FaultModel faults;
  faults.call_refused = 0.15;
  faults.call_unanswered = 0.15;
  faults.guest_unanswered = 0.1;
  world.cluster.set_faults(faults);
  int worked = 0;
  for (int i = 0; i < 12; ++i) {
    if (job(first).state == JobState::Succeeded) break;
    worked += restart(first).outcome == Outcome::Succeeded ? 1 : 0;
    static_cast<void>(world.engine().submit(engine::CheckpointRequest{first}));
    world.play(2s);
    EXPECT_TRUE(world.play_while_not(
        [&] {
          for (const auto& o : world.operations(true)) {
            if (o.kind == OperationKind::CheckpointTake) return false;
          }
          return true;
        },
        5min));
  }
  EXPECT_GE(worked, 6);
  world.cluster.set_faults({});
  world.play(10s);
  if (job(first).state != JobState::Running && job(first).state != JobState::Succeeded) {
    ASSERT_EQ(restart(first).outcome, Outcome::Succeeded);
  }
  expect_right_result(first);
}

}  // namespace
}  // namespace mare::test
