// A migration that goes far beyond its forecast is given up and begun anew; one that was asked for
// by name goes on and says it. What is forecast first is a stand-in, as a wrong one is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/sim/invariants.h"
#include "tests/sim/said_verdict.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class OverrunTest : public testing::Test {
 protected:
  void SetUp() override {
    world.forecast = [this](const policy::ForecastInput& in) { return judge(in); };
    // As QEMU: no number of rounds ends it.
    sim::MigrationModel endless;
    endless.max_rounds = 1'000'000;
    world.cluster.set_migration_model(endless);
    world.start_mared();
    for (const char* name : {"h1", "h2"}) ASSERT_TRUE(world.add_host(name));
    engine::PoolCreateRequest pool;
    pool.id = PoolId{"demo"};
    pool.size = 1;
    pool.hosts = {HostId{"h1"}};
    auto made = world.engine().submit(pool);
    ASSERT_TRUE(made);
    ASSERT_EQ(world.wait(made->id, 30min).outcome, Outcome::Succeeded);
    ASSERT_TRUE(world.cluster.set_link(HostId{"h1"}, HostId{"h2"}, BytesPerSecond{20e6}));
    write(60e6);
    world.on_step([this] { invariants.check_moment(); });
  }
  void TearDown() override {
    world.play_while_not([this] { return world.all_ended(); }, 60min);
    world.play(20s);
    world.on_step({});
    invariants.check_quiet();
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }

  /// Says of every strategy that it takes 8 s, at most 9, and takes the first that is offered of
  /// `order`.
  policy::Verdict judge(const policy::ForecastInput& input) {
    asked.push_back(input);
    if (asked.size() > stand_ins) return policy::forecast(input);
    StrategyForecast figures;
    figures.total_time_s = {8, 7, 9, 8};
    policy::Verdict out = same_for_all(input, figures);
    std::optional<Strategy> choice;
    for (auto wanted = order.rbegin(); wanted != order.rend(); ++wanted) {
      if (why_not(input, *wanted).empty()) choice = *wanted;
    }
    choose(out, choice);
    return out;
  }
  static std::string why_not(const policy::ForecastInput& input, Strategy strategy) {
    for (const auto& offer : input.offers) {
      if (offer.strategy == strategy) return offer.why_not;
    }
    return "not among the offers";
  }

  void write(double bytes_per_s) {
    ASSERT_TRUE(world.cluster.set_dirtying(vm, bytes_per_s, mebibytes(128)));
  }
  Operation move(const std::function<void(engine::MigrateRequest&)>& change = {}) {
    engine::MigrateRequest request;
    request.vm = vm;
    request.destination = HostId{"h2"};
    if (change) change(request);
    auto accepted = world.engine().submit(request);
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    return accepted ? *accepted : Operation{};
  }
  bool comes_to(const Operation& of, MigrationState state) {
    const auto is_there = [&] { return world.operation(of.id).state == to_string(state); };
    // In small steps: some it leaves soon.
    for (const auto end = world.clock.now() + 2min; world.clock.now() < end; world.play(5ms)) {
      if (is_there()) return true;
    }
    return is_there();
  }
  Migration migration(const Operation& of) {
    Result<Migration> row = make_error(Code::Internal, "not asked");
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      row = reader.migration(of.id);
      return ok_status();
    });
    EXPECT_TRUE(row);
    return row ? *row : Migration{};
  }
  std::vector<ScoredVerdict> verdicts(const Operation& of) {
    Result<Forecast> row = make_error(Code::Internal, "not asked");
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      row = reader.forecast(of.id);
      return ok_status();
    });
    EXPECT_TRUE(row);
    return row ? row->verdicts : std::vector<ScoredVerdict>{};
  }
  /// Pre-copy by name, stopped or forced after 30 s.
  Operation move_with_limit(LimitAction at_limit) {
    return world.wait(move([at_limit](engine::MigrateRequest& request) {
                        request.policy.strategy = Strategy::PreCopy;
                        request.policy.time_limit = std::optional<Seconds>{Seconds{30}};
                        request.policy.at_limit = at_limit;
                        request.force = true;  // the forecast may say that it had better not
                      }).id,
                      30min);
  }
  Vm vm_row() { return world.vms().front(); }

  SimWorld world{11};
  Invariants invariants{world};
  const VmId vm{"demo-0"};
  std::vector<Strategy> order{Strategy::PreCopy, Strategy::Compressed, Strategy::RateControlled,
                              Strategy::Hybrid};
  std::size_t stand_ins = 100;
  std::vector<policy::ForecastInput> asked;
};

TEST_F(OverrunTest, ItIsBegunAnewAndAfterTwoTriesByWhatNeedNotConverge) {
  const Operation ended = world.wait(move().id, 30min);
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(vm_row().host, HostId{"h2"});
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_THAT(why_not(asked[1], Strategy::PreCopy),
              HasSubstr("it was tried: 8.00 s were forecast"));
  EXPECT_EQ(why_not(asked[1], Strategy::RateControlled), "");
  EXPECT_THAT(why_not(asked[2], Strategy::RateControlled), HasSubstr("2 tries did not"));
  const Migration moved = migration(ended);
  EXPECT_EQ(moved.sending.strategy, Strategy::Hybrid);
  EXPECT_TRUE(moved.reconsiders.empty());
  ASSERT_EQ(moved.earlier.size(), 2U);
  EXPECT_EQ(moved.earlier[0].strategy, Strategy::PreCopy);
  EXPECT_EQ(moved.earlier[1].strategy, Strategy::Compressed);
  for (const auto& one : moved.earlier) {
    EXPECT_DOUBLE_EQ(one.said_s.high, 9);
    EXPECT_GE(one.lasted, 14s) << "5 s beyond the end of the interval";
    EXPECT_LE(one.lasted, 40s);
    EXPECT_GE(one.sent, mebibytes(100));
    EXPECT_GE(one.rounds, 2);
  }
  // Hybrid has no verdict: it need not converge.
  EXPECT_EQ(verdicts(ended),
            (std::vector<ScoredVerdict>{{1, Strategy::PreCopy, VerdictScore::Wrong},
                                        {2, Strategy::Compressed, VerdictScore::Wrong}}));
}

TEST_F(OverrunTest, AVerdictIsScoredHoweverTheMoveEnds) {
  const auto one = [](VerdictScore score) {
    return std::vector<ScoredVerdict>{{1, Strategy::PreCopy, score}};
  };
  const Operation stopped = move_with_limit(LimitAction::Cancel);
  EXPECT_EQ(stopped.outcome, Outcome::Failed);
  EXPECT_EQ(verdicts(stopped), one(VerdictScore::Wrong));
  stand_ins = 0;  // the real models see that it never ends
  const Operation foretold = move_with_limit(LimitAction::Cancel);
  EXPECT_EQ(foretold.outcome, Outcome::Failed);
  EXPECT_EQ(verdicts(foretold), one(VerdictScore::Right));
  stand_ins = 100;
  const Operation forced = move_with_limit(LimitAction::StopAndCopy);
  EXPECT_EQ(forced.outcome, Outcome::Succeeded) << forced.reason;
  EXPECT_EQ(verdicts(forced), one(VerdictScore::Wrong));
}

TEST_F(OverrunTest, AnIdleGuestsMoveEndsAsWasSaid) {
  write(0);
  ASSERT_TRUE(world.cluster.set_link(HostId{"h1"}, HostId{"h2"}, BytesPerSecond{125e6}));
  const Operation ended = world.wait(move().id, 30min);
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(verdicts(ended),
            (std::vector<ScoredVerdict>{{1, Strategy::PreCopy, VerdictScore::Right}}));
}

TEST_F(OverrunTest, WhatTheUserCancelsTellsNothing) {
  const Operation begun =
      move([](engine::MigrateRequest& request) { request.policy.strategy = Strategy::PreCopy; });
  world.play(2min);
  ASSERT_TRUE(world.engine().cancel(begun.id));
  EXPECT_EQ(world.wait(begun.id).outcome, Outcome::Cancelled);
  EXPECT_TRUE(verdicts(begun).empty());
}

TEST_F(OverrunTest, WhatWasSeenBeforeIsLeftOutOfTheNextForecast) {
  world.play(3min);
  const Operation ended = world.wait(move().id, 30min);
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  ASSERT_GE(asked.size(), 2U);
  const auto before = asked[0].profile.cycles.front().began;
  ASSERT_FALSE(asked[1].profile.cycles.empty());
  EXPECT_GT(asked[1].profile.cycles.front().began, before + 3min);
  const auto& points = asked[1].profile.cycles.back().points;
  ASSERT_FALSE(points.empty());
  EXPECT_GE(points.back().wall, 5s) << "its guest was not watched before it was forecast anew";
}

/// The real models see it after one try, from what the guest writes since.
TEST_F(OverrunTest, AGuestThatBeganToWriteMeanwhileIsSeenTo) {
  stand_ins = 0;
  write(1e6);
  world.play(2min);
  const Operation begun = move();
  ASSERT_TRUE(comes_to(begun, MigrationState::PreCopying));
  write(60e6);
  const Operation ended = world.wait(begun.id, 30min);
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  const Migration moved = migration(ended);
  ASSERT_EQ(moved.earlier.size(), 1U);
  EXPECT_NE(moved.sending.strategy, moved.earlier[0].strategy);
  EXPECT_EQ(vm_row().host, HostId{"h2"});
}

/// It is the agent that asks its hypervisor for post-copy. This one never ends by its rounds.
TEST_F(OverrunTest, AHybridMoveWhoseAgentWasRestartedSwitchesAllTheSame) {
  const Operation begun =
      move([](engine::MigrateRequest& request) { request.policy.strategy = Strategy::Hybrid; });
  ASSERT_TRUE(comes_to(begun, MigrationState::PreCopying));
  world.play(1s);
  ASSERT_TRUE(world.cluster.restart_agent(HostId{"h1"}, 300ms));
  const Operation ended = world.wait(begun.id, 2min);
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.state << " " << ended.reason;
  EXPECT_EQ(vm_row().host, HostId{"h2"});
}

TEST_F(OverrunTest, OneThatWasNamedGoesOnAndSaysIt) {
  const Operation begun =
      move([](engine::MigrateRequest& request) { request.policy.strategy = Strategy::PreCopy; });
  world.play(2min);
  const Operation now = world.operation(begun.id);
  EXPECT_EQ(now.state, to_string(MigrationState::PreCopying));
  EXPECT_THAT(now.reason, HasSubstr("pre-copy was to take 8.00 s (at most 9.00 s) and had not"));
  EXPECT_THAT(now.reason, HasSubstr("goes on"));
  EXPECT_EQ(asked.size(), 1U);
  ASSERT_TRUE(world.engine().cancel(begun.id));
  EXPECT_EQ(world.wait(begun.id).outcome, Outcome::Cancelled);
  EXPECT_EQ(vm_row().host, HostId{"h1"});
}

TEST_F(OverrunTest, ATimeLimitIsTheUsersWord) {
  const Operation ended = world.wait(move([](engine::MigrateRequest& request) {
                                       request.policy.time_limit =
                                           std::optional<Seconds>{Seconds{40}};
                                       request.policy.at_limit = LimitAction::StopAndCopy;
                                     }).id,
                                     30min);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  const Migration moved = migration(ended);
  EXPECT_TRUE(moved.earlier.empty());
  EXPECT_GE(*moved.total_time, 40s);
}

TEST_F(OverrunTest, OneThatConvergesSlowlyIsLetGoOn) {
  write(3e6);
  // Well beyond 1.5 times the interval's end.
  ASSERT_TRUE(world.cluster.set_link(HostId{"h1"}, HostId{"h2"}, BytesPerSecond{6e6}));
  const Operation ended = world.wait(move().id, 30min);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_TRUE(migration(ended).earlier.empty());
  EXPECT_GT(*migration(ended).total_time, 40s);
}

TEST_F(OverrunTest, DoNotMoveIsAnAnswerToo) {
  order = {Strategy::PreCopy};
  const Operation ended =
      world.wait(move([](engine::MigrateRequest& request) { request.force = true; }).id, 30min);
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_THAT(ended.reason, HasSubstr("Do not move"));
  EXPECT_EQ(vm_row().host, HostId{"h1"});
  EXPECT_EQ(vm_row().state, VmState::Running);
  EXPECT_EQ(migration(ended).earlier.size(), 1U);
}

TEST_F(OverrunTest, ACancelWhileItIsGivenUpEndsIt) {
  const Operation begun = move();
  ASSERT_TRUE(comes_to(begun, MigrationState::Aborting));
  ASSERT_TRUE(world.engine().cancel(begun.id));
  const Operation ended = world.wait(begun.id);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
  EXPECT_EQ(vm_row().host, HostId{"h1"});
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(OverrunTest, ACancelWhileItsGuestIsWatchedEndsIt) {
  const Operation begun = move();
  ASSERT_TRUE(comes_to(begun, MigrationState::Aborting));
  ASSERT_TRUE(comes_to(begun, MigrationState::Planned));
  world.play(1s);
  EXPECT_THAT(world.operation(begun.id).reason, HasSubstr("its guest is watched"));
  ASSERT_TRUE(world.engine().cancel(begun.id));
  EXPECT_EQ(world.wait(begun.id).outcome, Outcome::Cancelled);
  EXPECT_EQ(vm_row().host, HostId{"h1"});
}

/// mared is killed right after each state on the way; each time it goes on to the same end.
TEST_F(OverrunTest, ItGoesOnWhereMaredWasKilled) {
  const Operation begun = move();
  for (const auto state : {MigrationState::Aborting, MigrationState::Planned,
                           MigrationState::Reserved, MigrationState::PreCopying}) {
    ASSERT_TRUE(comes_to(begun, state)) << to_string(state);
    world.kill_mared();
    world.play(200ms);
    world.start_mared();
  }
  const Operation ended = world.wait(begun.id, 30min);
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(vm_row().host, HostId{"h2"});
  ASSERT_EQ(migration(ended).earlier.size(), 2U);
  EXPECT_EQ(migration(ended).earlier[0].strategy, Strategy::PreCopy);
  EXPECT_DOUBLE_EQ(migration(ended).earlier[0].said_s.high, 9);
  EXPECT_EQ(verdicts(ended),
            (std::vector<ScoredVerdict>{{1, Strategy::PreCopy, VerdictScore::Wrong},
                                        {2, Strategy::Compressed, VerdictScore::Wrong}}));
}

}  // namespace
}  // namespace mare::test
