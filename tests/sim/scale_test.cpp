// Pools that grow and shrink, on days when all goes well and when it does not. What is always
// asked: the pool's size, its rows and what runs are the same number, and it is the one that was
// told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/sim/invariants.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Scale : public testing::Test {
 protected:
  void SetUp() override {
    world.start_mared();
    // Room for three VMs of 192 + 64 MiB on each.
    sim::HostModel model;
    model.memory = mebibytes(800);
    for (const char* name : {"h1", "h2", "h3"}) ASSERT_TRUE(world.add_host(name, model));
    world.on_step([this] {
      invariants.check_moment();
      if (world.store_is_open()) invariants.check_rows();
    });
  }
  void TearDown() override {
    world.play_while_not([this] { return world.all_ended(); }, 30min);
    world.play(20s);
    invariants.check_quiet();
    world.on_step({});
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }

  Operation end_of(Result<Operation> accepted) {
    EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
    return accepted ? world.wait(accepted->id, 30min) : Operation{};
  }
  void make_pool(int size) {
    engine::PoolCreateRequest request;
    request.id = PoolId{"demo"};
    request.size = size;
    ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  }
  Result<Operation> ask(int size, bool best_effort = false) {
    return world.engine().submit(engine::PoolScaleRequest{PoolId{"demo"}, size, best_effort});
  }
  Operation scale(int size, bool best_effort = false) { return end_of(ask(size, best_effort)); }
  Operation submit_job(int ranks, int work_s) {
    engine::JobSubmitRequest request;
    request.pool = PoolId{"demo"};
    request.command = {"solver", "--sim-work=" + std::to_string(work_s)};
    request.ranks = ranks;
    auto accepted = world.engine().submit(request);
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    return accepted ? *accepted : Operation{};
  }
  std::set<std::string> names() {
    std::set<std::string> out;
    for (const auto& vm : world.vms()) out.insert(vm.id.value);
    return out;
  }
  int size() { return world.pools().front().size; }
  int running() {
    const auto vms = world.vms();
    return static_cast<int>(std::count_if(
        vms.begin(), vms.end(), [](const Vm& vm) { return vm.state == VmState::Running; }));
  }
  /// The pool has so many VMs, by every way of counting.
  void expect_size(int wanted) {
    EXPECT_EQ(size(), wanted);
    EXPECT_EQ(running(), wanted);
    EXPECT_EQ(names().size(), static_cast<std::size_t>(wanted));
    EXPECT_EQ(world.cluster.copies().size(), static_cast<std::size_t>(wanted));
  }
  bool play_until_state(const OperationId& id, const std::string& state) {
    return world.play_while_not([&] { return world.operation(id).state == state; }, 1min);
  }

  SimWorld world{1};
  Invariants invariants{world};
};

TEST_F(Scale, GrowsAndShrinksAndGrowsAgain) {
  make_pool(2);
  const auto grown = scale(5);
  EXPECT_EQ(grown.outcome, Outcome::Succeeded) << grown.reason;
  EXPECT_EQ(grown.reason, "the pool has 5 VMs");
  expect_size(5);
  std::set<std::uint32_t> addresses;
  for (const auto& vm : world.vms()) addresses.insert(vm.ip.value);
  EXPECT_EQ(addresses.size(), 5U);
  std::string uuid;
  for (const auto& vm : world.vms()) {
    if (vm.id.value == "demo-4") uuid = vm.uuid;
  }
  EXPECT_EQ(scale(1).outcome, Outcome::Succeeded);
  expect_size(1);
  EXPECT_EQ(names(), std::set<std::string>{"demo-0"});
  EXPECT_EQ(scale(5).outcome, Outcome::Succeeded);
  expect_size(5);
  for (const auto& vm : world.vms()) EXPECT_NE(vm.uuid, uuid) << "another incarnation";
}

TEST_F(Scale, TheSameSizeIsReachedAtOnce) {
  make_pool(2);
  const auto nothing = scale(2);
  EXPECT_EQ(nothing.outcome, Outcome::Succeeded);
  EXPECT_EQ(nothing.state, "Done");
  EXPECT_THAT(nothing.reason, HasSubstr("already"));
  expect_size(2);
}

TEST_F(Scale, AskedTwiceItIsDoneOnce) {
  make_pool(2);
  const auto first = ask(4);
  ASSERT_TRUE(first);
  const auto second = ask(4);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, first->id);
  const auto other = ask(5);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::Conflict);
  EXPECT_THAT(other.error().text(), HasSubstr(first->id.value));
  EXPECT_EQ(ask(4, true).error().code, Code::Conflict) << "another wish";
  EXPECT_EQ(end_of(first).outcome, Outcome::Succeeded);
  expect_size(4);
}

TEST_F(Scale, AllOrNothingIsRefusedWhereThereIsNoRoom) {
  make_pool(2);
  const auto refused = ask(10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::ResourceExhausted);
  EXPECT_THAT(refused.error().text(), HasSubstr("7 of 8 more VMs have a place"));
  expect_size(2);
  for (const int wrong : {0, -1, 1025}) {
    EXPECT_EQ(ask(wrong).error().field, "size") << wrong;
  }
  EXPECT_EQ(world.engine().submit(engine::PoolScaleRequest{PoolId{"nope"}, 2, false}).error().code,
            Code::NotFound);
}

TEST_F(Scale, BestEffortTellsWhatItReached) {
  make_pool(2);
  const auto some = scale(12, true);
  EXPECT_EQ(some.outcome, Outcome::Failed) << "12 were asked for";
  EXPECT_EQ(some.state, "Partial");
  EXPECT_EQ(some.error_code, to_string(Code::ResourceExhausted));
  EXPECT_THAT(some.reason, HasSubstr("the pool has 9 VMs, 12 were asked for"));
  expect_size(9);
  const auto full = ask(12, true);
  ASSERT_FALSE(full) << "not one more";
  EXPECT_EQ(full.error().code, Code::ResourceExhausted);
}

TEST_F(Scale, OneThatDoesNotComeUpTakesTheOthersWithIt) {
  make_pool(2);
  const auto begun = ask(5);
  ASSERT_TRUE(begun);
  ASSERT_TRUE(play_until_state(begun->id, "Growing"));
  world.play(2s);
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-3"}));
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_EQ(ended.state, "Failed");
  EXPECT_THAT(ended.reason, HasSubstr("VM 'demo-3'"));
  EXPECT_THAT(ended.reason, HasSubstr("the pool has 2 VMs, 5 were asked for"));
  expect_size(2);
}

TEST_F(Scale, ByBestEffortTheOthersStay) {
  make_pool(2);
  const auto begun = ask(5, true);
  ASSERT_TRUE(begun);
  ASSERT_TRUE(play_until_state(begun->id, "Growing"));
  world.play(2s);
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-3"}));
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_EQ(ended.state, "Partial");
  EXPECT_THAT(ended.reason, HasSubstr("the pool has 4 VMs, 5 were asked for"));
  expect_size(4);
  EXPECT_EQ(names(), (std::set<std::string>{"demo-0", "demo-1", "demo-2", "demo-4"}));
  EXPECT_EQ(scale(5).outcome, Outcome::Succeeded);
  EXPECT_TRUE(names().contains("demo-3")) << "the lowest free number";
}

TEST_F(Scale, ACancelHalfWayLeavesAStatedSize) {
  make_pool(2);
  for (const bool best_effort : {false, true}) {
    SCOPED_TRACE(best_effort ? "best effort" : "all or nothing");
    const auto begun = ask(6, best_effort);
    ASSERT_TRUE(begun);
    world.executor.slow_next("guest/demo-5", 20s);
    ASSERT_TRUE(world.play_while_not([&] { return running() > 2; }, 1min));
    ASSERT_TRUE(world.engine().cancel(begun->id));
    const auto ended = end_of(begun);
    EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
    EXPECT_EQ(ended.state, best_effort ? "Partial" : "Failed");
    EXPECT_THAT(ended.reason, HasSubstr("the pool has " + std::to_string(size()) + " VMs, 6 were"));
    if (best_effort) {
      EXPECT_GT(size(), 2);
    } else {
      EXPECT_EQ(size(), 2);
    }
    expect_size(size());
  }
}

TEST_F(Scale, RunningRanksAreNeverTaken) {
  make_pool(4);
  const auto first = submit_job(2, 40);
  world.play(2s);
  const auto second = submit_job(1, 5);  // on demo-2
  world.play(2s);
  ASSERT_EQ(world.jobs().front().vms, std::vector<VmId>{VmId{"demo-2"}});
  const auto refused = ask(2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::FailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("3 VMs run ranks"));
  EXPECT_THAT(refused.error().message, HasSubstr(second.target));
  EXPECT_THAT(refused.error().remedy, HasSubstr("mare job cancel " + second.target));
  EXPECT_THAT(refused.error().remedy, HasSubstr("shrink to 3"));
  const auto some = scale(2, true);
  EXPECT_EQ(some.state, "Partial") << some.reason;
  EXPECT_EQ(some.error_code, to_string(Code::FailedPrecondition));
  expect_size(3);
  world.wait(second.id);
  EXPECT_EQ(scale(2).outcome, Outcome::Succeeded);
  expect_size(2);
  EXPECT_EQ(world.wait(first.id).outcome, Outcome::Succeeded) << "it never noticed";
}

TEST_F(Scale, AVmBehindARankGoesFirst) {
  make_pool(3);
  const auto small = submit_job(1, 3);
  world.play(1s);
  const auto large = submit_job(2, 40);  // demo-1, demo-2
  world.wait(small.id);
  EXPECT_EQ(scale(2).outcome, Outcome::Succeeded);
  EXPECT_EQ(names(), (std::set<std::string>{"demo-1", "demo-2"}));
  EXPECT_EQ(world.wait(large.id).outcome, Outcome::Succeeded);
}

TEST_F(Scale, AJobThatWaitsKeepsWhatItWaitsFor) {
  make_pool(4);
  submit_job(1, 30);
  world.play(1s);
  const auto waiting = submit_job(4, 2);
  const auto refused = ask(3);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(waiting.target + " waits for 4 VMs"));
  EXPECT_EQ(ask(3, true).error().code, Code::FailedPrecondition) << "nothing can go";
  EXPECT_EQ(world.wait(waiting.id).outcome, Outcome::Succeeded);
}

TEST_F(Scale, NoJobBeginsOnAVmThatGoes) {
  make_pool(4);
  const auto shrinking = ask(2);
  ASSERT_TRUE(shrinking);
  engine::JobSubmitRequest large;
  large.pool = PoolId{"demo"};
  large.command = {"solver", "--sim-work=1"};
  large.ranks = 3;
  EXPECT_EQ(world.engine().submit(large).error().field, "ranks") << "two will be left";
  const auto job = submit_job(2, 5);
  world.play(1s);
  EXPECT_EQ(end_of(shrinking).outcome, Outcome::Succeeded);
  EXPECT_EQ(world.wait(job.id).outcome, Outcome::Succeeded);
  expect_size(2);
}

TEST_F(Scale, NoJobBeginsOnAVmThatMayGoAgain) {
  make_pool(1);
  submit_job(1, 60);
  world.play(2s);
  const auto growing = ask(3);
  ASSERT_TRUE(growing);
  const auto job = submit_job(1, 5);
  world.executor.slow_next("guest/demo-2", 20s);
  ASSERT_TRUE(world.play_while_not([&] { return running() > 1; }, 1min));
  ASSERT_TRUE(world.engine().cancel(growing->id));
  EXPECT_EQ(end_of(growing).outcome, Outcome::Cancelled);
  EXPECT_EQ(world.wait(job.id).outcome, Outcome::Succeeded) << "it waited for demo-0";
  expect_size(1);
}

TEST_F(Scale, WhatComesOrGoesIsNotAnybodyElses) {
  make_pool(2);
  const auto begun = ask(1);
  ASSERT_TRUE(begun);
  const VmId goes{"demo-1"};
  EXPECT_EQ(world.engine().submit(engine::VmStopRequest{goes, true}).error().code, Code::Conflict);
  EXPECT_EQ(world.engine().submit(engine::VmStartRequest{goes, {}}).error().code, Code::Conflict);
  engine::MigrateRequest move;
  move.vm = goes;
  EXPECT_THAT(world.engine().submit(move).error().text(), HasSubstr(begun->id.value));
  EXPECT_EQ(end_of(begun).outcome, Outcome::Succeeded);
  expect_size(1);
}

TEST_F(Scale, AVmThatMovesIsWaitedFor) {
  make_pool(2);
  engine::MigrateRequest move;
  move.vm = VmId{"demo-1"};
  move.policy.bandwidth_limit = BytesPerSecond{20e6};
  const auto moving = world.engine().submit(move);
  ASSERT_TRUE(moving);
  ASSERT_TRUE(play_until_state(moving->id, "PreCopying"));
  EXPECT_EQ(scale(1).outcome, Outcome::Succeeded);
  EXPECT_EQ(world.operation(moving->id).outcome, Outcome::Succeeded);
  expect_size(1);
}

TEST_F(Scale, AVmWhoseHostIsSilentStaysUntilItIsKnownToBeGone) {
  make_pool(3);
  const HostId host = *world.vms().at(2).host;
  ASSERT_TRUE(world.cluster.cut_host(host, 5min));
  const auto unclear = scale(2);
  EXPECT_EQ(unclear.outcome, Outcome::NeedsOperator) << unclear.reason;
  EXPECT_THAT(unclear.reason, HasSubstr("'demo-2' could not be ended"));
  EXPECT_THAT(unclear.reason, HasSubstr("the pool has 3 VMs, 2 were asked for"));
  EXPECT_EQ(size(), 3);
  world.play(6min);
  EXPECT_EQ(scale(2).outcome, Outcome::Succeeded);
  expect_size(2);
}

TEST_F(Scale, ADrainGoesOnWithoutTheVmsThatWent) {
  engine::PoolCreateRequest request;
  request.id = PoolId{"demo"};
  request.size = 3;
  request.hosts = {HostId{"h1"}};
  ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  for (const char* host : {"h1", "h2", "h3"}) {
    ASSERT_TRUE(world.cluster.set_uplink(HostId{host}, BytesPerSecond{10e6}));
  }
  const auto drain = world.engine().submit(engine::HostDrainRequest{HostId{"h1"}});
  ASSERT_TRUE(drain);
  const auto moves = [&] {
    const auto vms = world.vms();
    return std::any_of(vms.begin(), vms.end(),
                       [](const Vm& vm) { return vm.state == VmState::Migrating; });
  };
  ASSERT_TRUE(world.play_while_not(moves, 2min));
  EXPECT_EQ(scale(1).outcome, Outcome::Succeeded);
  EXPECT_EQ(end_of(drain).outcome, Outcome::Succeeded) << world.operation(drain->id).reason;
  for (const auto& copy : world.cluster.copies()) EXPECT_NE(copy.host, HostId{"h1"});
  expect_size(1);
}

TEST_F(Scale, AQuotaOfHostsIsKept) {
  Quota quota{ProjectId{kDefaultProject}};
  quota.hosts = 2;
  ASSERT_TRUE(world.engine().set_quota(quota));
  make_pool(4);
  const auto some = scale(9, true);
  EXPECT_EQ(some.state, "Partial") << "three VMs have a place on each of two hosts";
  EXPECT_THAT(some.reason, HasSubstr("may use 2 hosts"));
  expect_size(6);
  std::set<std::string> hosts;
  for (const auto& copy : world.cluster.copies()) hosts.insert(copy.host.value);
  EXPECT_EQ(hosts.size(), 2U);
}

class LargeScale : public Scale {
 protected:
  void SetUp() override {
    Scale::SetUp();
    sim::HostModel large;
    large.memory = mebibytes(16384);
    ASSERT_TRUE(world.add_host("h9", large));
  }
};

TEST_F(LargeScale, AShrinkThatIsCancelledKeepsWhatHadNotBegunToEnd) {
  make_pool(40);
  const auto begun = ask(2);
  ASSERT_TRUE(begun);
  ASSERT_TRUE(play_until_state(begun->id, "Shrinking"));
  ASSERT_TRUE(world.engine().cancel(begun->id));
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
  EXPECT_EQ(ended.state, "Partial");
  EXPECT_GT(size(), 2);
  EXPECT_LT(size(), 40);
  EXPECT_THAT(ended.reason, HasSubstr("the pool has " + std::to_string(size()) + " VMs"));
  expect_size(size());
}

}  // namespace
}  // namespace mare::test
