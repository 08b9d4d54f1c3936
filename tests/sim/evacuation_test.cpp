// A host that fails at a known time: what leaves, what is saved, what is left, whoever dies
// meanwhile. The verdict on a single move is a stand-in: every strategy takes what the test says.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/sim/checkpoint_world.h"
#include "tests/sim/said_verdict.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Evacuation : public CheckpointWorld {
 protected:
  void SetUp() override {
    world.forecast = [this](const policy::ForecastInput& in) { return judge(in); };
    CheckpointWorld::SetUp();
    if (HasFatalFailure()) return;
    threatened = host_of("demo-1");
  }

  policy::Verdict judge(const policy::ForecastInput& input) const {
    StrategyForecast figures;
    figures.total_time_s = {longest_s / 2, longest_s / 4, longest_s, longest_s / 2};
    figures.sent_bytes = {2e8, 1e8, 3e8, 2e8};
    figures.added_job_time_s = {0.5, 0.2, 1, 0.5};
    policy::Verdict out = same_for_all(input, figures);
    choose(out, Strategy::PreCopy);
    return out;
  }

  Result<Operation> evacuate(double within_s, const std::string& reason = {}) {
    return world.engine().submit(engine::EvacuateRequest{threatened, Seconds{within_s}, reason});
  }
  Host row() {
    for (const auto& host : world.hosts()) {
      if (host.id == threatened) return host;
    }
    return {};
  }
  std::vector<Operation> children(const OperationId& parent, OperationKind kind) {
    std::vector<Operation> out;
    for (const auto& one : world.operations()) {
      if (one.parent == parent && one.kind == kind) out.push_back(one);
    }
    return out;
  }
  static std::string fate(const Operation& ended, const std::string& vm) {
    const auto request = nlohmann::json::parse(ended.request);
    for (const auto& one : request.value("fates", nlohmann::json::array())) {
      if (one["vm"] == vm) return one["fate"];
    }
    return "";
  }
  bool is_back() {
    return world.play_while_not(
        [&] { return job(first).restarts == 1 && job(first).state == JobState::Running; }, 5min);
  }
  void slow_links() {
    for (const auto& host : world.cluster.hosts()) {
      ASSERT_TRUE(world.cluster.set_uplink(host, BytesPerSecond{1e6}));
    }
  }

  HostId threatened;
  double longest_s = 3;
};

TEST_F(Evacuation, WhatFitsLeavesAndNothingIsInterrupted) {
  const auto begun = evacuate(60, "DIMM B2");
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(ended.state, "Done");
  EXPECT_THAT(ended.reason, HasSubstr("1 of 1 VM moved: demo-1 (to h"));
  EXPECT_EQ(fate(ended, "demo-1"), "moved");
  EXPECT_LT(ended.ended, ended.deadline) << "an empty host is not waited for";
  EXPECT_NE(host_of("demo-1"), threatened);
  EXPECT_EQ(row().admin, HostAdmin::Drained);
  EXPECT_TRUE(children(ended.id, OperationKind::CheckpointTake).empty());
  ASSERT_TRUE(world.cluster.kill_host(threatened));
  expect_right_result(first);
  EXPECT_EQ(job(first).restarts, 0);
}

TEST_F(Evacuation, ADryRunTellsThePlanAndMovesNothing) {
  const auto dry =
      end_of(world.engine().submit(engine::EvacuationForecastRequest{threatened, Seconds{60}}));
  EXPECT_EQ(dry.kind, OperationKind::PlanEvacuate);
  EXPECT_EQ(dry.outcome, Outcome::Succeeded) << dry.reason;
  EXPECT_EQ(dry.reason, "1 VM can leave in time: demo-1");
  const auto plan = nlohmann::json::parse(dry.request)["plan"];
  ASSERT_EQ(plan["moves"].size(), 1U) << dry.request;
  EXPECT_EQ(plan["moves"][0]["vm"], "demo-1");
  EXPECT_LE(plan["moves"][0]["ends_s"].get<double>(), 60);
  EXPECT_EQ(host_of("demo-1"), threatened);
  EXPECT_EQ(row().admin, HostAdmin::Active);
}

TEST_F(Evacuation, AJobThatCannotLeaveIsSavedAndComesBack) {
  longest_s = 100;
  const auto begun = evacuate(12);
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(ended.state, "Done");
  EXPECT_GE(ended.ended, ended.deadline);
  EXPECT_EQ(fate(ended, "demo-1"), "covered") << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("1 of 1 VM covered by a checkpoint: demo-1 (by ck-"));
  ASSERT_FALSE(complete(first).empty());
  EXPECT_LE(complete(first).back().completed, ended.deadline);
  EXPECT_EQ(host_of("demo-1"), threatened);
  EXPECT_TRUE(children(ended.id, OperationKind::VmMigrate).empty());
  // It was submitted without checkpoints of its own.
  ASSERT_TRUE(world.cluster.kill_host(threatened));
  ASSERT_TRUE(is_back()) << job(first).reason;
  EXPECT_NE(host_of("demo-1"), threatened);
  expect_right_result(first);
}

TEST_F(Evacuation, TheHostMayDieBeforeItsTime) {
  longest_s = 100;
  const auto begun = evacuate(25);
  ASSERT_TRUE(begun);
  ASSERT_TRUE(world.play_while_not([&] { return !complete(first).empty(); }, 25s));
  ASSERT_TRUE(world.cluster.kill_host(threatened));
  const auto ended = end_of(begun);
  EXPECT_TRUE(ended.outcome == Outcome::Succeeded || ended.outcome == Outcome::Failed);
  EXPECT_THAT(ended.reason, testing::AnyOf(HasSubstr("brought back"), HasSubstr("covered")));
  ASSERT_TRUE(is_back()) << job(first).reason;
  expect_right_result(first);
}

TEST_F(Evacuation, TheHostMayDieWhileItsVmIsOnItsWay) {
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);
  slow_links();
  const auto begun = evacuate(40);
  ASSERT_TRUE(begun);
  ASSERT_TRUE(world.play_while_not([&] { return vm("demo-1").state == VmState::Migrating; }, 30s));
  world.play(2s);
  ASSERT_TRUE(world.cluster.kill_host(threatened));
  const auto ended = end_of(begun);
  EXPECT_TRUE(ended.finished());
  EXPECT_FALSE(ended.reason.empty());
  ASSERT_TRUE(world.cluster.boot_host(threatened));
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 30min));
}

TEST_F(Evacuation, AMoveThatTakesTooLongGivesWayToACheckpoint) {
  ASSERT_EQ(take(first).outcome, Outcome::Succeeded);  // so that it is known how long one takes
  slow_links();                                        // what was said to take 3 s takes minutes
  const auto begun = evacuate(18);
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(fate(ended, "demo-1"), "covered") << ended.reason;
  const auto moves = children(ended.id, OperationKind::VmMigrate);
  ASSERT_FALSE(moves.empty());
  for (const auto& move : moves) EXPECT_EQ(move.outcome, Outcome::Cancelled) << move.reason;
  EXPECT_GT(complete(first).front().began, begun->created);
  ASSERT_TRUE(world.cluster.kill_host(threatened));
  ASSERT_TRUE(is_back()) << job(first).reason;
  expect_right_result(first);
}

TEST_F(Evacuation, WhatIsLeftIsTold) {
  longest_s = 100;
  slow_links();
  sim::CaptureModel model;
  model.disk_is_full = true;
  world.cluster.set_capture_model(model);
  const auto begun = evacuate(12);
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_EQ(ended.state, "Partial");
  EXPECT_EQ(ended.error_code, to_string(Code::ResourceExhausted));
  EXPECT_EQ(fate(ended, "demo-1"), "left") << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("1 of 1 VM left: demo-1 ("));
  EXPECT_EQ(row().admin, HostAdmin::Drained) << "nothing new comes to a host that fails";
  expect_right_result(first);
}

TEST_F(Evacuation, AskedAgainItIsTheSameAndOnlyAnEarlierDeadlineCounts) {
  longest_s = 100;
  const auto begun = evacuate(25);
  ASSERT_TRUE(begun);
  world.play(2s);
  const auto later = evacuate(60);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->id, begun->id);
  EXPECT_EQ(later->deadline, begun->deadline);
  const auto earlier = evacuate(5, "it smokes");
  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->id, begun->id);
  EXPECT_LT(earlier->deadline, begun->deadline);
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.deadline, earlier->deadline);
  EXPECT_GE(ended.ended, ended.deadline);
  EXPECT_LT(ended.ended, begun->deadline);
  EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
    const auto lines = reader.history(ended.id);
    EXPECT_TRUE(lines && std::any_of(lines->begin(), lines->end(), [](const auto& line) {
                  return line.event == "Tighten" &&
                         line.detail.find("it smokes") != std::string::npos;
                }));
    return ok_status();
  }));
}

TEST_F(Evacuation, ACancelPutsTheHostBackIntoUse) {
  longest_s = 100;
  const auto begun = evacuate(25);
  ASSERT_TRUE(begun);
  world.play(3s);
  EXPECT_EQ(row().admin, HostAdmin::Draining);
  ASSERT_TRUE(world.engine().cancel(begun->id));
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled);
  EXPECT_EQ(ended.state, "Failed");
  EXPECT_THAT(ended.reason, HasSubstr("in use as before"));
  EXPECT_EQ(row().admin, HostAdmin::Active);
  expect_right_result(first);
}

TEST_F(Evacuation, WithoutForecastsJobsAreSavedAndMovesAreTried) {
  sim::HostModel blind;
  blind.dirty_log_refused = "no PAGEMAP_SCAN";
  for (const char* name : {"b1", "b2"}) ASSERT_TRUE(world.add_host(name, blind));
  engine::PoolCreateRequest request;
  request.id = PoolId{"blind"};
  request.size = 2;
  request.hosts = {HostId{"b1"}};
  ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  threatened = HostId{"b1"};
  const auto ended = end_of(evacuate(60));
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(fate(ended, "blind-0"), "moved") << ended.reason;
  EXPECT_EQ(fate(ended, "blind-1"), "moved") << ended.reason;
}

TEST_F(Evacuation, GoesOnAfterAMaredThatIsKilledAtAnyMoment) {
  longest_s = 100;
  const auto begun = evacuate(20);
  ASSERT_TRUE(begun);
  for (int i = 0; i < 8; ++i) {
    world.play(1500ms);
    world.kill_mared();
    world.play(300ms);
    world.start_mared();
  }
  const auto ended = end_of(begun);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(ended.deadline, begun->deadline);
  EXPECT_GT(ended.attempt, 8);
  ASSERT_TRUE(world.cluster.kill_host(threatened));
  ASSERT_TRUE(is_back()) << job(first).reason;
  expect_right_result(first);
}

TEST_F(Evacuation, AnEmptyHostIsCordonedAtOnce) {
  ASSERT_TRUE(world.add_host("h9"));
  threatened = HostId{"h9"};
  const auto ended = end_of(evacuate(60));
  EXPECT_EQ(ended.outcome, Outcome::Succeeded);
  EXPECT_EQ(ended.reason, "there was no VM");
  EXPECT_EQ(row().admin, HostAdmin::Drained);
}

TEST_F(Evacuation, BadRequestsAreRefusedAndChangeNothing) {
  EXPECT_EQ(evacuate(0.5).error().field, "within_s");
  EXPECT_EQ(evacuate(86401).error().field, "within_s");
  const HostId known = threatened;
  threatened = HostId{"nope"};
  EXPECT_EQ(evacuate(60).error().code, Code::NotFound);
  threatened = known;
  std::vector<HostId> others;
  for (const auto& host : world.hosts()) {
    if (host.id != known) others.push_back(host.id);
  }
  for (const auto& other : others) ASSERT_TRUE(world.cluster.silence_host(other, 20s));
  ASSERT_TRUE(world.play_while_not(
      [&] {
        const auto hosts = world.hosts();
        return std::count_if(hosts.begin(), hosts.end(),
                             [](const Host& host) { return host.health == HostHealth::Down; }) == 2;
      },
      15s));
  const auto refused = evacuate(60);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::FailedPrecondition);
  EXPECT_THAT(refused.error().text(), HasSubstr("no other host"));
  EXPECT_EQ(row().admin, HostAdmin::Active);
  ASSERT_TRUE(world.play_while_not(
      [&] {
        const auto hosts = world.hosts();
        return std::all_of(hosts.begin(), hosts.end(), [](const Host& host) {
          return host.health == HostHealth::Up && host.fence == HostFence::None;
        });
      },
      60s));
  ASSERT_TRUE(world.engine().submit(engine::HostDrainRequest{known}));
  EXPECT_EQ(evacuate(60).error().code, Code::Conflict);
}

}  // namespace
}  // namespace mare::test
