// A running job's VMs over more hosts or on fewer, on days when all goes well and when it does not.
// The verdict on a single move is a stand-in: every strategy costs what the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/sim/invariants.h"
#include "tests/sim/said_verdict.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class LayoutTest : public testing::Test {
 protected:
  LayoutTest() {
    world.forecast = [this](const policy::ForecastInput& in) { return verdict.judge(in); };
  }

  void SetUp() override {
    world.start_mared();
    world.on_step([this] {
      invariants.check_moment();
      if (world.store_is_open()) invariants.check_rows();
    });
  }
  void TearDown() override {
    world.play_while_not([this] { return world.all_ended(); }, 60min);
    world.play(20s);
    invariants.check_quiet();
    world.on_step({});
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }

  void add_host(const std::string& name, int cpus = 2, std::uint64_t memory_mib = 4096) {
    sim::HostModel model;
    model.cpus = cpus;
    model.memory = mebibytes(memory_mib);
    ASSERT_TRUE(world.add_host(name, model));
  }
  Operation end_of(Result<Operation> accepted) {
    EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
    return accepted ? world.wait(accepted->id, 60min) : Operation{};
  }
  void make_pool(int size, const std::vector<HostId>& hosts = {}) {
    engine::PoolCreateRequest request;
    request.id = PoolId{"demo"};
    request.size = size;
    request.hosts = hosts;
    ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  }
  Operation run_job(int ranks, int work_s) {
    engine::JobSubmitRequest request;
    request.pool = PoolId{"demo"};
    request.command = {"solver", "--sim-work=" + std::to_string(work_s)};
    request.ranks = ranks;
    auto accepted = world.engine().submit(request);
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    EXPECT_TRUE(world.play_while_not(
        [&] { return world.jobs().front().state == JobState::Running; }, 1min));
    return accepted ? *accepted : Operation{};
  }
  /// Four ranks on one host of two cpus, and another host that has just come.
  Operation crowd(int work_s = 120) {
    add_host("h1");
    make_pool(4);
    const auto job = run_job(4, work_s);
    add_host("h2");
    return job;
  }

  static engine::LayoutWish spread_wish() {
    engine::LayoutWish wish;
    wish.remaining = Seconds{600};
    return wish;
  }
  static engine::LayoutWish pack_wish(int hosts = 0) {
    engine::LayoutWish wish = spread_wish();
    wish.layout = policy::Layout::Pack;
    wish.hosts = hosts;
    return wish;
  }
  JobId job_id() { return world.jobs().front().id; }
  Result<Operation> ask(const engine::LayoutWish& wish) {
    return world.engine().submit(engine::LayoutChangeRequest{job_id(), wish});
  }
  Operation change(const engine::LayoutWish& wish) { return end_of(ask(wish)); }
  Operation dry_run(const engine::LayoutWish& wish) {
    return end_of(world.engine().submit(engine::LayoutForecastRequest{job_id(), wish}));
  }
  std::map<std::string, int> vms_by_host() {
    std::map<std::string, int> out;
    for (const auto& vm : world.vms()) ++out[vm.host ? vm.host->value : "nowhere"];
    return out;
  }
  bool moving() {
    const auto vms = world.vms();
    return std::any_of(vms.begin(), vms.end(),
                       [](const Vm& vm) { return vm.state == VmState::Migrating; });
  }
  std::size_t moves() {
    const auto all = world.operations();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& one) {
      return one.kind == OperationKind::VmMigrate;
    }));
  }
  void slow_links() {
    for (const auto& host : world.cluster.hosts()) {
      ASSERT_TRUE(world.cluster.set_uplink(host, BytesPerSecond{5e6}));
    }
  }

  using Map = std::map<std::string, int>;
  SimWorld world{11};
  Invariants invariants{world};
  SaidVerdict verdict;
};

TEST_F(LayoutTest, AJobIsSpreadOverAHostThatHasCome) {
  const auto job = crowd();
  const auto ended = change(spread_wish());
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(ended.state, "Done");
  EXPECT_EQ(ended.reason, "2 moves made; the job's VMs are on 2 hosts");
  EXPECT_EQ(ended.progress, 1);
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h2", 2}}));
  EXPECT_EQ(moves(), 2U);
  EXPECT_EQ(world.wait(job.id, 60min).outcome, Outcome::Succeeded) << "it never noticed";
}

TEST_F(LayoutTest, ADryRunTellsThePlanAndMovesNothing) {
  crowd();
  const auto ended = dry_run(spread_wish());
  EXPECT_EQ(ended.kind, OperationKind::PlanLayout);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("2 moves to 2 hosts: the slowest rank's slow-down goes from "
                                      "2.00 to 1.00, which gains 300.0 s over the 600 s"));
  EXPECT_THAT(ended.reason, HasSubstr("as stated"));
  EXPECT_THAT(ended.request, HasSubstr("\"worth\":true"));
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 4}}));
  EXPECT_EQ(moves(), 0U);
}

TEST_F(LayoutTest, MovesThatCostMoreThanTheyBringAreRefused) {
  verdict.move_s = 400;
  const auto job = crowd();
  const auto refused = change(spread_wish());
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_EQ(refused.state, "Failed");
  EXPECT_EQ(refused.error_code, to_string(Code::FailedPrecondition));
  EXPECT_THAT(refused.reason, HasSubstr("stays: 2 moves to 2 hosts would gain 300.0 s over the 600 "
                                        "s that remain, not more than the"));
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 4}}));
  EXPECT_EQ(moves(), 0U);
  auto forced = spread_wish();
  forced.force = true;
  EXPECT_EQ(change(forced).outcome, Outcome::Succeeded);
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h2", 2}}));
  EXPECT_EQ(world.wait(job.id, 60min).outcome, Outcome::Succeeded);
}

TEST_F(LayoutTest, WhatIsWellPlacedStays) {
  add_host("h1", 4);
  make_pool(4);
  run_job(4, 60);
  add_host("h2");
  const auto ended = change(spread_wish());
  EXPECT_EQ(ended.outcome, Outcome::Succeeded);
  EXPECT_EQ(ended.state, "Done");
  EXPECT_THAT(ended.reason, HasSubstr("none of its hosts is asked for more cpus than it has"));
  EXPECT_EQ(moves(), 0U);
}

TEST_F(LayoutTest, AJobIsPackedWhenItIsForced) {
  add_host("h1", 2);
  add_host("h2", 2);
  make_pool(4);
  const auto job = run_job(4, 600);
  ASSERT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h2", 2}}));
  const auto refused = change(pack_wish(1));
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_THAT(refused.reason, HasSubstr("which loses 600.0 s over the 600 s that remain"));
  EXPECT_EQ(moves(), 0U);
  auto forced = pack_wish(1);
  forced.force = true;
  const auto ended = change(forced);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(vms_by_host().size(), 1U);
  EXPECT_EQ(world.wait(job.id, 60min).outcome, Outcome::Succeeded);
}

TEST_F(LayoutTest, TwoHostsThenFourThenOne) {
  add_host("h1");
  add_host("h2");
  make_pool(8);
  const auto job = run_job(8, 300);
  add_host("h3");
  add_host("h4");
  EXPECT_EQ(change(spread_wish()).outcome, Outcome::Succeeded);
  EXPECT_EQ(vms_by_host().size(), 4U);
  auto one = pack_wish(1);
  one.force = true;
  const auto packed = change(one);
  EXPECT_EQ(packed.outcome, Outcome::Succeeded) << packed.reason;
  EXPECT_EQ(vms_by_host().size(), 1U);
  EXPECT_EQ(world.wait(job.id, 60min).outcome, Outcome::Succeeded);
}

TEST_F(LayoutTest, WhatDoesNotFitIsRefused) {
  add_host("h1", 2, 800);  // room for three VMs of 192 + 64 MiB
  add_host("h2", 2, 800);
  make_pool(4);
  run_job(4, 60);
  const auto refused = change(pack_wish(1));
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_EQ(refused.error_code, to_string(Code::ResourceExhausted));
  EXPECT_THAT(refused.reason, HasSubstr("do not fit on 1 host"));
  EXPECT_EQ(moves(), 0U);
}

TEST_F(LayoutTest, VmsThatHadBetterNotMoveStay) {
  verdict.movable = false;
  crowd();
  const auto ended = change(spread_wish());
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << "there was nothing to do";
  EXPECT_THAT(ended.reason, HasSubstr("no move helps it"));
  EXPECT_THAT(ended.reason, HasSubstr("is not to be moved: Do not move: it is said so"));
  EXPECT_THAT(ended.reason, HasSubstr("and 1 more"));
  EXPECT_EQ(moves(), 0U);
}

TEST_F(LayoutTest, APoolThatIsLimitedToHostsIsNotSpreadBeyondThem) {
  add_host("h1");
  add_host("h2");
  make_pool(4, {HostId{"h1"}});
  run_job(4, 60);
  EXPECT_THAT(change(spread_wish()).reason, HasSubstr("no move helps it"));
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 4}}));
}

TEST_F(LayoutTest, OnlyAJobThatRunsIsMoved) {
  crowd(30);
  const JobId job = job_id();
  EXPECT_EQ(world.engine().submit(engine::LayoutChangeRequest{JobId{"nope"}, {}}).error().code,
            Code::NotFound);
  auto wish = spread_wish();
  wish.hosts = -1;
  EXPECT_EQ(ask(wish).error().field, "hosts");
  wish = spread_wish();
  wish.remaining = Seconds{0};
  EXPECT_EQ(ask(wish).error().field, "remaining_s");
  world.play_while_not([&] { return world.all_ended(); }, 10min);
  const auto late = world.engine().submit(engine::LayoutChangeRequest{job, spread_wish()});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::FailedPrecondition);
  EXPECT_THAT(late.error().message, HasSubstr("is succeeded"));
}

TEST_F(LayoutTest, AskedTwiceItIsDoneOnce) {
  crowd();
  const auto first = ask(spread_wish());
  ASSERT_TRUE(first);
  const auto second = ask(pack_wish());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::Conflict);
  EXPECT_THAT(second.error().text(), HasSubstr(first->id.value));
  EXPECT_EQ(end_of(first).outcome, Outcome::Succeeded);
}

TEST_F(LayoutTest, ACancelWhileItIsCostedMovesNothing) {
  crowd();
  world.executor.slow_next("host/h1", 20s);
  const auto begun = ask(spread_wish());
  ASSERT_TRUE(begun);
  world.play(100ms);
  ASSERT_EQ(world.operation(begun->id).state, "Costing");
  ASSERT_TRUE(world.engine().cancel(begun->id));
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
  EXPECT_EQ(ended.state, "Failed");
  EXPECT_EQ(moves(), 0U);
}

TEST_F(LayoutTest, ACancelWhileItMovesTellsWhatWasReached) {
  crowd();
  slow_links();
  const auto begun = ask(spread_wish());
  ASSERT_TRUE(begun);
  ASSERT_TRUE(world.play_while_not([&] { return vms_by_host()["h2"] == 1; }, 10min));
  ASSERT_TRUE(world.engine().cancel(begun->id));
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
  EXPECT_EQ(ended.state, "Partial");
  EXPECT_THAT(ended.reason, HasSubstr("1 of 2 moves made, the job's VMs are on 2 hosts"));
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 3}, {"h2", 1}}));
}

TEST_F(LayoutTest, AHostThatFailsWhileItIsCostedIsPlannedAround) {
  crowd();
  add_host("h3");
  world.executor.slow_next("host/h2", 4s);
  const auto begun = ask(spread_wish());
  ASSERT_TRUE(begun);
  world.play(500ms);
  ASSERT_TRUE(world.cluster.kill_host(HostId{"h2"}));
  const auto ended = end_of(begun);
  // Either its death was seen in time, or it is told which VM could not move.
  EXPECT_NE(ended.outcome, Outcome::NeedsOperator) << ended.reason;
  EXPECT_EQ(vms_by_host()["h2"], 0);
  EXPECT_FALSE(ended.reason.empty());
  ASSERT_TRUE(world.play_while_not(
      [&] {
        const auto hosts = world.hosts();
        return std::any_of(hosts.begin(), hosts.end(), [](const Host& host) {
          return host.id.value == "h2" && host.health == HostHealth::Down;
        });
      },
      5min));
  const auto again = change(spread_wish());
  EXPECT_EQ(again.outcome, Outcome::Succeeded) << again.reason;
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h3", 2}}));
}

TEST_F(LayoutTest, AHostThatFailsWhileItMovesEndsItWithWhatWasReached) {
  const auto job = crowd();
  slow_links();
  const auto begun = ask(spread_wish());
  ASSERT_TRUE(begun);
  ASSERT_TRUE(world.play_while_not([&] { return moving(); }, 5min));
  world.play(2s);
  ASSERT_TRUE(world.cluster.kill_host(HostId{"h2"}));
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
  EXPECT_EQ(ended.state, "Failed");
  EXPECT_THAT(ended.reason, HasSubstr("0 of 2 moves made, the job's VMs are on 1 host"));
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 4}}));
  ASSERT_TRUE(world.cluster.boot_host(HostId{"h2"}));
  EXPECT_EQ(world.wait(job.id, 60min).outcome, Outcome::Succeeded) << "it goes on where it was";
}

TEST_F(LayoutTest, AJobThatEndsMeanwhileIsMovedNoFurther) {
  crowd(20);
  slow_links();
  const auto begun = ask(spread_wish());
  ASSERT_TRUE(begun);
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("is succeeded by now; 1 of 2 moves made"));
}

TEST_F(LayoutTest, ARestartGoesOnWhereItWas) {
  crowd();
  slow_links();
  const auto begun = ask(spread_wish());
  ASSERT_TRUE(begun);
  for (const char* state : {"Costing", "Moving"}) {
    ASSERT_TRUE(
        world.play_while_not([&] { return world.operation(begun->id).state == state; }, 5min));
    world.play(700ms);
    world.kill_mared();
    world.play(1s);
    world.start_mared();
  }
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h2", 2}}));
}

TEST_F(LayoutTest, WhatRemainsIsTakenFromEarlierRuns) {
  crowd(30);
  auto unstated = spread_wish();
  unstated.remaining.reset();
  EXPECT_THAT(dry_run(unstated).reason, HasSubstr("is expected to run as long again"));
  world.play_while_not([&] { return world.all_ended(); }, 10min);
  run_job(4, 30);
  EXPECT_THAT(dry_run(unstated).reason, HasSubstr("1 earlier run of it took"));
}

class AutoSpreadTest : public LayoutTest {
 protected:
  AutoSpreadTest() { world.auto_spread = Seconds{10}; }
  std::vector<Operation> all_of(OperationKind kind) {
    auto all = world.operations();
    std::erase_if(all, [kind](const Operation& one) { return one.kind != kind; });
    return all;
  }
};

TEST_F(AutoSpreadTest, AJobGoesToAHostThatHasComeByItself) {
  const auto job = crowd();
  EXPECT_TRUE(world.play_while_not(
      [&] {
        return vms_by_host() == Map{{"h1", 2}, {"h2", 2}};
      },
      5min));
  world.play(1min);
  const auto changes = all_of(OperationKind::LayoutChange);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].outcome, Outcome::Succeeded) << changes[0].reason;
  EXPECT_THAT(changes[0].request, HasSubstr("came into use: 'h2'"));
  EXPECT_EQ(moves(), 2U) << "and that was that";
  EXPECT_EQ(world.wait(job.id, 60min).outcome, Outcome::Succeeded);
}

TEST_F(AutoSpreadTest, NotIfItCostsMoreThanItBrings) {
  verdict.move_s = 400;
  crowd(120);
  world.play(1min);
  const auto plans = all_of(OperationKind::PlanLayout);
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0].outcome, Outcome::Succeeded);
  EXPECT_THAT(plans[0].reason, HasSubstr("stays"));
  EXPECT_TRUE(all_of(OperationKind::LayoutChange).empty()) << "nothing that failed is left behind";
  EXPECT_EQ(moves(), 0U);
}

TEST_F(AutoSpreadTest, NoJobIsPlannedThatIsWellPlaced) {
  add_host("h1", 4);
  make_pool(4);
  run_job(4, 60);
  add_host("h2");
  world.play(1min);
  EXPECT_TRUE(all_of(OperationKind::PlanLayout).empty());
}

TEST_F(AutoSpreadTest, AHostThatIsActivatedOrComesBackCountsAsCome) {
  add_host("h1");
  add_host("h2");
  ASSERT_EQ(end_of(world.engine().submit(engine::HostDrainRequest{HostId{"h2"}})).outcome,
            Outcome::Succeeded);
  make_pool(4);
  run_job(4, 600);
  world.play(1min);
  ASSERT_EQ(vms_by_host(), (Map{{"h1", 4}}));
  ASSERT_TRUE(world.engine().activate(HostId{"h2"}));
  EXPECT_TRUE(world.play_while_not(
      [&] {
        return vms_by_host() == Map{{"h1", 2}, {"h2", 2}};
      },
      5min));
}

TEST_F(AutoSpreadTest, ARestartBeforeItActedForgetsNothing) {
  crowd();
  world.play(1s);
  world.kill_mared();
  world.play(1s);
  world.start_mared();
  EXPECT_TRUE(world.play_while_not(
      [&] {
        return vms_by_host() == Map{{"h1", 2}, {"h2", 2}};
      },
      5min));
}

TEST_F(LayoutTest, ByDefaultNothingMovesByItself) {
  crowd();
  world.play(2min);
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 4}}));
}

}  // namespace
}  // namespace mare::test
