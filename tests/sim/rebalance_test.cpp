// Running VMs are kept well placed over hours of virtual time, while hosts come, go and fail. The
// verdict on a single move is a stand-in: every strategy costs what the test says.
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

class Rebalances : public testing::Test {
 protected:
  Rebalances() {
    world.forecast = [this](const policy::ForecastInput& in) { return verdict.judge(in); };
    world.rebalance_period = Milliseconds{10'000};
  }

  void SetUp() override {
    world.start_mared();
    world.on_step([this] {
      invariants.check_moment();
      if (world.store_is_open()) invariants.check_rows();
    });
  }
  void TearDown() override {
    set(RebalanceMode::Manual);
    world.play_while_not([this] { return world.all_ended(); }, 60min);
    world.play(20s);
    invariants.check_quiet();
    world.on_step({});
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }

  void add_host(const std::string& name, std::uint64_t memory_mib = 4096) {
    sim::HostModel model;
    model.cpus = 4;
    model.memory = mebibytes(memory_mib);
    ASSERT_TRUE(world.add_host(name, model));
  }
  Operation end_of(Result<Operation> accepted) {
    EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
    return accepted ? world.wait(accepted->id, 60min) : Operation{};
  }
  void make_pool(int size, const std::string& name = "demo", std::uint64_t memory_mib = 192) {
    engine::PoolCreateRequest request;
    request.id = PoolId{name};
    request.size = size;
    request.memory = mebibytes(memory_mib);
    ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  }
  /// Four VMs on one host, and another host that has just come.
  void crowd() {
    add_host("h1");
    make_pool(4);
    add_host("h2");
  }
  void bring(const std::string& vm, const std::string& host) {
    for (const auto& row : world.vms()) {
      if (row.id.value == vm && row.host == HostId{host}) return;
    }
    engine::MigrateRequest request;
    request.vm = VmId{vm};
    request.destination = HostId{host};
    request.force = true;
    const auto ended = end_of(world.engine().submit(request));
    ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  }

  static RebalanceSetting setting(RebalanceMode mode) {
    RebalanceSetting out;
    out.mode = mode;
    return out;
  }
  void set(const RebalanceSetting& wanted) {
    const auto done = world.engine().set_rebalancing(wanted);
    ASSERT_TRUE(done) << done.error().text();
  }
  void set(RebalanceMode mode) { set(setting(mode)); }
  Rebalancing row() {
    Result<Rebalancing> out = make_error(Code::Internal, "not read");
    EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
      out = reader.rebalancing();
      return ok_status();
    }));
    return out ? *out : Rebalancing{};
  }
  std::vector<Operation> all_of(OperationKind kind) {
    auto out = world.operations();
    out.erase(std::remove_if(out.begin(), out.end(),
                             [kind](const Operation& one) { return one.kind != kind; }),
              out.end());
    return out;  // newest first
  }
  std::vector<Operation> rounds() { return all_of(OperationKind::ClusterRebalance); }
  /// Plays until a round has ended, and answers it.
  Operation next_round(std::chrono::seconds limit = 10min) {
    const std::size_t before = rounds().size();
    const bool came = world.play_while_not(
        [&] {
          const auto all = rounds();
          return all.size() > before && all.front().finished();
        },
        limit);
    EXPECT_TRUE(came) << row().reason;
    return came ? rounds().front() : Operation{};
  }
  Operation by_hand() { return end_of(world.engine().submit(engine::RebalanceRequest{})); }
  std::map<std::string, int> vms_by_host() {
    std::map<std::string, int> out;
    for (const auto& vm : world.vms()) ++out[vm.host ? vm.host->value : "nowhere"];
    return out;
  }
  std::size_t moves() { return all_of(OperationKind::VmMigrate).size(); }
  std::vector<Event> events_of(const std::string& type) {
    std::vector<Event> out;
    EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
      auto all = reader.events_after(0, 1'000'000);
      if (!all) return all.error();
      for (const auto& one : *all) {
        if (one.type == type) out.push_back(one);
      }
      return ok_status();
    }));
    return out;
  }
  void slow_links() {
    for (const auto& host : world.cluster.hosts()) {
      ASSERT_TRUE(world.cluster.set_uplink(host, BytesPerSecond{5e6}));
    }
  }
  /// Each VM's moves, oldest first, at least so far apart.
  void expect_rest(Seconds rest) {
    std::map<VmId, WallTime> last;
    EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
      auto all = reader.migrations(1'000'000);
      if (!all) return all.error();
      std::reverse(all->begin(), all->end());
      for (const auto& move : *all) {
        if (move.switched.count() == 0) continue;
        const auto before = last.find(move.vm);
        if (before != last.end()) {
          EXPECT_GE(Seconds{move.switched - before->second}.count(), rest.count())
              << move.vm.value << " by " << move.id.value;
        }
        last[move.vm] = move.switched;
      }
      return ok_status();
    }));
  }

  using Map = std::map<std::string, int>;
  SimWorld world{23};
  Invariants invariants{world};
  SaidVerdict verdict;
};

TEST_F(Rebalances, AHostThatComesIsUsedAfterTheHoldTime) {
  set(RebalanceMode::Automatic);
  crowd();
  world.play(30s);
  EXPECT_TRUE(rounds().empty()) << "not yet for 60 s";
  EXPECT_THAT(row().reason, HasSubstr("not yet for 60 s"));
  const auto round = next_round(60s);
  EXPECT_EQ(round.outcome, Outcome::Succeeded) << round.reason;
  EXPECT_EQ(round.state, "Done");
  EXPECT_EQ(round.target, "cluster");
  EXPECT_EQ(round.reason, "2 moves made");
  EXPECT_THAT(round.request, HasSubstr("\"cause\":\"2 moves: the score falls from"));
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h2", 2}}));
  for (const auto& move : all_of(OperationKind::VmMigrate)) EXPECT_EQ(move.parent, round.id);
  EXPECT_EQ(row().rounds, 1U);
  EXPECT_EQ(row().moves, 2U);
  EXPECT_EQ(row().operation, round.id);
  world.play(20s);
  EXPECT_EQ(row().score, 0);
  EXPECT_FALSE(row().above_since);
}

TEST_F(Rebalances, ManualProposesOnceAndMovesNothing) {
  crowd();
  world.play(20min);
  EXPECT_EQ(moves(), 0U);
  EXPECT_TRUE(rounds().empty());
  EXPECT_TRUE(all_of(OperationKind::ForecastMake).empty()) << "looking costs no measurement";
  ASSERT_TRUE(row().proposal);
  EXPECT_EQ(row().proposal->moves.size(), 2U);
  EXPECT_FALSE(row().proposal->operation) << "costs are not known";
  EXPECT_THAT(row().reason, HasSubstr("proposes 2 moves"));
  ASSERT_EQ(events_of("rebalance.proposed").size(), 1U) << "told once";
  EXPECT_EQ(events_of("rebalance.proposed")[0].topic, "cluster");
  const auto dry = end_of(world.engine().submit(engine::RebalanceForecastRequest{}));
  EXPECT_EQ(dry.outcome, Outcome::Succeeded) << dry.reason;
  EXPECT_THAT(dry.reason, HasSubstr("1.0 s of added job time"));
  EXPECT_EQ(row().proposal->operation, dry.id) << "now they are";
  EXPECT_EQ(moves(), 0U);
  const auto round = by_hand();
  EXPECT_EQ(round.outcome, Outcome::Succeeded) << round.reason;
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h2", 2}}));
  EXPECT_FALSE(row().proposal) << "it was carried out";
  EXPECT_THAT(by_hand().reason, HasSubstr("no beneficial move"));
}

TEST_F(Rebalances, TheCooldownAndTheCapHoldBetweenRounds) {
  auto wanted = setting(RebalanceMode::Automatic);
  wanted.max_moves = 1;
  wanted.threshold = 0.05;
  set(wanted);
  crowd();
  const auto first = next_round();
  EXPECT_EQ(first.reason, "1 move made");
  world.play(285s);
  EXPECT_EQ(rounds().size(), 1U);
  EXPECT_THAT(row().reason, HasSubstr("cooldown of 300 s"));
  const auto second = next_round(60s);
  EXPECT_EQ(second.outcome, Outcome::Succeeded);
  EXPECT_GE(second.created - first.ended, WallTime{300s});
  EXPECT_EQ(vms_by_host(), (Map{{"h1", 2}, {"h2", 2}}));
}

TEST_F(Rebalances, HoldTimeAndCooldownOutliveMared) {
  auto wanted = setting(RebalanceMode::Automatic);
  wanted.max_moves = 1;
  set(wanted);
  crowd();
  world.play(40s);
  world.kill_mared();
  world.play(5s);
  world.start_mared();
  const auto first = next_round(50s);
  EXPECT_EQ(first.outcome, Outcome::Succeeded) << "40 s were over before";
  world.kill_mared();
  world.play(60s);
  world.start_mared();
  world.play(200s);
  EXPECT_EQ(rounds().size(), 1U) << row().reason;
  next_round(120s);
  // A time without mared is no hold time.
  bring("demo-0", "h1");
  bring("demo-1", "h1");
  bring("demo-2", "h1");
  bring("demo-3", "h1");
  world.play(15s);
  ASSERT_TRUE(row().above_since);
  world.kill_mared();
  world.play(20min);
  world.start_mared();
  world.play(40s);
  EXPECT_EQ(rounds().size(), 2U) << row().reason;
  next_round(60s);
}

TEST_F(Rebalances, NoPingPongInALongTime) {
  auto wanted = setting(RebalanceMode::Automatic);
  wanted.threshold = 0.02;
  set(wanted);
  add_host("h1");
  make_pool(7);
  add_host("h2");
  add_host("h3");
  world.play(40min);
  const std::size_t settled = moves();
  EXPECT_GE(settled, 3U);
  world.play(2h);
  EXPECT_EQ(moves(), settled) << "what is good enough stays";
  // Now the load changes all the time.
  for (int i = 0; i < 8; ++i) {
    engine::JobSubmitRequest job;
    job.pool = PoolId{"demo"};
    job.command = {"solver", "--sim-work=" + std::to_string(200 + 70 * (i % 3))};
    job.ranks = 2 + i % 4;
    const auto accepted = world.engine().submit(job);
    ASSERT_TRUE(accepted);
    EXPECT_EQ(world.wait(accepted->id, 60min).outcome, Outcome::Succeeded);
    world.play(std::chrono::seconds{30 + 100 * (i % 2)});
  }
  expect_rest(wanted.rest);
  for (const auto& round : rounds()) {
    EXPECT_NE(round.outcome, Outcome::NeedsOperator) << round.reason;
  }
}

TEST_F(Rebalances, MovesThatCostMoreThanTheyBringAreRefused) {
  verdict.move_s = 5000;
  set(RebalanceMode::Automatic);
  crowd();
  const auto refused = next_round();
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_EQ(refused.error_code, to_string(Code::FailedPrecondition));
  EXPECT_THAT(refused.reason, HasSubstr("would cost 5000.0 s of added job time, more than the"));
  EXPECT_EQ(moves(), 0U);
  EXPECT_GE(row().refusals, 1U);
  world.play(200s);
  EXPECT_EQ(rounds().size(), 1U) << "not again in the cooldown";
}

TEST_F(Rebalances, VmsThatHadBetterNotMoveStay) {
  verdict.movable = false;
  crowd();
  const auto ended = by_hand();
  EXPECT_THAT(ended.reason, HasSubstr("is not to be moved: Do not move: it is said so"));
  EXPECT_EQ(moves(), 0U);
}

TEST_F(Rebalances, PartialMendsRulesAndEvensNothingOut) {
  // The large VM has no place but its own host: what is free on the others is in two halves.
  for (const char* name : {"a", "b", "c"}) add_host(name, 2048);
  make_pool(1, "large", 1024);
  bring("large-0", "a");
  make_pool(8, "small", 192);
  for (int i = 0; i < 8; ++i) bring("small-" + std::to_string(i), i < 4 ? "b" : "c");
  ASSERT_EQ(vms_by_host(), (Map{{"a", 1}, {"b", 4}, {"c", 4}}));
  auto wanted = setting(RebalanceMode::Partial);
  wanted.rest = Seconds{0};
  set(wanted);
  world.play(20s);
  EXPECT_EQ(row().broken, 1);
  const auto round = next_round();
  EXPECT_EQ(round.outcome, Outcome::Succeeded) << round.reason;
  world.play(20s);
  EXPECT_EQ(row().broken, 0);
  EXPECT_THAT(row().reason, HasSubstr("no hard rule is broken"));
  const std::size_t made = row().moves;
  EXPECT_EQ(made, 1U) << "no more than was needed";
  add_host("d");
  world.play(30min);
  EXPECT_EQ(row().moves, made) << "that it is empty breaks no rule";
  EXPECT_EQ(rounds().size(), 1U);
  set(RebalanceMode::Automatic);
  next_round();
  EXPECT_GT(vms_by_host()["d"], 0);
}

TEST_F(Rebalances, NeverOverCapacity) {
  set(RebalanceMode::Automatic);
  add_host("h1");
  make_pool(8);
  add_host("h2", 600);  // room for two
  next_round();
  world.play(30min);
  EXPECT_LE(vms_by_host()["h2"], 2);
  for (const auto& round : rounds()) {
    EXPECT_EQ(round.outcome, Outcome::Succeeded)
        << round.reason << ": it was planned with the room";
  }
}

TEST_F(Rebalances, APoolCanBeHeldBack) {
  auto wanted = setting(RebalanceMode::Automatic);
  crowd();
  wanted.pools[PoolId{"demo"}] = RebalanceMode::Manual;
  set(wanted);
  world.play(10min);
  EXPECT_TRUE(rounds().empty());
  EXPECT_THAT(row().reason, HasSubstr("no beneficial move"));
  wanted.pools[PoolId{"demo"}] = RebalanceMode::Partial;
  set(wanted);
  world.play(10min);
  EXPECT_EQ(moves(), 0U);
  wanted.pools.clear();
  set(wanted);
  EXPECT_EQ(next_round().outcome, Outcome::Succeeded);
  wanted.pools[PoolId{"nope"}] = RebalanceMode::Manual;
  EXPECT_EQ(world.engine().set_rebalancing(wanted).error().code, Code::NotFound);
  wanted.pools = {{PoolId{"demo"}, RebalanceMode::Manual}};
  set(wanted);
  ASSERT_EQ(end_of(world.engine().submit(engine::PoolDeleteRequest{PoolId{"demo"}, true})).outcome,
            Outcome::Succeeded);
  set(wanted);
  EXPECT_TRUE(row().setting.pools.empty()) << "it went with its pool";
}

TEST_F(Rebalances, AHostThatFailsInTheMiddleEndsTheRound) {
  crowd();
  slow_links();
  set(RebalanceMode::Automatic);
  ASSERT_TRUE(world.play_while_not([&] { return vms_by_host()["h2"] == 1 || moves() > 1; }, 20min));
  ASSERT_TRUE(world.cluster.kill_host(HostId{"h2"}));
  ASSERT_TRUE(world.play_while_not([&] { return rounds().front().finished(); }, 20min));
  const auto ended = rounds().front();
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.reason;
  EXPECT_FALSE(ended.reason.empty());
  EXPECT_GE(vms_by_host()["h1"], 2) << "who had not gone is where it was";
  ASSERT_TRUE(world.cluster.boot_host(HostId{"h2"}));
  world.play(5min);
  for (const auto& vm : world.vms()) {
    if (vm.state == VmState::Lost) {
      end_of(world.engine().submit(engine::VmStopRequest{vm.id, true}));
    }
  }
}

TEST_F(Rebalances, AHostThatLeavesWhileItIsPlannedIsPlannedAround) {
  crowd();
  add_host("h3");
  world.executor.slow_next("host/h2", 4s);
  const auto begun = world.engine().submit(engine::RebalanceRequest{});
  ASSERT_TRUE(begun);
  world.play(500ms);
  ASSERT_TRUE(world.cluster.kill_host(HostId{"h2"}));
  const auto ended = end_of(begun);
  EXPECT_TRUE(ended.finished());
  EXPECT_FALSE(ended.reason.empty());
  world.play(5min);
  EXPECT_EQ(vms_by_host()["h2"], 0);
  ASSERT_TRUE(world.cluster.boot_host(HostId{"h2"}));
  world.play(1min);
}

TEST_F(Rebalances, NotWhileAHostDrains) {
  crowd();
  slow_links();
  const auto round = world.engine().submit(engine::RebalanceRequest{});
  ASSERT_TRUE(round);
  ASSERT_TRUE(world.play_while_not([&] { return moves() > 0; }, 5min));
  const auto drain = world.engine().submit(engine::HostDrainRequest{HostId{"h1"}});
  ASSERT_TRUE(drain);
  const auto refused = world.engine().submit(engine::RebalanceForecastRequest{});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::FailedPrecondition);
  EXPECT_THAT(refused.error().text(), HasSubstr("host 'h1' is being drained (" + drain->id.value));
  const auto ended = end_of(round);
  EXPECT_THAT(ended.reason, HasSubstr("host 'h1' is being drained"));
  EXPECT_THAT(ended.reason, HasSubstr("1 of 2 moves made"));
  set(RebalanceMode::Automatic);
  const auto drained = end_of(drain);
  EXPECT_EQ(drained.outcome, Outcome::Succeeded) << drained.reason;
  for (const auto& one : rounds()) {
    EXPECT_TRUE(one.id == round->id || one.created >= drained.ended) << one.id.value;
  }
}

TEST_F(Rebalances, ACancelTellsWhatWasReached) {
  crowd();
  slow_links();
  const auto round = world.engine().submit(engine::RebalanceRequest{});
  ASSERT_TRUE(round);
  EXPECT_EQ(world.engine().submit(engine::RebalanceRequest{}).error().code, Code::Conflict);
  ASSERT_TRUE(world.play_while_not([&] { return vms_by_host()["h2"] == 1; }, 10min));
  ASSERT_TRUE(world.engine().cancel(round->id));
  const auto ended = end_of(round);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled) << ended.reason;
  EXPECT_EQ(ended.state, "Partial");
  EXPECT_THAT(ended.reason, HasSubstr("1 of 2 moves made"));
  EXPECT_EQ(row().moves, 1U);
}

TEST_F(Rebalances, ASettingThatCantBeKeptIsRefused) {
  const auto field = [&](const std::function<void(RebalanceSetting&)>& change) {
    auto wanted = setting(RebalanceMode::Automatic);
    change(wanted);
    const auto done = world.engine().set_rebalancing(wanted);
    return done ? "" : done.error().field;
  };
  EXPECT_EQ(field([](auto& s) { s.threshold = -1; }), "threshold");
  EXPECT_EQ(field([](auto& s) { s.margin = 1; }), "margin");
  EXPECT_EQ(field([](auto& s) { s.max_moves = -1; }), "max_moves");
  EXPECT_EQ(field([](auto& s) { s.hold = Seconds{-1}; }), "hold_s");
  EXPECT_EQ(field([](auto& s) { s.cooldown = Seconds{1e6}; }), "cooldown_s");
  EXPECT_EQ(field([](auto& s) { s.rest = Seconds{1e6}; }), "rest_s");
  EXPECT_EQ(row().setting.mode, RebalanceMode::Manual) << "nothing was changed";
}

}  // namespace
}  // namespace mare::test
