// Forecasts in a whole Maré: what is asked of the hosts, what a verdict does to a move, and what is
// kept. The verdict is a stand-in where a test is about what becomes of it, the real one elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/said_verdict.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

class ForecastTest : public testing::Test {
 protected:
  ForecastTest() {
    world.forecast = [this](const policy::ForecastInput& in) { return judge(in); };
  }

  /// Says that every strategy on offer takes 2 s, and chooses `choice`.
  policy::Verdict judge(const policy::ForecastInput& input) {
    asked.push_back(input);
    StrategyForecast figures;
    figures.total_time_s = {2, 1, 3, 2};
    policy::Verdict out = same_for_all(input, figures);
    choose(out, choice);
    return out;
  }

  void SetUp() override {
    world.start_mared();
    for (const char* name : {"h1", "h2"}) ASSERT_TRUE(world.add_host(name));
    create_pool("demo");
  }
  void create_pool(const char* name) {
    engine::PoolCreateRequest request;
    request.id = PoolId{name};
    request.size = 1;
    ASSERT_EQ(must_end(world.engine().submit(request)).outcome, Outcome::Succeeded);
  }
  Operation must_end(Result<Operation> accepted) {
    EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
    return accepted ? world.wait(accepted->id, minutes{10}) : Operation{};
  }
  Operation dry_run() {
    return must_end(world.engine().submit(engine::ForecastRequest{vm, {}, {}}));
  }
  engine::MigrateRequest request() const {
    engine::MigrateRequest out;
    out.vm = vm;
    return out;
  }
  template <typename T>
  T row(const std::function<Result<T>(const store::Reader&)>& ask) {
    Result<T> out = make_error(Code::Internal, "not asked");
    EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
      out = ask(reader);
      return ok_status();
    }));
    EXPECT_TRUE(out.ok()) << (out ? "" : out.error().text());
    return out ? *out : T{};
  }
  Forecast forecast(const OperationId& id) {
    return row<Forecast>([&](const store::Reader& r) { return r.forecast(id); });
  }
  Migration migration(const OperationId& id) {
    return row<Migration>([&](const store::Reader& r) { return r.migration(id); });
  }
  std::size_t forecasts() {
    return row<std::vector<Forecast>>([](const store::Reader& r) { return r.forecasts(); }).size();
  }
  Vm vm_row() { return world.vms().front(); }
  /// The next thing that is asked of it takes too long.
  void slow_source() { world.executor.slow_next("host/" + vm_row().host->value, seconds{20}); }

  SimWorld world{7};
  const VmId vm{"demo-0"};
  std::optional<Strategy> choice = Strategy::PreCopy;
  std::vector<policy::ForecastInput> asked;
};

TEST_F(ForecastTest, AnEmulatedGuestIsAskedHowItIsWhenItsEmulatorHasSettled) {
  world.cluster.set_vm_model({.emulated = true});
  create_pool("slow");
  const auto asked_after = [this](const char* name) {
    engine::MigrateRequest move;
    move.vm = VmId{name};
    const auto done = must_end(world.engine().submit(move));
    EXPECT_EQ(done.outcome, Outcome::Succeeded) << done.reason;
    return done.ended - migration(done.id).switched;
  };
  EXPECT_LT(asked_after("demo-0"), seconds{1});
  const auto later = asked_after("slow-0");
  EXPECT_GE(later, seconds{1});
  EXPECT_LT(later, seconds{2});
}

// What the guest answers then comes out of its program's time.
TEST_F(ForecastTest, TheJobOfAnEmulatedGuestIsLookedAtWhenItsEmulatorHasSettled) {
  world.cluster.set_vm_model({.emulated = true});
  create_pool("slow");
  const auto next_look = [this](const char* pool_id) {
    const VmId id{std::string(pool_id) + "-0"};
    engine::JobSubmitRequest job;
    job.pool = PoolId{pool_id};
    job.command = {"/opt/solver", "--sim-work=600"};
    EXPECT_TRUE(world.engine().submit(job));
    world.play(seconds{5});
    engine::MigrateRequest move;
    move.vm = id;
    move.policy.bandwidth_limit = BytesPerSecond{20e6};
    const auto from = world.cluster.running_on(id);
    int looks = 0;
    MonotonicTime last = world.cluster.looked_at(id);
    std::optional<MonotonicTime> switched;
    std::optional<MonotonicTime> next;
    world.on_step([&] {
      const auto where = world.cluster.running_on(id);
      if (where && where != from && !switched) switched = world.clock.now();
      const auto look = world.cluster.looked_at(id);
      if (look == last || look == MonotonicTime{0}) return;
      last = look;
      if (!switched) ++looks;
      if (switched && !next) next = look;
    });
    EXPECT_EQ(must_end(world.engine().submit(move)).outcome, Outcome::Succeeded);
    world.play(seconds{3});
    world.on_step({});
    EXPECT_GT(looks, 5) << "it is sent for 10 s";
    EXPECT_TRUE(switched && next);
    return switched && next ? Seconds{*next - *switched} : Seconds{0};
  };
  EXPECT_LT(next_look("demo"), Seconds{0.6});
  const Seconds later = next_look("slow");
  EXPECT_GE(later, Seconds{1});
  EXPECT_LT(later, Seconds{2});
}

TEST_F(ForecastTest, ADryRunIsStoredAndMovesNothing) {
  const HostId before = *vm_row().host;
  const Operation ended = dry_run();
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(ended.kind, OperationKind::ForecastMake);
  EXPECT_EQ(ended.reason, "it is said so");
  const Forecast kept = forecast(ended.id);
  EXPECT_EQ(kept.vm, vm);
  EXPECT_EQ(kept.source, before);
  EXPECT_NE(kept.destination, before);
  EXPECT_EQ(kept.choice, Strategy::PreCopy);
  EXPECT_EQ(kept.strategies.size(), static_cast<std::size_t>(kStrategies));
  EXPECT_GT(kept.link.goodput.value, 0);
  EXPECT_FALSE(kept.profile.cycles.empty());
  EXPECT_FALSE(kept.outcome);
  EXPECT_EQ(*vm_row().host, before);
  EXPECT_TRUE(
      row<std::vector<Migration>>([](const store::Reader& r) { return r.migrations(); }).empty());
}

TEST_F(ForecastTest, OffersAreWhatBothHostsHave) {
  dry_run();
  ASSERT_EQ(asked.size(), 1U);
  for (const auto& offer : asked[0].offers) {
    EXPECT_TRUE(offer.offered) << to_string(offer.strategy);
    EXPECT_EQ(offer.why_not.empty(), offer.offered);
  }
  sim::HostModel old;
  old.live_migration_refused = "its QEMU is too old";
  old.captures_to_leave = false;
  ASSERT_TRUE(world.add_host("h3", old));
  engine::ForecastRequest there{vm, HostId{"h3"}, {}};
  ASSERT_EQ(must_end(world.engine().submit(there)).outcome, Outcome::Succeeded);
  for (const auto& offer : asked.back().offers) {
    EXPECT_EQ(offer.offered, offer.strategy == Strategy::StopAndCopy);
    if (offer.strategy != Strategy::PreCopy) continue;
    EXPECT_THAT(offer.why_not, HasSubstr("'h3'"));
  }
}

TEST_F(ForecastTest, TheJobOnTheVmIsKnown) {
  engine::JobSubmitRequest job;
  job.pool = PoolId{"demo"};
  job.command = {"/opt/solver", "--sim-work=60"};
  ASSERT_TRUE(world.engine().submit(job));
  world.play(seconds{5});
  const Operation ended = dry_run();
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  ASSERT_TRUE(asked.back().job);
  EXPECT_EQ(asked.back().job->program, "solver");
  const Forecast kept = forecast(ended.id);
  EXPECT_TRUE(kept.has_job);
  EXPECT_EQ(kept.program, "solver");
  EXPECT_EQ(kept.job, asked.back().job->id);
  EXPECT_FALSE(kept.job.value.empty());
}

TEST_F(ForecastTest, ALinkIsMeasuredOnceAMinuteForDryRunsAndAnewForMoves) {
  const HostId from = *vm_row().host;
  const HostId to{from.value == "h1" ? "h2" : "h1"};
  dry_run();
  const double first = asked.back().link.goodput.value;
  ASSERT_TRUE(world.cluster.set_link(from, to, BytesPerSecond{first / 4}));
  dry_run();
  EXPECT_DOUBLE_EQ(asked.back().link.goodput.value, first) << "measured again within a minute";
  must_end(world.engine().submit(request()));
  EXPECT_DOUBLE_EQ(asked.back().link.goodput.value, first / 4) << "a move began with an old one";
}

TEST_F(ForecastTest, ABurstThatMeetsAMessageOfAJobIsMeasuredAgain) {
  const HostId from = *vm_row().host;
  const HostId to{from.value == "h1" ? "h2" : "h1"};
  const auto measured = [&] {
    world.play(seconds{61});  // what is known is too old
    dry_run();
    return asked.back().link.goodput.value;
  };
  const double whole = measured();
  ASSERT_TRUE(world.cluster.crowd_link(from, to, 0.8, 1));
  EXPECT_DOUBLE_EQ(measured(), whole) << "one burst was believed";
  ASSERT_TRUE(world.cluster.crowd_link(from, to, 0.8, 2));
  EXPECT_DOUBLE_EQ(measured(), 0.8 * whole) << "two that agree were not believed";
  EXPECT_DOUBLE_EQ(asked.back().link.unshared.value, whole) << "it was seen to carry more";
  world.play(minutes{30});
  ASSERT_TRUE(world.cluster.crowd_link(from, to, 0.8, 1));
  EXPECT_DOUBLE_EQ(measured(), 0.8 * whole);
  EXPECT_DOUBLE_EQ(asked.back().link.unshared.value, 0.8 * whole) << "that is long ago";
  EXPECT_DOUBLE_EQ(measured(), whole) << "the link is free again, and that was not noticed";
}

TEST_F(ForecastTest, HostsOnOneMachineAreToldToBeSo) {
  sim::HostModel model;
  model.machine = "m1";
  ASSERT_TRUE(world.add_host("h4", model));
  ASSERT_TRUE(world.add_host("h5", model));
  model.machine = "m2";
  ASSERT_TRUE(world.add_host("h6", model));
  const auto one_machine = [&](const char* to) {
    must_end(world.engine().submit(engine::ForecastRequest{vm, HostId{to}, {}}));
    return asked.back().link.one_machine;
  };
  EXPECT_FALSE(one_machine("h4")) << "its own host does not tell where it is";
  auto move = request();
  move.destination = HostId{"h4"};
  ASSERT_EQ(must_end(world.engine().submit(move)).outcome, Outcome::Succeeded);
  EXPECT_TRUE(one_machine("h5"));
  EXPECT_FALSE(one_machine("h6"));
}

TEST_F(ForecastTest, AMoveTakesTheChoiceAndItsOutcomeIsKept) {
  choice = Strategy::StopAndCopy;
  const Operation ended = must_end(world.engine().submit(request()));
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  const Migration moved = migration(ended.id);
  EXPECT_EQ(moved.sending.strategy, Strategy::StopAndCopy);
  const Forecast kept = forecast(ended.id);
  EXPECT_LE(kept.made, moved.switched);
  ASSERT_TRUE(kept.outcome);
  EXPECT_EQ(kept.outcome->strategy, Strategy::StopAndCopy);
  EXPECT_DOUBLE_EQ(kept.outcome->total_time_s, Seconds{*moved.total_time}.count());
  EXPECT_DOUBLE_EQ(kept.outcome->sent_bytes, static_cast<double>(moved.transferred.count));
  // The next one learns from it.
  dry_run();
  ASSERT_EQ(asked.back().past.size(), 1U);
  EXPECT_DOUBLE_EQ(asked.back().past[0].total_time_s, kept.outcome->total_time_s);
  EXPECT_EQ(asked.back().past[0].forecast.strategy, Strategy::StopAndCopy);
}

TEST_F(ForecastTest, ANamedStrategyIsTakenWhateverTheVerdict) {
  auto named = request();
  named.policy.strategy = Strategy::Compressed;
  const Operation ended = must_end(world.engine().submit(named));
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(migration(ended.id).sending.strategy, Strategy::Compressed);
  EXPECT_EQ(asked.back().policy.priority, Priority::Manual);
}

TEST_F(ForecastTest, DoNotMoveFailsWithItsReasonUnlessForced) {
  choice.reset();
  const HostId before = *vm_row().host;
  const Operation refused = must_end(world.engine().submit(request()));
  EXPECT_EQ(refused.outcome, Outcome::Failed);
  EXPECT_EQ(refused.error_code, to_string(Code::FailedPrecondition));
  EXPECT_THAT(refused.reason, HasSubstr("Do not move: it is said so"));
  EXPECT_EQ(*vm_row().host, before);
  EXPECT_EQ(vm_row().state, VmState::Running);
  EXPECT_FALSE(forecast(refused.id).choice) << "also this forecast is kept";
  auto forced = request();
  forced.force = true;
  const Operation moved = must_end(world.engine().submit(forced));
  EXPECT_EQ(moved.outcome, Outcome::Succeeded) << moved.reason;
  EXPECT_NE(*vm_row().host, before);
  EXPECT_TRUE(forecast(moved.id).outcome);
}

TEST_F(ForecastTest, WithoutADirtyLogADryRunFailsAndAMoveGoesOn) {
  sim::HostModel blind;
  blind.dirty_log_refused = "its kernel has no PAGEMAP_SCAN";
  ASSERT_TRUE(world.add_host("h3", blind));
  engine::PoolCreateRequest pool;
  pool.id = PoolId{"unseen"};
  pool.hosts = {HostId{"h3"}};
  ASSERT_EQ(must_end(world.engine().submit(pool)).outcome, Outcome::Succeeded);
  const VmId unseen{"unseen-0"};
  const Operation dry = must_end(world.engine().submit(engine::ForecastRequest{unseen, {}, {}}));
  EXPECT_EQ(dry.outcome, Outcome::Failed);
  EXPECT_EQ(dry.error_code, to_string(Code::Unsupported));
  EXPECT_THAT(dry.reason, HasSubstr("'h3'"));
  EXPECT_THAT(dry.reason, HasSubstr("its kernel has no PAGEMAP_SCAN"));
  auto move = request();
  move.vm = unseen;
  const Operation moved = must_end(world.engine().submit(move));
  EXPECT_EQ(moved.outcome, Outcome::Succeeded) << moved.reason;
  EXPECT_EQ(migration(moved.id).sending.strategy, Strategy::PreCopy);
  EXPECT_EQ(forecasts(), 0U);
  EXPECT_TRUE(asked.empty());
  // It says so.
  std::string history;
  for (const auto& line : row<std::vector<OperationEvent>>(
           [&](const store::Reader& r) { return r.history(moved.id); })) {
    history += line.detail + "\n";
  }
  EXPECT_THAT(history, HasSubstr("without a forecast"));
}

TEST_F(ForecastTest, AHostThatIsSlowToAnswerCostsTheForecastNotTheMove) {
  slow_source();
  const auto begun = world.clock.now();
  const Operation dry = dry_run();
  EXPECT_EQ(dry.outcome, Outcome::Failed);
  EXPECT_THAT(dry.reason, HasSubstr("the memory's profile"));
  EXPECT_LT(world.clock.now() - begun, seconds{12});
  slow_source();
  const Operation moved = must_end(world.engine().submit(request()));
  EXPECT_EQ(moved.outcome, Outcome::Succeeded) << moved.reason;
  EXPECT_EQ(forecasts(), 0U);
}

TEST_F(ForecastTest, NotDuringAMigrationAndNotOfAStoppedVm) {
  auto slow = request();
  slow.policy.bandwidth_limit = BytesPerSecond{2e6};
  const auto moving = world.engine().submit(slow);
  ASSERT_TRUE(moving);
  world.play(seconds{2});
  const auto refused = world.engine().submit(engine::ForecastRequest{vm, {}, {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Conflict);
  EXPECT_THAT(refused.error().message, HasSubstr(moving->id.value));
  must_end(moving);
  must_end(world.engine().submit(engine::VmStopRequest{vm, true}));
  const auto stopped = world.engine().submit(engine::ForecastRequest{vm, {}, {}});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::FailedPrecondition);
}

TEST_F(ForecastTest, ACancelledDryRunEndsAsCancelled) {
  slow_source();
  const auto accepted = world.engine().submit(engine::ForecastRequest{vm, {}, {}});
  ASSERT_TRUE(accepted);
  world.play(std::chrono::milliseconds{100});
  ASSERT_TRUE(world.engine().cancel(accepted->id));
  EXPECT_EQ(world.wait(accepted->id).outcome, Outcome::Cancelled);
}

TEST_F(ForecastTest, ADrainIsForecastVmByVm) {
  engine::PoolCreateRequest more;
  more.id = PoolId{"more"};
  more.size = 6;
  more.hosts = {HostId{"h1"}};
  ASSERT_EQ(must_end(world.engine().submit(more)).outcome, Outcome::Succeeded);
  ASSERT_TRUE(world.add_host("h3"));
  const Operation ended =
      must_end(world.engine().submit(engine::DrainForecastRequest{HostId{"h1"}}));
  ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  std::size_t here = 0;
  for (const auto& one : world.vms()) here += one.host == HostId{"h1"} ? 1 : 0;
  EXPECT_EQ(asked.size(), here);
  EXPECT_EQ(forecasts(), here);
  EXPECT_GE(here, 6U) << "something moved";
  EXPECT_THAT(ended.reason, HasSubstr(std::to_string(here) + " VMs"));
  for (const auto& host : world.hosts()) EXPECT_EQ(host.admin, HostAdmin::Active);
}

TEST_F(ForecastTest, AReportIsKeptForAMoveThatEndedWell) {
  const Operation dry = dry_run();
  auto wrong = world.engine().report(dry.id, {0.4});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::NotFound) << "a dry run is no migration";
  const Operation moved = must_end(world.engine().submit(request()));
  const auto kept = world.engine().report(moved.id, {0.4});
  ASSERT_TRUE(kept) << kept.error().text();
  EXPECT_EQ(forecast(moved.id).outcome->added_job_time_s, 0.4);
  choice.reset();
  const Operation refused = must_end(world.engine().submit(request()));
  EXPECT_EQ(world.engine().report(refused.id, {1}).error().code, Code::FailedPrecondition);
}

TEST_F(ForecastTest, ARestartMakesTheForecastAgain) {
  slow_source();
  const auto accepted = world.engine().submit(engine::ForecastRequest{vm, {}, {}});
  ASSERT_TRUE(accepted);
  world.play(seconds{1});
  world.kill_mared();
  world.start_mared();
  const Operation ended = world.wait(accepted->id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(forecast(accepted->id).vm, vm);
}

/// The real models, over many moves of a simulated VM: they must come near, and nearer by learning.
TEST_F(ForecastTest, TheRealVerdictComesTrueInTheSimulation) {
  world.forecast = policy::forecast;
  world.kill_mared();
  world.start_mared();
  int near = 0;
  constexpr int kMoves = 16;  // there and back: each direction learns from its own
  for (int i = 0; i < kMoves; ++i) {
    auto named = request();
    named.policy.strategy = Strategy::PreCopy;
    const Operation ended = must_end(world.engine().submit(named));
    ASSERT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
    const Forecast kept = forecast(ended.id);
    ASSERT_TRUE(kept.outcome);
    for (const auto& one : kept.strategies) {
      if (one.strategy != Strategy::PreCopy || i < kMoves / 2) continue;
      const double off = std::abs(one.total_time_s.value - kept.outcome->total_time_s);
      near += off < 0.1 * kept.outcome->total_time_s ? 1 : 0;
    }
  }
  EXPECT_GE(near, kMoves / 2 - 1);
}

}  // namespace
}  // namespace mare::test
