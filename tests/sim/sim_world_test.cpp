// The world without faults: a day on which everything works, and one kill of mared.
#include "tests/sim/sim_world.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  /// From the commit on the source hears nothing for so long, so nobody can end the copy that is
  /// left there.
  void move_and_silence_the_source(const VmId& id, const HostId& source, MonotonicTime silence) {
    world.kill_mared();
    world.start_mared([this, source, silence](const Operation& operation) {
      if (operation.state != "Committed") return;
      EXPECT_TRUE(world.cluster.silence_host(source, silence));
    });
    world.cluster.break_next_switch(id, sim::BrokenSwitch::HandedOver);
    engine::MigrateRequest move;
    move.vm = id;
    move.policy.strategy = Strategy::PreCopy;
    ASSERT_EQ(done(world.engine().submit(move)).outcome, Outcome::Succeeded);
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

class PostCopyWorld : public World {
 protected:
  /// A migration by post-copy in its middle, of a VM that takes long to send.
  Operation begin() {
    make_pool(2);
    for (const auto& host : world.cluster.hosts()) {
      EXPECT_TRUE(world.cluster.set_uplink(host, BytesPerSecond{10e6}));
    }
    source = *vm(0).host;
    engine::MigrateRequest move;
    move.vm = vm(0).id;
    move.policy.strategy = Strategy::PostCopy;
    auto accepted = world.engine().submit(move);
    EXPECT_TRUE(accepted.ok());
    EXPECT_TRUE(world.play_while_not(
        [&] { return world.operation(accepted->id).state == "PostCopying"; }, 10s));
    destination = *vm(0).host;
    world.play(2s);
    return world.operation(accepted->id);
  }
  HostId source;
  HostId destination;
};

TEST_F(PostCopyWorld, TheRowNamesTheDestinationFromTheSwitchOn) {
  const auto operation = begin();
  EXPECT_NE(source, destination);
  EXPECT_EQ(world.cluster.running_on(vm(0).id), destination);
  EXPECT_EQ(world.cluster.copy_on(source, vm(0).id), Copy::Paused);
  EXPECT_EQ(vm(0).state, VmState::Migrating);
  EXPECT_FALSE(world.engine().cancel(operation.id)) << "there is no way back";
  const auto ended = world.wait(operation.id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(world.cluster.copy_on(source, vm(0).id), Copy::Absent);
  EXPECT_EQ(vm(0).host, destination);
}

TEST_F(PostCopyWorld, ABrokenLinkIsMendedWhenItIsBack) {
  const auto operation = begin();
  ASSERT_TRUE(world.cluster.cut_host(source, 20s));
  world.play(10s);
  EXPECT_EQ(world.cluster.running_on(vm(0).id), std::nullopt) << "it waits for its pages";
  const auto ended = world.wait(operation.id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(world.cluster.running_on(vm(0).id), destination);
  EXPECT_TRUE(world.cluster.endings().empty());
}

TEST_F(PostCopyWorld, ADeadSourceIsALostVmAndSaidSo) {
  const auto operation = begin();
  ASSERT_TRUE(world.cluster.kill_host(source));
  world.play(20s);
  ASSERT_TRUE(world.cluster.boot_host(source));
  const auto ended = world.wait(operation.id);
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
  EXPECT_NE(ended.reason.find("lost"), std::string::npos) << ended.reason;
  EXPECT_EQ(vm(0).state, VmState::Failed);
  EXPECT_EQ(vm(0).host, std::nullopt);
  EXPECT_EQ(world.cluster.copy_on(destination, vm(0).id), Copy::Absent);
  // It can be started again, as any VM that failed.
  const auto again = done(world.engine().submit(engine::VmStartRequest{vm(0).id, {}}));
  EXPECT_EQ(again.outcome, Outcome::Succeeded) << again.reason;
}

TEST_F(PostCopyWorld, ADeadDestinationIsALostVmThoughTheSourceHasMostOfIt) {
  const auto operation = begin();
  ASSERT_TRUE(world.cluster.kill_host(destination));
  world.play(20s);
  ASSERT_TRUE(world.cluster.boot_host(destination));
  const auto ended = world.wait(operation.id);
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
  EXPECT_EQ(vm(0).state, VmState::Failed);
  EXPECT_EQ(world.cluster.copy_on(source, vm(0).id), Copy::Absent);
}

TEST_F(PostCopyWorld, AKilledMaredGoesOnWithIt) {
  const auto operation = begin();
  ASSERT_TRUE(world.cluster.break_migration(vm(0).id));
  world.kill_mared();
  world.play(5s);
  world.start_mared();
  const auto ended = world.wait(operation.id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(world.cluster.running_on(vm(0).id), destination);
}

/// The operation has given up, the VM runs again at its destination by other hands, and its pages
/// still come from the source: they must not be ended with the source's copy.
TEST_F(PostCopyWorld, ASourceThatStillHoldsPagesIsNoStray) {
  const auto operation = begin();
  const Vm moved = vm(0);
  ASSERT_TRUE(world.cluster.cut_host(source, 5min));
  const auto ended = world.wait(operation.id);
  EXPECT_EQ(ended.outcome, Outcome::NeedsOperator) << ended.reason;
  EXPECT_EQ(vm(0).state, VmState::Lost);
  world.play(5min);  // the link is back
  ASSERT_TRUE(world.cluster.set_uplink(source, BytesPerSecond{2e6}));
  MigrationTicket ticket;
  ticket.operation = operation.id;
  ticket.vm.id = moved.id;
  ticket.vm.uuid = moved.uuid;
  ticket.sending.strategy = Strategy::PostCopy;
  const auto by_hand = sim::make_sim_driver(world.cluster, source);
  ASSERT_TRUE(by_hand->begin_outgoing(ticket, {"sim://" + destination.value}));
  ASSERT_TRUE(world.play_while_not([&] { return vm(0).state == VmState::Running; }, 60s));
  world.play(10s);
  EXPECT_EQ(world.cluster.copy_on(source, moved.id), Copy::Paused) << "still sending";
  world.play(20min);
  EXPECT_EQ(world.cluster.copy_on(source, moved.id), Copy::Absent);
  EXPECT_EQ(world.cluster.running_on(moved.id), destination);
  EXPECT_TRUE(world.cluster.endings().empty());
}

TEST_F(World, AMigrationThatBrokeInAPostCopyNobodyHeardOfIsALostVm) {
  make_pool(1);
  const VmId id = vm(0).id;
  const HostId source = *vm(0).host;
  for (const auto& host : world.cluster.hosts()) {
    EXPECT_TRUE(world.cluster.set_uplink(host, BytesPerSecond{10e6}));
  }
  engine::MigrateRequest move;
  move.vm = id;
  move.policy.strategy = Strategy::Hybrid;
  auto accepted = world.engine().submit(move);
  ASSERT_TRUE(accepted) << accepted.error().text();
  ASSERT_TRUE(world.play_while_not(
      [&] { return world.operation(accepted->id).state == "PreCopying"; }, 10s));
  const auto sends = [&] {
    const auto copies = world.cluster.copies();
    return std::any_of(copies.begin(), copies.end(), [](const auto& c) { return c.sending; });
  };
  ASSERT_TRUE(world.play_while_not(sends, 10s));
  // Its agent is silent from before the switch until the destination has died in post-copy.
  ASSERT_TRUE(world.cluster.silence_host(source, 100s));
  ASSERT_TRUE(world.play_while_not(
      [&] { return world.cluster.running_on(id) && *world.cluster.running_on(id) != source; },
      90s));
  const HostId destination = *world.cluster.running_on(id);
  ASSERT_EQ(world.operation(accepted->id).state, "PreCopying");
  ASSERT_TRUE(world.cluster.kill_host(destination));
  ASSERT_TRUE(world.cluster.boot_host(destination));
  const auto ended = world.wait(accepted->id);
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
  EXPECT_NE(ended.reason.find("lost"), std::string::npos) << ended.reason;
  EXPECT_EQ(vm(0).state, VmState::Failed);
  EXPECT_EQ(world.cluster.copy_on(source, id), Copy::Absent);
  ASSERT_EQ(world.cluster.endings().size(), 1U);
  EXPECT_EQ(world.cluster.endings().front().cause, sim::EndCause::PagesLost);
}

TEST_F(World, AtItsTimeLimitAMigrationIsEndedAsThePolicySays) {
  make_pool(1);
  const VmId id = vm(0).id;
  world.cluster.set_migration_model({.downtime_limit = 1ms, .max_rounds = 1'000'000});
  ASSERT_TRUE(world.cluster.set_dirtying(id, 1e9, mebibytes(150)));
  for (const auto how : {LimitAction::Cancel, LimitAction::StopAndCopy, LimitAction::PostCopy}) {
    SCOPED_TRACE(std::string(to_string(how)));
    const auto before = vm(0).host;
    engine::MigrateRequest move;
    move.vm = id;
    move.policy.strategy = Strategy::PreCopy;
    move.policy.time_limit = Seconds{5};
    move.policy.at_limit = how;
    const auto ended = done(world.engine().submit(move));
    const bool cancelled = how == LimitAction::Cancel;
    EXPECT_EQ(ended.outcome, cancelled ? Outcome::Failed : Outcome::Succeeded) << ended.reason;
    EXPECT_EQ(vm(0).host == before, cancelled);
    EXPECT_EQ(world.cluster.running_on(id), vm(0).host);
  }
}

TEST_F(World, AVmThatDiedOnBothHostsFails) {
  make_pool(1);
  const VmId id = vm(0).id;
  engine::MigrateRequest move;
  move.vm = id;
  move.policy.strategy = Strategy::PreCopy;
  move.policy.bandwidth_limit = BytesPerSecond{2e6};
  auto accepted = world.engine().submit(move);
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(world.play_while_not(
      [&] { return world.operation(accepted->id).state == "PreCopying"; }, 10s));
  world.play(1s);
  ASSERT_TRUE(world.cluster.panic_guest(id));
  const auto ended = world.wait(accepted->id);
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
  EXPECT_EQ(ended.state, "Failed");
  EXPECT_EQ(vm(0).state, VmState::Failed);
  EXPECT_FALSE(vm(0).reason.empty());
}

TEST_F(World, ARequestThatCanNotBeGrantedNamesItsField) {
  make_pool(1);
  const auto refused = [&](const PolicyChange& policy) {
    engine::MigrateRequest move;
    move.vm = vm(0).id;
    move.policy = policy;
    auto accepted = world.engine().submit(move);
    return accepted ? std::string("accepted") : accepted.error().field;
  };
  PolicyChange policy;
  policy.strategy = Strategy::CheckpointRestart;
  policy.bandwidth_limit = BytesPerSecond{10e6};
  EXPECT_EQ(refused(policy), "bandwidth_limit_bytes_per_s");
  policy.bandwidth_limit.reset();
  policy.at_limit = LimitAction::PostCopy;
  EXPECT_EQ(refused(policy), "at_limit");
  policy = {};
  policy.strategy = Strategy::Compressed;
  policy.at_limit = LimitAction::PostCopy;
  EXPECT_EQ(refused(policy), "at_limit");
  policy = {};
  policy.time_limit = Seconds{0};
  EXPECT_EQ(refused(policy), "time_limit_s");
  policy = {};
  policy.bandwidth_limit = BytesPerSecond{10};
  EXPECT_EQ(refused(policy), "bandwidth_limit_bytes_per_s");
}

/// A host that mared does not know, with parts of VMs that were there.
class StandbyWorld : public World {
 protected:
  void SetUp() override {
    ASSERT_TRUE(world.cluster.add_host(host, {.memory = mebibytes(448)}));
    driver = sim::make_sim_driver(world.cluster, host);
  }
  /// Takes 192 MiB there, and its part 128.
  static VmSpec spec(int index) {
    VmSpec vm;
    vm.id = VmId{"by-hand-" + std::to_string(index)};
    vm.uuid = "uuid-" + std::to_string(index);
    vm.memory = mebibytes(128);
    return vm;
  }
  /// Of a VM that is gone since.
  CheckpointPart part_of(int index) {
    const VmSpec made = spec(index);
    EXPECT_TRUE(driver->start(made));
    CaptureTicket ticket;
    ticket.checkpoint = checkpoint;
    ticket.vm = made.key();
    ticket.path = "/ck/" + made.id.value;
    EXPECT_TRUE(driver->begin_capture(ticket));
    world.play(2s);
    auto durable = driver->release_capture(made.key(), checkpoint);
    EXPECT_TRUE(durable);
    CheckpointPart part;
    if (!durable) return part;
    EXPECT_EQ(durable->phase, CapturePhase::Durable);
    part.vm = made.id;
    part.uuid = made.uuid;
    part.path = ticket.path;
    part.size = durable->size;
    part.checksum = durable->checksum;
    part.partner = host;
    EXPECT_TRUE(driver->destroy(made.key()));
    return part;
  }
  /// Why each is not kept, "" if it is.
  std::vector<std::string> keep(const std::vector<CheckpointPart>& parts) {
    auto answers = driver->keep_standby(parts);
    EXPECT_TRUE(answers);
    std::vector<std::string> why_not;
    if (!answers) return why_not;
    for (const auto& one : *answers) {
      EXPECT_EQ(one.kept, one.why_not.empty());
      EXPECT_EQ(one.memory, one.kept ? mebibytes(128) : Bytes{});
      why_not.push_back(one.why_not);
    }
    return why_not;
  }
  bool loads_mapped(const CheckpointPart& part, int index) {
    auto loaded = driver->load_capture(spec(index), checkpoint, part);
    EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().text());
    return loaded && loaded->mapped;
  }
  std::vector<std::string> standbys() const { return world.cluster.standbys(host); }

  const HostId host{"aside"};
  const CheckpointId checkpoint{"ck-by-hand"};
  std::unique_ptr<Driver> driver;
};

TEST_F(StandbyWorld, PartsTakeWhatVmsLeaveAndGiveWayToThem) {
  std::vector<CheckpointPart> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(part_of(i));
  const std::vector<std::string> three{parts[0].path, parts[1].path, parts[2].path};
  for (int time = 0; time < 2; ++time) {
    const auto why_not = keep(parts);
    ASSERT_EQ(why_not.size(), 4U);
    EXPECT_TRUE(why_not[3].starts_with("no room")) << why_not[3];
    EXPECT_EQ(standbys(), three) << "twice is as good as once";
  }
  ASSERT_TRUE(driver->start(spec(9)));
  EXPECT_EQ(standbys(), (std::vector<std::string>{parts[1].path, parts[2].path}));
  EXPECT_EQ(keep({parts[2]}), (std::vector<std::string>{""}));
  EXPECT_EQ(standbys(), (std::vector<std::string>{parts[2].path}));
  EXPECT_FALSE(loads_mapped(parts[2], 2)) << "there is no room for it beside its own VM";
  EXPECT_TRUE(standbys().empty());
  ASSERT_TRUE(driver->destroy(spec(9).key()));
  ASSERT_TRUE(driver->destroy(spec(2).key()));
  EXPECT_EQ(keep({parts[2]}), (std::vector<std::string>{""}));
  EXPECT_TRUE(loads_mapped(parts[2], 2));
  EXPECT_TRUE(loads_mapped(parts[2], 2)) << "asked again";
  EXPECT_EQ(standbys(), (std::vector<std::string>{parts[2].path}));
}

TEST_F(StandbyWorld, PartsOutliveTheAgentAndNotTheHost) {
  const CheckpointPart part = part_of(0);
  EXPECT_EQ(keep({part}), (std::vector<std::string>{""}));
  ASSERT_TRUE(world.cluster.restart_agent(host, 1s));
  world.play(2s);
  EXPECT_EQ(standbys().size(), 1U);
  EXPECT_TRUE(loads_mapped(part, 0));
  ASSERT_TRUE(world.cluster.kill_host(host));
  EXPECT_TRUE(standbys().empty());
  ASSERT_TRUE(world.cluster.boot_host(host));
  EXPECT_FALSE(loads_mapped(part, 0));
  EXPECT_EQ(keep({part}), (std::vector<std::string>{""}));
  ASSERT_TRUE(world.cluster.damage_file(part.path));
  EXPECT_NE(keep({part}), (std::vector<std::string>{""}));
  EXPECT_TRUE(standbys().empty());
  ASSERT_TRUE(world.cluster.add_host(HostId{"older"}, {.standby = false}));
  auto older = sim::make_sim_driver(world.cluster, HostId{"older"})->keep_standby({part});
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, Code::Unsupported);
}

TEST_F(World, DeletingThePoolLeavesNothing) {
  make_pool(2);
  const auto gone = done(world.engine().submit(engine::PoolDeleteRequest{PoolId{"demo"}, false}));
  EXPECT_EQ(gone.outcome, Outcome::Succeeded) << gone.reason;
  EXPECT_TRUE(world.cluster.copies().empty());
  EXPECT_TRUE(world.vms().empty());
}

TEST_F(World, ACopyOfADeletedPoolIsEndedWhenItsHostIsBack) {
  make_pool(1);
  const HostId source = *vm(0).host;
  const VmId id = vm(0).id;
  move_and_silence_the_source(id, source, 300s);
  done(world.engine().submit(engine::PoolDeleteRequest{PoolId{"demo"}, true}));
  ASSERT_TRUE(world.vms().empty());
  ASSERT_EQ(world.cluster.copy_on(source, id), Copy::Paused);
  EXPECT_TRUE(world.play_while_not(
      [&] { return world.cluster.copy_on(source, id) == Copy::Absent; }, 600s));
}

TEST_F(World, AHostThatAnswersIsNotForgottenWithACopyOnIt) {
  make_pool(1);
  const HostId source = *vm(0).host;
  const VmId id = vm(0).id;
  move_and_silence_the_source(id, source, 20s);
  ASSERT_EQ(world.cluster.copy_on(source, id), Copy::Paused);
  const auto health = [&] {
    for (const auto& host : world.hosts()) {
      if (host.id == source) return host.health;
    }
    return HostHealth::Down;
  };
  ASSERT_TRUE(world.play_while_not([&] { return health() == HostHealth::Down; }, 30s));
  ASSERT_TRUE(world.play_while_not([&] { return health() == HostHealth::Up; }, 60s));
  Operation removed = done(world.engine().submit(engine::HostRemoveRequest{source}));
  for (int i = 0; i < 20 && removed.outcome == Outcome::Failed; ++i) {
    EXPECT_NE(removed.reason.find("still has a copy of VM '" + id.value), std::string::npos)
        << removed.reason;
    world.play(1s);
    removed = done(world.engine().submit(engine::HostRemoveRequest{source}));
  }
  EXPECT_EQ(removed.outcome, Outcome::Succeeded) << removed.reason;
  EXPECT_EQ(world.cluster.copy_on(source, id), Copy::Absent);
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
