// When migrations begin: caps for hosts and links, and the queue before them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "orchestrator/engine/moves_plan.h"
#include "orchestrator/engine/past_moves.h"
#include "tests/sim/invariants.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

class Turns : public testing::Test {
 protected:
  void SetUp() override {
    world.start_mared();
    for (const char* name : {"h1", "h2", "h3"}) ASSERT_TRUE(world.add_host(name));
    create_pool_on_h1("demo", 5);
    world.on_step([this] { look(); });
  }
  void TearDown() override {
    world.on_step({});
    for (const auto& violation : world.cluster.check_invariants()) ADD_FAILURE() << violation.what;
    invariants.check_rows();
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
  }
  void create_pool_on_h1(const std::string& name, int size) {
    engine::PoolCreateRequest request;
    request.id = PoolId{name};
    request.size = size;
    request.hosts = {HostId{"h1"}};
    ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  }
  Operation end_of(Result<Operation> accepted) {
    EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
    return accepted ? world.wait(accepted->id, 30min) : Operation{};
  }
  /// Slow enough to be looked at: 192 MiB at 20 MB/s.
  Operation move(int index, const std::string& to) {
    engine::MigrateRequest request;
    request.vm = VmId{"demo-" + std::to_string(index)};
    request.destination = HostId{to};
    request.policy.strategy = Strategy::PreCopy;
    request.policy.bandwidth_limit = BytesPerSecond{20e6};
    auto accepted = world.engine().submit(request);
    EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
    return accepted ? *accepted : Operation{};
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
  Migration moved(const engine::MigrateRequest& request) {
    const Operation ended = end_of(world.engine().submit(request));
    EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
    return migration(ended.id);
  }
  std::string history(const OperationId& id) {
    std::string out;
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      const auto lines = reader.history(id);
      EXPECT_TRUE(lines);
      for (const auto& line : *lines) out += line.detail + "\n";
      return ok_status();
    });
    return out;
  }
  /// At every step: how many copies of each host and link are being sent.
  void look() {
    if (!world.mared_runs()) return;
    std::map<std::string, int> hosts;
    std::map<std::string, int> links;
    for (const auto& operation : world.operations(true)) {
      if (operation.kind != OperationKind::VmMigrate) continue;
      if (operation.state == "Planned" || operation.state == "Committed") continue;
      const Migration row = migration(operation.id);
      most_at_host =
          std::max({most_at_host, ++hosts[row.source.value], ++hosts[row.destination.value]});
      most_on_link =
          std::max(most_on_link, ++links[row.source.value + ">" + row.destination.value]);
    }
  }

  SimWorld world{11};
  Invariants invariants{world};
  int most_at_host = 0;
  int most_on_link = 0;
};

TEST_F(Turns, CapsHoldAndTheQueueIsServedInItsOrder) {
  std::vector<Operation> moves;
  for (int i = 0; i < 5; ++i) moves.push_back(move(i, i == 1 ? "h3" : "h2"));
  world.play(5s);
  EXPECT_EQ(world.operation(moves[0].id).state, "PreCopying");
  EXPECT_EQ(world.operation(moves[1].id).state, "PreCopying");
  const Operation third = world.operation(moves[2].id);
  EXPECT_EQ(third.state, "Planned");
  EXPECT_THAT(third.reason, StartsWith("waits for a slot: "));
  EXPECT_THAT(third.reason, HasSubstr("'h1'"));
  WallTime before{0};
  for (const auto& one : {moves[0], moves[2], moves[3], moves[4]}) {
    const Operation ended = world.wait(one.id, 30min);
    EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
    EXPECT_THAT(ended.reason, testing::Not(HasSubstr("slot")));
    EXPECT_GT(ended.started, before) << "all of one link, one after the other";
    before = ended.ended;
  }
  EXPECT_EQ(most_at_host, 2);
  EXPECT_EQ(most_on_link, 1);
}

TEST_F(Turns, WhatItWaitedIsNotTakenOffItsTime) {
  const Operation first = move(0, "h2");
  engine::MigrateRequest request;
  request.vm = VmId{"demo-1"};
  request.destination = HostId{"h2"};
  request.timeout = Seconds{8};  // the first takes longer than that
  auto second = world.engine().submit(request);
  ASSERT_TRUE(second);
  EXPECT_EQ(world.wait(first.id).outcome, Outcome::Succeeded);
  const Operation ended = world.wait(second->id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_GT(ended.ended - ended.created, std::chrono::duration_cast<WallTime>(8s));
}

TEST_F(Turns, OneThatWaitsCanBeCancelledAndTheNextTakesItsPlace) {
  move(0, "h2");
  const Operation second = move(1, "h2");
  const Operation third = move(2, "h2");
  world.play(3s);
  ASSERT_TRUE(world.engine().cancel(second.id));
  const Operation ended = world.wait(second.id, 1min);
  EXPECT_EQ(ended.outcome, Outcome::Cancelled);
  EXPECT_EQ(world.operation(third.id).state, "Planned");
  EXPECT_EQ(world.wait(third.id).outcome, Outcome::Succeeded);
}

TEST_F(Turns, OneWhoseVmDiesAndIsDeletedWhileItWaitsFails) {
  create_pool_on_h1("slow", 1);
  engine::MigrateRequest slow;
  slow.vm = VmId{"slow-0"};
  slow.destination = HostId{"h2"};
  slow.policy.strategy = Strategy::PreCopy;
  slow.policy.bandwidth_limit = BytesPerSecond{2e6};  // 192 MiB: longer than all below
  const auto first = world.engine().submit(slow);
  ASSERT_TRUE(first) << first.error().text();
  create_pool_on_h1("gone", 1);
  engine::MigrateRequest waits;
  waits.vm = VmId{"gone-0"};
  waits.destination = HostId{"h2"};
  waits.policy.strategy = Strategy::PreCopy;
  const auto second = world.engine().submit(waits);
  ASSERT_TRUE(second) << second.error().text();
  world.play(3s);
  ASSERT_THAT(world.operation(second->id).reason, StartsWith("waits for a slot: "));
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"gone-0"}));
  const auto died = [this] {
    const auto vms = world.vms();
    return std::any_of(vms.begin(), vms.end(),
                       [](const Vm& vm) { return vm.id.value == "gone-0" && !vm.host; });
  };
  ASSERT_TRUE(world.play_while_not(died, 1min));
  ASSERT_EQ(end_of(world.engine().submit(engine::PoolDeleteRequest{PoolId{"gone"}, true})).outcome,
            Outcome::Succeeded);
  EXPECT_FALSE(world.operation(first->id).finished()) << "nothing has given it a slot meanwhile";
  const Operation ended = world.wait(second->id, 30min);
  EXPECT_EQ(ended.outcome, Outcome::Failed) << ended.state << ": " << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("gone-0"));
  EXPECT_EQ(world.wait(first->id).outcome, Outcome::Succeeded);
}

TEST_F(Turns, APoolsPolicyHoldsUnlessTheMoveStatesSomethingElse) {
  PolicyChange change;
  change.strategy = Strategy::StopAndCopy;
  change.bandwidth_limit = BytesPerSecond{50e6};
  const auto pool = world.engine().set_move_policy(PoolId{"demo"}, change);
  ASSERT_TRUE(pool) << pool.error().text();
  engine::MigrateRequest request;
  request.vm = VmId{"demo-0"};
  const Migration as_pool = moved(request);
  EXPECT_EQ(as_pool.sending.strategy, Strategy::StopAndCopy);
  EXPECT_EQ(as_pool.bandwidth_limit, BytesPerSecond{50e6});
  request.policy.strategy = Strategy::PreCopy;
  const Migration other = moved(request);
  EXPECT_EQ(other.sending.strategy, Strategy::PreCopy);
  EXPECT_EQ(other.bandwidth_limit, BytesPerSecond{50e6}) << "field by field";
  EXPECT_EQ(end_of(world.engine().submit(engine::HostDrainRequest{HostId{"h1"}})).outcome,
            Outcome::Succeeded);
  for (const auto& operation : world.operations()) {
    if (operation.kind != OperationKind::VmMigrate || operation.id == other.id) continue;
    EXPECT_EQ(migration(operation.id).sending.strategy, Strategy::StopAndCopy) << operation.target;
  }
  PolicyChange wrong;
  wrong.time_limit = Seconds{0};
  EXPECT_EQ(world.engine().set_move_policy(PoolId{"demo"}, wrong).error().field, "time_limit_s");
  EXPECT_EQ(world.engine().set_move_policy(PoolId{"nope"}, {}).error().code, Code::NotFound);
}

/// Alone on its host, and writing in phases: three cycles of much, one of little.
class Moments : public Turns {
 protected:
  void SetUp() override {
    Turns::SetUp();
    const double up = world.cluster.guest_progress(vm)->count();
    // To just before a cycle of the log begins.
    world.play(std::chrono::duration_cast<std::chrono::nanoseconds>(
        Seconds{kCycle * (1 + std::floor(up / kCycle)) - up - 0.1}));
    for (int i = 0; i < 12; ++i) one_cycle();
  }
  void one_cycle() {
    const bool quiet = ++cycles % 4 == 0;
    ASSERT_TRUE(world.cluster.set_dirtying(vm, quiet ? 1e6 : 40e6, mebibytes(quiet ? 2 : 100)));
    world.play(64s);
  }
  engine::MigrateRequest in_trough(double within) const {
    engine::MigrateRequest request;
    request.vm = vm;
    request.timing = {Moment::Trough, Seconds{within}};
    return request;
  }
  static constexpr double kCycle = 64;
  const VmId vm{"demo-0"};
  int cycles = 0;
};

TEST_F(Moments, AMoveWaitsForTheNextTrough) {
  const auto accepted = world.engine().submit(in_trough(900));
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(world.cluster.set_dirtying(vm, 40e6, mebibytes(100)));
  world.play(5s);
  const Operation waits = world.operation(accepted->id);
  EXPECT_EQ(waits.state, "Planned");
  EXPECT_THAT(waits.reason, StartsWith("waits for a trough of its writing at "));
  const WallTime planned = migration(accepted->id).planned;
  const auto wait = std::chrono::duration<double>(planned - accepted->created).count();
  EXPECT_NEAR(wait, 3 * kCycle, 3) << "after three cycles of much";
  world.kill_mared();
  world.start_mared();
  world.play(59s);
  one_cycle();
  one_cycle();
  EXPECT_EQ(world.operation(accepted->id).state, "Planned");
  EXPECT_EQ(migration(accepted->id).planned, planned) << "a restart does not choose anew";
  cycles = 15;
  one_cycle();
  const Operation ended = world.wait(accepted->id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_GE(ended.started, planned);
  EXPECT_LT(ended.started - planned, std::chrono::duration_cast<WallTime>(10s));
  Result<Forecast> kept = make_error(Code::Internal, "not asked");
  (void)world.store().read([&](const store::Reader& reader) -> Status {
    kept = reader.forecast(accepted->id);
    return ok_status();
  });
  ASSERT_TRUE(kept);
  EXPECT_THAT(kept->reason, HasSubstr("in a trough of its writing"));
  // It is of the quiet phase, and records all that was seen.
  EXPECT_GE(kept->profile.cycles.size(), 12U);
  const auto* said = engine::forecast_of(*kept, Strategy::PreCopy);
  ASSERT_NE(said, nullptr);
  EXPECT_LT(said->sent_bytes.value, 1.05 * static_cast<double>(kept->profile.total.count));
}

TEST_F(Moments, NeverLaterThanItsDeadline) {
  const auto accepted = world.engine().submit(in_trough(100));
  ASSERT_TRUE(accepted);
  const Operation ended = world.wait(accepted->id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_LT(ended.started - ended.created, std::chrono::duration_cast<WallTime>(15s));
  EXPECT_THAT(history(ended.id), HasSubstr("begins at once: no trough of its writing is known"));
}

TEST_F(Moments, WithoutAPeriodItBeginsAtOnce) {
  engine::MigrateRequest request = in_trough(900);
  request.vm = VmId{"demo-1"};  // which always writes the same
  const Operation ended = end_of(world.engine().submit(request));
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_LT(ended.started - ended.created, std::chrono::duration_cast<WallTime>(15s));
}

TEST_F(Moments, ACancelEndsTheWaiting) {
  const auto accepted = world.engine().submit(in_trough(900));
  ASSERT_TRUE(accepted);
  world.play(20s);
  ASSERT_TRUE(world.engine().cancel(accepted->id));
  EXPECT_EQ(world.wait(accepted->id, 30s).outcome, Outcome::Cancelled);
}

TEST_F(Moments, ADryRunTellsOfTheTrough) {
  engine::ForecastRequest request{vm, {}, {}, {Moment::Trough, Seconds{900}}};
  const Operation ended = end_of(world.engine().submit(request));
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("; the next trough of its writing begins in 19"));
  request.timing.within = Seconds{0};
  EXPECT_EQ(world.engine().submit(request).error().field, "within_s");
}

TEST_F(Turns, ADrainFollowsThePlanThatADryRunShows) {
  // A job whose two ranks are to stall together.
  engine::JobSubmitRequest job;
  job.pool = PoolId{"demo"};
  job.command = {"solver", "--sim-work=4000"};
  job.ranks = 2;
  ASSERT_TRUE(world.engine().submit(job));
  world.play(10s);
  const Operation dry = end_of(world.engine().submit(engine::DrainForecastRequest{HostId{"h1"}}));
  ASSERT_EQ(dry.outcome, Outcome::Succeeded) << dry.reason;
  ASSERT_THAT(dry.reason, HasSubstr("5 VMs would move in "));
  const Operation drained = end_of(world.engine().submit(engine::HostDrainRequest{HostId{"h1"}}));
  ASSERT_EQ(drained.outcome, Outcome::Succeeded) << drained.reason;
  EXPECT_EQ(drained.reason, "5 migrations");
  // Who moved with whom, and in which order: as the plan of the dry run says.
  const auto plan = engine::moves_plan_from(dry.request);
  ASSERT_TRUE(plan) << dry.request;
  std::string said;
  for (const auto& wave : plan->plan.waves) {
    for (std::size_t i = 0; i < wave.moves.size(); ++i) {
      said += said.empty() ? "" : i == 0 ? ", then " : " with ";
      said += plan->moves[wave.moves[i].index].vm.value;
    }
  }
  std::vector<Operation> moves;
  for (const auto& one : world.operations()) {
    if (one.kind == OperationKind::VmMigrate) moves.push_back(one);
  }
  ASSERT_EQ(moves.size(), 5U);
  std::sort(moves.begin(), moves.end(), [](const Operation& a, const Operation& b) {
    return std::tuple{a.created, a.id.value.size(), a.id.value} <
           std::tuple{b.created, b.id.value.size(), b.id.value};
  });
  std::string done;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const bool together = i > 0 && moves[i].created < moves[i - 1].ended;
    done += i == 0 ? "" : together ? " with " : ", then ";
    done += moves[i].target;
  }
  EXPECT_EQ(done, said);
  EXPECT_THAT(done,
              testing::AnyOf(HasSubstr("demo-0 with demo-1"), HasSubstr("demo-1 with demo-0")));
  EXPECT_EQ(most_at_host, 2);
  EXPECT_EQ(most_on_link, 1);
}

TEST_F(Turns, ADrainsPlanIsTheSumOfItsForecasts) {
  const Operation dry = end_of(world.engine().submit(engine::DrainForecastRequest{HostId{"h1"}}));
  const auto plan = engine::moves_plan_from(dry.request);
  ASSERT_TRUE(plan) << dry.request;
  ASSERT_EQ(plan->moves.size(), 5U);
  Estimate bytes;
  for (const auto& move : plan->moves) {
    Result<Forecast> forecast = make_error(Code::Internal, "not asked");
    (void)world.store().read([&](const store::Reader& reader) -> Status {
      forecast = reader.forecast(plan->forecasts.at(move.vm));
      return ok_status();
    });
    ASSERT_TRUE(forecast);
    EXPECT_EQ(forecast->vm, move.vm);
    EXPECT_EQ(forecast->destination, move.destination);
    ASSERT_EQ(forecast->choice, move.forecast.strategy);
    const auto* said = engine::forecast_of(*forecast, *forecast->choice);
    ASSERT_NE(said, nullptr);
    // Two that leave it at once take twice as long.
    EXPECT_GE(move.forecast.total_time_s.high, said->total_time_s.high);
    bytes.value += said->sent_bytes.value;
    bytes.low += said->sent_bytes.low;
    bytes.high += said->sent_bytes.high;
  }
  const auto all = policy::together(plan->plan, plan->moves, policy::Quantity::SentBytes);
  EXPECT_NEAR(all.value, bytes.value, 1);
  EXPECT_NEAR(all.low, bytes.low, 1);
  EXPECT_NEAR(all.high, bytes.high, 1);
  double ends = 0;
  for (const auto& wave : plan->plan.waves) {
    EXPECT_NEAR(wave.begins_s, ends, 1e-9);
    ends += wave.duration_s.value;
  }
  EXPECT_NEAR(plan->plan.duration_s.value, ends, 1e-9);
  EXPECT_LT(plan->plan.duration_s.low, ends);
  EXPECT_GT(plan->plan.duration_s.high, ends);
}

TEST_F(Turns, ADrainsPolicyHoldsForItsMovesAlsoAfterARestart) {
  PolicyChange pools;
  pools.strategy = Strategy::PreCopy;
  ASSERT_TRUE(world.engine().set_move_policy(PoolId{"demo"}, pools));
  engine::HostDrainRequest drain{HostId{"h1"}, {}};
  drain.policy.strategy = Strategy::StopAndCopy;
  drain.policy.bandwidth_limit = BytesPerSecond{20e6};
  const auto dry =
      end_of(world.engine().submit(engine::DrainForecastRequest{HostId{"h1"}, drain.policy}));
  const auto plan = engine::moves_plan_from(dry.request);
  ASSERT_TRUE(plan) << dry.request;
  for (const auto& move : plan->moves) {
    EXPECT_EQ(move.forecast.strategy, Strategy::StopAndCopy);
  }
  const auto accepted = world.engine().submit(drain);
  ASSERT_TRUE(accepted);
  const auto moves = [&] {
    std::vector<Operation> out;
    for (const auto& one : world.operations()) {
      if (one.kind == OperationKind::VmMigrate) out.push_back(one);
    }
    return out;
  };
  ASSERT_TRUE(world.play_while_not([&] { return !moves().empty(); }, 5min));
  world.kill_mared();
  world.start_mared();
  const Operation ended = world.wait(accepted->id, 30min);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_GE(moves().size(), 5U);
  for (const auto& one : moves()) {
    const Migration row = migration(one.id);
    EXPECT_EQ(row.sending.strategy, Strategy::StopAndCopy) << one.target;
    EXPECT_EQ(row.bandwidth_limit, BytesPerSecond{20e6}) << one.target;
  }
}

TEST_F(Turns, ADrainsPolicyIsCheckedBeforeAnythingIsDone) {
  PolicyChange pools;
  pools.at_limit = LimitAction::PostCopy;
  pools.time_limit = Seconds{60};
  ASSERT_TRUE(world.engine().set_move_policy(PoolId{"demo"}, pools));
  PolicyChange change;
  change.strategy = Strategy::Compressed;  // by itself it would do
  const auto drain = world.engine().submit(engine::HostDrainRequest{HostId{"h1"}, change});
  ASSERT_FALSE(drain);
  EXPECT_EQ(drain.error().field, "at_limit");
  EXPECT_THAT(drain.error().text(), HasSubstr("VM 'demo-0'"));
  const auto dry = world.engine().submit(engine::DrainForecastRequest{HostId{"h1"}, change});
  ASSERT_FALSE(dry);
  EXPECT_EQ(dry.error().field, "at_limit");
  change.at_limit = LimitAction::Cancel;
  EXPECT_TRUE(world.engine().submit(engine::DrainForecastRequest{HostId{"h1"}, change}));
}

TEST_F(Turns, ADrainGoesOnByItsPlanAfterARestart) {
  const auto accepted = world.engine().submit(engine::HostDrainRequest{HostId{"h1"}});
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(world.play_while_not(
      [&] {
        const auto all = world.operations();
        return std::count_if(all.begin(), all.end(), [](const Operation& one) {
                 return one.kind == OperationKind::VmMigrate && one.finished();
               }) >= 1;
      },
      5min));
  world.kill_mared();
  world.start_mared();
  const Operation ended = world.wait(accepted->id, 30min);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  const auto all = world.operations();
  EXPECT_EQ(
      std::count_if(all.begin(), all.end(),
                    [](const Operation& one) { return one.kind == OperationKind::PlanDrain; }),
      1)
      << "it was planned once";
  EXPECT_EQ(most_on_link, 1);
}

TEST_F(Turns, AVmThatHadBetterNotMoveStopsADrainBeforeItBegins) {
  PolicyChange change;
  change.downtime_limit = Milliseconds{1};  // no strategy can promise that
  ASSERT_TRUE(world.engine().set_move_policy(PoolId{"demo"}, change));
  const auto dry = end_of(world.engine().submit(engine::DrainForecastRequest{HostId{"h1"}}));
  const auto plan = engine::moves_plan_from(dry.request);
  ASSERT_TRUE(plan) << dry.request;
  EXPECT_TRUE(plan->moves.empty());
  ASSERT_EQ(plan->stay.size(), 5U);
  for (const auto& one : plan->stay) EXPECT_THAT(one.why, StartsWith("Do not move"));
  EXPECT_THAT(dry.reason, StartsWith("no VM could move; nothing will, as VM 'demo-"));
  const Operation ended = end_of(world.engine().submit(engine::HostDrainRequest{HostId{"h1"}}));
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_THAT(ended.reason, HasSubstr("Do not move"));
  for (const auto& vm : world.vms()) EXPECT_EQ(vm.host, HostId{"h1"});
  for (const auto& host : world.hosts()) EXPECT_EQ(host.admin, HostAdmin::Active);
}

TEST_F(Turns, HostsThatDoNotEncryptAlikeExchangeNoVms) {
  sim::HostModel secret;
  secret.migration_tls = true;
  ASSERT_TRUE(world.add_host("h4", secret));
  engine::MigrateRequest request;
  request.vm = VmId{"demo-0"};
  request.destination = HostId{"h4"};
  const auto refused = world.engine().submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::FailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("'h4' encrypts migrations, host 'h1' does not"));
  // Nor does placement choose it, though it is the emptiest.
  request.destination.reset();
  EXPECT_NE(moved(request).destination, HostId{"h4"});
  EXPECT_EQ(end_of(world.engine().submit(engine::HostDrainRequest{HostId{"h1"}})).outcome,
            Outcome::Succeeded);
  for (const auto& vm : world.vms()) EXPECT_NE(vm.host, HostId{"h4"});
  // A VM that runs nowhere is sent by nobody.
  end_of(world.engine().submit(engine::VmStopRequest{VmId{"demo-0"}, true}));
  EXPECT_EQ(
      end_of(world.engine().submit(engine::VmStartRequest{VmId{"demo-0"}, HostId{"h4"}})).outcome,
      Outcome::Succeeded);
}

TEST_F(Turns, AGuestIsAskedForItsPageCacheAndMovesAlsoWithoutAnAnswer) {
  engine::MigrateRequest request;
  request.vm = VmId{"demo-0"};
  request.policy.drop_page_cache = true;
  EXPECT_THAT(history(moved(request).id), HasSubstr("the guest gave back 0 MiB of page cache"));
  sim::FaultModel deaf;
  deaf.guest_unanswered = 1;
  world.cluster.set_faults(deaf);
  const auto accepted = world.engine().submit(request);
  ASSERT_TRUE(accepted);
  EXPECT_TRUE(world.play_while_not(
      [&] { return world.operation(accepted->id).state == "PreCopying"; }, 20s));
  EXPECT_THAT(history(accepted->id), HasSubstr("the guest's page cache stays: "));
  world.cluster.set_faults({});
  EXPECT_EQ(world.wait(accepted->id).outcome, Outcome::Succeeded);
  request.policy.drop_page_cache.reset();
  EXPECT_THAT(history(moved(request).id), testing::Not(HasSubstr("page cache")));
}

TEST_F(Turns, ARestartKeepsPlacesAndOrder) {
  std::vector<Operation> moves;
  for (int i = 0; i < 4; ++i) moves.push_back(move(i, "h2"));
  world.play(3s);
  world.kill_mared();
  world.start_mared();
  world.play(1s);
  EXPECT_EQ(world.operation(moves[0].id).state, "PreCopying");
  for (int i = 1; i < 4; ++i) EXPECT_EQ(world.operation(moves.at(i).id).state, "Planned") << i;
  WallTime before{0};
  for (const auto& one : moves) {
    const Operation ended = world.wait(one.id, 30min);
    EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
    EXPECT_GT(ended.started, before);
    before = ended.started;
  }
  EXPECT_EQ(most_on_link, 1);
}

TEST_F(Turns, AVmThatDiesWhileItsMoveWaitsIsKnownToBeGone) {
  move(0, "h2");
  const Operation second = move(1, "h2");
  world.play(2s);
  ASSERT_TRUE(world.cluster.panic_guest(VmId{"demo-1"}));
  const Operation ended = world.wait(second.id, 30s);
  EXPECT_EQ(ended.outcome, Outcome::Failed);
  EXPECT_THAT(ended.reason, HasSubstr("failed"));
  EXPECT_EQ(end_of(world.engine().submit(engine::VmStartRequest{VmId{"demo-1"}, {}})).outcome,
            Outcome::Succeeded);
}

TEST_F(Turns, ADeletedPoolDoesNotWaitForTheQueue) {
  for (int i = 0; i < 5; ++i) move(i, "h2");
  world.play(2s);
  const Operation gone = end_of(world.engine().submit(engine::PoolDeleteRequest{PoolId{"demo"}}));
  EXPECT_EQ(gone.outcome, Outcome::Succeeded) << gone.reason;
  EXPECT_TRUE(world.vms().empty());
}

}  // namespace
}  // namespace mare::test
