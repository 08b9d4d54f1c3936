// Moves through a file (checkpoint-restart): Check, Trans, Restart; and whatever breaks, in every
// state, the VM is whole in one place and runs in one at most.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/sim/checkpoint_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const VmId kMoved{"demo-1"};

class FileMoves : public CheckpointWorld {
 protected:
  void SetUp() override {
    CheckpointWorld::SetUp();
    // Long enough to be hit in any state.
    sim::CaptureModel model;
    model.bandwidth = BytesPerSecond{100e6};
    world.cluster.set_capture_model(model);
    world.play(1s);
    source = host_of(kMoved.value);
    // Where no other rank is: a host that dies takes nobody else with it.
    ASSERT_TRUE(world.add_host("h4"));
  }
  Result<Operation> ask(const std::string& to = "h4") {
    engine::MigrateRequest request;
    request.vm = kMoved;
    request.policy.strategy = Strategy::CheckpointRestart;
    request.destination = HostId{to};
    return world.engine().submit(request);
  }
  Operation begun(const std::string& state) {
    auto accepted = ask();
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    EXPECT_TRUE(reaches(accepted->id, state)) << world.operation(accepted->id).reason;
    destination = migration(accepted->id).destination;
    return *accepted;
  }
  Migration migration(const OperationId& id) {
    Result<Migration> row = make_error(Code::Internal, "not asked");
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      row = reader.migration(id);
      return ok_status();
    });
    EXPECT_TRUE(row) << id.value;
    return row ? *row : Migration{};
  }
  /// It runs there and nowhere else, no file is left, and the job has not noticed.
  void expect_at(const HostId& host) {
    EXPECT_TRUE(world.play_while_not([&] { return world.all_ended(); }, 10min));
    world.play(20s);
    EXPECT_EQ(vm(kMoved.value).state, VmState::Running) << vm(kMoved.value).reason;
    EXPECT_EQ(host_of(kMoved.value), host);
    EXPECT_EQ(world.cluster.running_on(kMoved), host);
    EXPECT_TRUE(world.cluster.capture_files().empty());
    expect_right_result(first);
  }
  void set_start_faults(double chance) {
    sim::FaultModel faults;
    faults.start_fails = chance;
    world.cluster.set_faults(faults);
  }

  HostId source;
  HostId destination;
};

TEST_F(FileMoves, TheJobGoesOnAtTheDestination) {
  const Operation ended = end_of(ask());
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  const Migration row = migration(ended.id);
  EXPECT_NE(row.destination, source);
  ASSERT_TRUE(row.file.check && row.file.trans && row.file.restart);
  ASSERT_TRUE(row.downtime_hypervisor);
  EXPECT_EQ(*row.file.check + *row.file.trans + *row.file.restart, *row.downtime_hypervisor);
  // 192 MiB at 100 MB/s.
  EXPECT_GT(*row.file.check, Microseconds{2'000'000});
  EXPECT_GT(*row.total_time, *row.downtime_hypervisor);
  EXPECT_EQ(row.transferred, row.file.written);
  EXPECT_GT(row.file.size, mebibytes(100));
  EXPECT_TRUE(row.file.path.empty()) << "it is gone";
  ASSERT_EQ(row.rounds.size(), 2U);
  EXPECT_EQ(row.rounds[0].duration + row.rounds[1].duration, *row.downtime_hypervisor);
  expect_at(row.destination);
}

TEST_F(FileMoves, TheVmStandsStillAllTheTime) {
  const Operation moving = begun("Saving");
  ASSERT_TRUE(world.play_while_not(
      [&] { return world.cluster.copy_on(source, kMoved) == Copy::Paused; }, 5s));
  ASSERT_TRUE(reaches(moving.id, "Restarting"));
  EXPECT_FALSE(world.cluster.running_on(kMoved));
  const auto progress = world.cluster.guest_progress(kMoved);
  ASSERT_TRUE(reaches(moving.id, "Committed"));
  EXPECT_EQ(world.cluster.copy_on(source, kMoved), Copy::Absent) << "its former copy is ended";
  ASSERT_EQ(world.wait(moving.id).outcome, Outcome::Succeeded);
  ASSERT_TRUE(progress && world.cluster.guest_progress(kMoved));
  EXPECT_GE(world.cluster.guest_progress(kMoved)->count(), progress->count());
  expect_at(destination);
}

TEST_F(FileMoves, ACancelLetsItGoOnAtTheSourceUntilItsCopyThereIsEnded) {
  const Operation moving = begun("Saving");
  world.play(500ms);
  ASSERT_TRUE(world.engine().cancel(moving.id));
  const Operation ended = world.wait(moving.id);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
  expect_at(source);
}

TEST_F(FileMoves, LaterACancelIsRefused) {
  world.executor.slow_next("file/" + kMoved.value, 0s);
  const Operation moving = begun("Restarting");
  const auto late = world.engine().cancel(moving.id);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::FailedPrecondition);
  EXPECT_EQ(world.wait(moving.id).outcome, Outcome::Succeeded);
  expect_at(destination);
}

TEST_F(FileMoves, ADestinationThatCanNotMakeItSendsItBack) {
  const Operation moving = begun("Restarting");
  set_start_faults(1);
  ASSERT_TRUE(reaches(moving.id, "Returning"));
  world.play(5s);
  EXPECT_FALSE(world.cluster.running_on(kMoved)) << "the source can't either";
  EXPECT_FALSE(world.cluster.capture_files().empty()) << "the file is all there is of it";
  set_start_faults(0);
  const Operation ended = world.wait(moving.id);
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_THAT(ended.reason, HasSubstr("can't make it from its file"));
  EXPECT_THAT(ended.reason, HasSubstr("as before"));
  expect_at(source);
}

TEST_F(FileMoves, AFullDiskEndsItAtTheSource) {
  sim::CaptureModel model;
  model.disk_is_full = true;
  world.cluster.set_capture_model(model);
  const Operation ended = end_of(ask());
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_THAT(ended.reason, HasSubstr("no space left"));
  expect_at(source);
}

TEST_F(FileMoves, ADamagedFileIsKeptForAPerson) {
  const Operation moving = begun("Restarting");
  for (const auto& path : world.cluster.capture_files()) {
    ASSERT_TRUE(world.cluster.damage_file(path));
  }
  const Operation ended = world.wait(moving.id, 30min);
  EXPECT_EQ(ended.outcome, Outcome::NeedsOperator);
  EXPECT_THAT(ended.reason, HasSubstr("its state is in "));
  world.play(30s);
  EXPECT_EQ(world.cluster.capture_files().size(), 1U);
  EXPECT_FALSE(world.cluster.running_on(kMoved));
  // Whoever gives it up gets rid of the file with it.
  ASSERT_EQ(end_of(world.engine().submit(engine::PoolDeleteRequest{PoolId{"demo"}, true})).outcome,
            Outcome::Succeeded);
  EXPECT_TRUE(world.play_while_not([&] { return world.cluster.capture_files().empty(); }, 1min));
}

TEST_F(FileMoves, TheHoldLimitOfAnAbsentMaredLetsItGoOnAndItsFileIsNotUsed) {
  engine::MigrateRequest request;
  request.vm = kMoved;
  request.policy.strategy = Strategy::CheckpointRestart;
  request.timeout = Seconds{10};
  auto accepted = world.engine().submit(request);
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(reaches(accepted->id, "Saving"));
  world.play(1s);
  world.kill_mared();
  world.play(90s);
  EXPECT_EQ(world.cluster.running_on(kMoved), source);
  EXPECT_TRUE(world.cluster.capture_files().empty());
  world.start_mared();
  EXPECT_EQ(world.wait(accepted->id).outcome, Outcome::Failed);
  expect_at(source);
}

TEST_F(FileMoves, ACheckpointOfItsJobWaitsForIt) {
  const Operation moving = begun("Saving");
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  world.play(1s);
  EXPECT_EQ(world.operation(taken->id).state, "Planned");
  EXPECT_EQ(world.wait(moving.id).outcome, Outcome::Succeeded);
  EXPECT_EQ(world.wait(taken->id).outcome, Outcome::Succeeded);
  expect_right_result(first);
}

TEST_F(FileMoves, AndItWaitsForACheckpoint) {
  auto taken = world.engine().submit(engine::CheckpointRequest{first});
  ASSERT_TRUE(taken);
  ASSERT_TRUE(reaches(taken->id, "Writing"));
  const auto refused = ask();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Conflict);
  ASSERT_EQ(world.wait(taken->id).outcome, Outcome::Succeeded);
  EXPECT_EQ(end_of(ask()).outcome, Outcome::Succeeded);
  expect_right_result(first);
}

TEST_F(FileMoves, AnOlderAgentDoesNotOfferIt) {
  sim::HostModel older;
  older.captures_to_leave = false;
  ASSERT_TRUE(world.add_host("h9", older));
  const Operation ended = end_of(ask("h9"));
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_THAT(ended.reason, HasSubstr("'h9' does not offer it"));
  expect_at(source);
}

/// Something happens to a host, or to mared, while it is in a state.
struct Strike {
  std::string name;
  std::string state;
  std::function<void(SimWorld&, const HostId& source, const HostId& destination)> strike;
  bool vm_lives = true;
};
void PrintTo(const Strike& strike, std::ostream* out) {
  *out << strike.name;
}

std::vector<Strike> strikes() {
  std::vector<Strike> all;
  for (const char* state : {"Reserved", "Saving", "Restarting", "Returning", "Committed"}) {
    const std::string in = state;
    const auto add = [&](const std::string& name, auto strike, bool vm_lives = true) {
      all.push_back({name + "While" + in, in, strike, vm_lives});
    };
    const bool at_source = in == "Reserved" || in == "Saving";
    add(
        "SourceDies",
        [](SimWorld& w, const HostId& from, const HostId&) {
          EXPECT_TRUE(w.cluster.kill_host(from));
          w.play(20s);
          EXPECT_TRUE(w.cluster.boot_host(from));
        },
        !at_source);
    add("DestinationDies", [](SimWorld& w, const HostId&, const HostId& to) {
      EXPECT_TRUE(w.cluster.kill_host(to));
      w.play(20s);
      EXPECT_TRUE(w.cluster.boot_host(to));
    });
    for (const bool far : {false, true}) {
      const std::string who = far ? "Destination" : "Source";
      const auto pick = [far](const HostId& from, const HostId& to) { return far ? to : from; };
      add(who + "IsSilent", [pick](SimWorld& w, const HostId& from, const HostId& to) {
        EXPECT_TRUE(w.cluster.silence_host(pick(from, to), 20s));
      });
      add(who + "IsCutOff", [pick](SimWorld& w, const HostId& from, const HostId& to) {
        EXPECT_TRUE(w.cluster.cut_host(pick(from, to), 20s));
      });
      add(who + "AgentRestarts", [pick](SimWorld& w, const HostId& from, const HostId& to) {
        EXPECT_TRUE(w.cluster.restart_agent(pick(from, to), 2s));
      });
      add(who + "CallsBreak", [pick](SimWorld& w, const HostId& from, const HostId& to) {
        w.cluster.fail_next_calls(pick(from, to), 3, Code::OutcomeUnknown, true);
      });
      add(who + "CallsGetLost", [pick](SimWorld& w, const HostId& from, const HostId& to) {
        w.cluster.fail_next_calls(pick(from, to), 3, Code::Unavailable, false);
      });
    }
    add("MaredDies", [](SimWorld& w, const HostId&, const HostId&) {
      w.kill_mared();
      w.play(3s);
      w.start_mared();
    });
    add("MaredDiesWhileBothAgentsAreAway", [](SimWorld& w, const HostId& from, const HostId& to) {
      w.kill_mared();
      EXPECT_TRUE(w.cluster.restart_agent(from, 6s));
      EXPECT_TRUE(w.cluster.restart_agent(to, 6s));
      w.play(1s);
      w.start_mared();
    });
    add("MaredAndTheDestinationDie", [](SimWorld& w, const HostId&, const HostId& to) {
      w.kill_mared();
      EXPECT_TRUE(w.cluster.kill_host(to));
      w.play(20s);
      EXPECT_TRUE(w.cluster.boot_host(to));
      w.start_mared();
    });
    add("MaredAndTheSourcesAgentDie", [](SimWorld& w, const HostId& from, const HostId&) {
      w.kill_mared();
      EXPECT_TRUE(w.cluster.restart_agent(from, 2s));
      w.play(3s);
      w.start_mared();
    });
    add("MaredAndTheDestinationsAgentDie", [](SimWorld& w, const HostId&, const HostId& to) {
      w.kill_mared();
      EXPECT_TRUE(w.cluster.restart_agent(to, 2s));
      w.play(3s);
      w.start_mared();
    });
  }
  return all;
}

class Strikes : public FileMoves, public testing::WithParamInterface<Strike> {};

TEST_P(Strikes, NeitherDoubleTheVmNorLoseIt) {
  const Strike& strike = GetParam();
  const bool returning = strike.state == "Returning";
  const Operation moving = begun(returning ? "Restarting" : strike.state);
  if (returning) {
    set_start_faults(1);
    ASSERT_TRUE(reaches(moving.id, "Returning"));
  }
  if (strike.state == "Saving") world.play(300ms);
  strike.strike(world, source, destination);
  set_start_faults(0);
  const Operation ended = world.wait(moving.id, 30min);
  ASSERT_TRUE(ended.finished()) << ended.state;
  EXPECT_NE(ended.outcome, Outcome::NeedsOperator) << ended.reason;
  world.play(60s);
  EXPECT_TRUE(world.cluster.capture_files().empty());
  if (!strike.vm_lives) {
    EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 10min));
    return;
  }
  const auto runs = world.cluster.running_on(kMoved);
  ASSERT_TRUE(runs) << ended.reason;
  EXPECT_EQ(vm(kMoved.value).host, *runs);
  expect_right_result(first);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Strikes, testing::ValuesIn(strikes()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace mare::test
