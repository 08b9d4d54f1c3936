// Forecasts in the store, and files of the version that had none.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>

#include "orchestrator/store/store.h"
#include "tests/unit/store/version1.h"

namespace mare::store {
namespace {

class ForecastStoreTest : public testing::Test {
 protected:
  ForecastStoreTest() {
    std::string pattern = testing::TempDir() + "mare-store-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    open();
  }
  ~ForecastStoreTest() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open() {
    store_.reset();
    auto opened = Store::open(directory_ + "/mare.db");
    ASSERT_TRUE(opened) << opened.error().text();
    store_ = std::move(*opened);
  }
  template <typename T>
  Status put(const T& row) {
    return store_->write([&](Transaction& tx) { return tx.put(row); });
  }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

Forecast full_forecast(const std::string& id) {
  Forecast out;
  out.id = OperationId{id};
  out.vm = VmId{"demo-0"};
  out.source = HostId{"h1"};
  out.destination = HostId{"h2"};
  out.made = WallTime{1234};
  out.policy = {Priority::ByDeadline, Strategy::Hybrid, BytesPerSecond{5e7},
                Milliseconds{300},    Seconds{12.5},    LimitAction::PostCopy};
  out.profile.source = "pagemap-scan";
  out.profile.taken = WallTime{1200};
  out.profile.total = mebibytes(192);
  out.profile.zero = mebibytes(50);
  out.profile.compressed_fraction = 0.4;
  out.profile.hot_compressed_fraction = 0.6;
  out.profile.compress_rate = BytesPerSecond{3.5e8};
  out.profile.unpack_rate = BytesPerSecond{4.1e8};
  out.profile.emulated = true;
  out.profile.takes_switchover_bandwidth = true;
  out.profile.cost_fraction = 0.002;
  out.profile.host_cpus = 8;
  out.profile.busy_cpus = 2.5;
  out.profile.emulator_start = Microseconds{93'001};
  out.profile.cpu_granted = 0.75;
  out.profile.sequential = 0.25;
  out.profile.sweep = {true, Microseconds{15'500'000}};
  out.profile.cpu_quota = 0.5;
  out.profile.cpu_quota_period = Microseconds{100'000};
  out.profile.cycles = {{WallTime{1000}, {{Microseconds{5}, Microseconds{4}, Bytes{4096}}}},
                        {WallTime{1100}, {}}};
  out.profile.heat = {0, 0.25, 1};
  out.link = {BytesPerSecond{11.7e6}, Microseconds{400}, mebibytes(4), BytesPerSecond{11.8e6},
              true};
  out.has_job = true;
  out.program = "migtest";
  out.job = JobId{"job-7"};
  out.tightness = 0.25;
  out.destination_speed = 0.5;
  StrategyForecast one;
  one.strategy = Strategy::PreCopy;
  one.offered = true;
  one.converges = false;
  one.end_unsure = true;
  one.why_not = "it would not end";
  one.rounds = 30;
  one.total_time_s = {2, 1, 3, 2.5};
  one.sent_bytes = {2e8, 1e8, 3e8, 2.5e8};
  one.downtime_s = {0.2, 0.1, 0.3, 0.25};
  one.added_job_time_s = {0.5, 0.4, 0.6, 0.55};
  out.strategies = {one, {}};
  out.strategies[1].strategy = Strategy::Hybrid;
  out.choice = Strategy::Hybrid;
  out.sending = {Strategy::Hybrid, 3, 21, 11, 4, BytesPerSecond{1}, BytesPerSecond{2}, 0.75, true};
  out.sending.sweep_switch = {
      out.profile.sweep, {Milliseconds{0}, Milliseconds{1500}}, 0.375, Milliseconds{4321}};
  out.reason = "because";
  out.outcome =
      ForecastOutcome{Strategy::Hybrid, 2.5, 2e8, 0.25, -0.125, 0.375, FirstRound{1.5, 9e7}};
  out.verdicts = {{1, Strategy::PreCopy, VerdictScore::Wrong},
                  {2, Strategy::Compressed, VerdictScore::Open}};
  return out;
}

std::string ids(const Result<std::vector<Forecast>>& rows) {
  std::string out;
  if (!rows) return rows.error().text();
  for (const auto& row : *rows) out += row.id.value + " ";
  return out;
}

void expect_same(const Estimate& a, const Estimate& b) {
  EXPECT_DOUBLE_EQ(a.value, b.value);
  EXPECT_DOUBLE_EQ(a.low, b.low);
  EXPECT_DOUBLE_EQ(a.high, b.high);
  EXPECT_DOUBLE_EQ(a.model, b.model);
}

void expect_same(const MovePolicy& a, const MovePolicy& b) {
  EXPECT_EQ(a.priority, b.priority);
  EXPECT_EQ(a.strategy, b.strategy);
  EXPECT_EQ(a.bandwidth_limit, b.bandwidth_limit);
  EXPECT_EQ(a.downtime_limit, b.downtime_limit);
  EXPECT_EQ(a.time_limit, b.time_limit);
  EXPECT_EQ(a.at_limit, b.at_limit);
}

void expect_same(const MemoryProfile& a, const MemoryProfile& b) {
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.taken, b.taken);
  EXPECT_EQ(a.total, b.total);
  EXPECT_EQ(a.zero, b.zero);
  EXPECT_DOUBLE_EQ(a.compressed_fraction, b.compressed_fraction);
  EXPECT_EQ(a.emulated, b.emulated);
  EXPECT_EQ(a.takes_switchover_bandwidth, b.takes_switchover_bandwidth);
  EXPECT_DOUBLE_EQ(a.hot_compressed_fraction, b.hot_compressed_fraction);
  EXPECT_EQ(a.compress_rate, b.compress_rate);
  EXPECT_EQ(a.unpack_rate, b.unpack_rate);
  EXPECT_DOUBLE_EQ(a.cost_fraction, b.cost_fraction);
  EXPECT_DOUBLE_EQ(a.host_cpus, b.host_cpus);
  EXPECT_DOUBLE_EQ(a.busy_cpus, b.busy_cpus);
  EXPECT_EQ(a.emulator_start, b.emulator_start);
  EXPECT_DOUBLE_EQ(a.cpu_granted, b.cpu_granted);
  EXPECT_DOUBLE_EQ(a.sequential, b.sequential);
  EXPECT_EQ(a.sweep, b.sweep);
  EXPECT_DOUBLE_EQ(a.cpu_quota, b.cpu_quota);
  EXPECT_EQ(a.cpu_quota_period, b.cpu_quota_period);
  EXPECT_EQ(a.heat, b.heat);
  ASSERT_EQ(a.cycles.size(), b.cycles.size());
  for (std::size_t i = 0; i < a.cycles.size(); ++i) {
    EXPECT_EQ(a.cycles[i].began, b.cycles[i].began);
    ASSERT_EQ(a.cycles[i].points.size(), b.cycles[i].points.size());
    for (std::size_t j = 0; j < a.cycles[i].points.size(); ++j) {
      EXPECT_EQ(a.cycles[i].points[j].wall, b.cycles[i].points[j].wall);
      EXPECT_EQ(a.cycles[i].points[j].progress, b.cycles[i].points[j].progress);
      EXPECT_EQ(a.cycles[i].points[j].unique, b.cycles[i].points[j].unique);
    }
  }
}

TEST_F(ForecastStoreTest, EveryFieldOfAForecastComesBack) {
  const Forecast written = full_forecast("op-1");
  ASSERT_TRUE(put(written));
  open();
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    const auto row = reader.forecast(written.id);
    EXPECT_TRUE(row) << row.error().text();
    if (!row) return row.error();
    EXPECT_EQ(row->vm, written.vm);
    EXPECT_EQ(row->source, written.source);
    EXPECT_EQ(row->destination, written.destination);
    EXPECT_EQ(row->made, written.made);
    expect_same(row->policy, written.policy);
    expect_same(row->profile, written.profile);
    EXPECT_EQ(row->link.goodput, written.link.goodput);
    EXPECT_EQ(row->link.round_trip, written.link.round_trip);
    EXPECT_EQ(row->link.sent, written.link.sent);
    EXPECT_EQ(row->link.unshared, written.link.unshared);
    EXPECT_TRUE(row->link.one_machine);
    EXPECT_TRUE(row->has_job);
    EXPECT_EQ(row->program, "migtest");
    EXPECT_EQ(row->job, JobId{"job-7"});
    EXPECT_EQ(row->tightness, 0.25);
    EXPECT_EQ(row->destination_speed, 0.5);
    EXPECT_EQ(row->strategies.size(), 2U);
    const auto& one = row->strategies.front();
    EXPECT_EQ(one.strategy, Strategy::PreCopy);
    EXPECT_TRUE(one.offered);
    EXPECT_FALSE(one.converges);
    EXPECT_TRUE(one.end_unsure);
    EXPECT_EQ(one.why_not, "it would not end");
    EXPECT_EQ(one.rounds, 30);
    expect_same(one.total_time_s, written.strategies[0].total_time_s);
    expect_same(one.sent_bytes, written.strategies[0].sent_bytes);
    expect_same(one.downtime_s, written.strategies[0].downtime_s);
    expect_same(one.added_job_time_s, written.strategies[0].added_job_time_s);
    EXPECT_EQ(row->choice, Strategy::Hybrid);
    EXPECT_EQ(row->sending.pre_copy_rounds, 4);
    EXPECT_TRUE(row->sending.allow_post_copy);
    EXPECT_EQ(row->sending.sweep_switch, written.sending.sweep_switch);
    EXPECT_EQ(row->reason, "because");
    EXPECT_TRUE(row->outcome);
    if (!row->outcome) return ok_status();
    EXPECT_EQ(row->outcome->strategy, Strategy::Hybrid);
    EXPECT_DOUBLE_EQ(row->outcome->total_time_s, 2.5);
    EXPECT_DOUBLE_EQ(row->outcome->sent_bytes, 2e8);
    EXPECT_EQ(row->outcome->downtime_s, 0.25);
    EXPECT_EQ(row->outcome->added_job_time_s, -0.125);
    EXPECT_EQ(row->outcome->set_up_s, 0.375);
    EXPECT_EQ(row->outcome->first_round, (FirstRound{1.5, 9e7}));
    EXPECT_EQ(row->verdicts, written.verdicts);
    return ok_status();
  }));
}

TEST_F(ForecastStoreTest, WhatAForecastDoesNotKnowStaysUnknown) {
  Forecast least;
  least.id = OperationId{"op-1"};
  ASSERT_TRUE(put(least));
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    const auto row = reader.forecast(least.id);
    EXPECT_TRUE(row);
    if (!row) return row.error();
    EXPECT_FALSE(row->choice);
    EXPECT_FALSE(row->outcome);
    EXPECT_TRUE(row->verdicts.empty());
    EXPECT_FALSE(row->policy.strategy || row->policy.bandwidth_limit || row->policy.time_limit);
    EXPECT_TRUE(row->strategies.empty());
    return ok_status();
  }));
}

TEST_F(ForecastStoreTest, ForecastsAreListedByVmAndPastMovesOldestFirst) {
  for (int i = 1; i <= 4; ++i) {
    Forecast row = full_forecast("op-" + std::to_string(i));
    if (i == 2) row.vm = VmId{"demo-1"};
    if (i == 3) row.outcome.reset();
    ASSERT_TRUE(put(row));
  }
  ASSERT_TRUE(put(full_forecast("op-1")));  // again: the same row
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_EQ(ids(reader.forecasts()), "op-4 op-3 op-2 op-1 ");
    EXPECT_EQ(ids(reader.forecasts(VmId{"demo-0"}, 2)), "op-4 op-3 ");
    EXPECT_EQ(ids(reader.past_moves(10)), "op-1 op-2 op-4 ");
    EXPECT_EQ(ids(reader.past_moves(2)), "op-2 op-4 ");
    EXPECT_EQ(*reader.forecast_count(), 4U);
    return ok_status();
  }));
}

TEST_F(ForecastStoreTest, WhatCanBeScoredIsFoundSinceATime) {
  for (int i = 1; i <= 5; ++i) {
    Forecast row = full_forecast("op-" + std::to_string(i));
    row.made = WallTime{100 * i};
    if (i == 2 || i == 3) row.outcome.reset();
    if (i == 3 || i == 4) row.verdicts.clear();
    ASSERT_TRUE(put(row));
  }
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_EQ(ids(reader.scored_forecasts()), "op-1 op-2 op-4 op-5 ");
    EXPECT_EQ(ids(reader.scored_forecasts(WallTime{200})), "op-2 op-4 op-5 ");
    EXPECT_EQ(ids(reader.scored_forecasts(WallTime{401})), "op-5 ");
    EXPECT_EQ(*reader.forecast_count(WallTime{300}), 3U);
    return ok_status();
  }));
}

TEST_F(ForecastStoreTest, TheNewestForecastOfEachRunningVmIsFound) {
  Pool pool;
  pool.id = PoolId{"demo"};
  ASSERT_TRUE(put(pool));
  const auto add_vm = [&](int index, VmState state) {
    Vm vm;
    vm.id = VmId{"demo-" + std::to_string(index)};
    vm.pool = pool.id;
    vm.mac.bytes.back() = static_cast<std::uint8_t>(index);
    vm.ip.value = static_cast<std::uint32_t>(index);
    vm.state = state;
    vm.started = WallTime{200};
    return put(vm);
  };
  ASSERT_TRUE(add_vm(0, VmState::Running));
  ASSERT_TRUE(add_vm(1, VmState::Migrating));
  ASSERT_TRUE(add_vm(2, VmState::Stopped));
  ASSERT_TRUE(add_vm(3, VmState::Running));
  const auto add = [&](const char* id, const char* vm, int made) {
    Forecast row = full_forecast(id);
    row.vm = VmId{vm};
    row.made = WallTime{made};
    return put(row);
  };
  ASSERT_TRUE(add("op-1", "demo-0", 300));
  ASSERT_TRUE(add("op-2", "demo-0", 400));
  ASSERT_TRUE(add("op-3", "demo-1", 200));
  ASSERT_TRUE(add("op-4", "demo-2", 400));
  ASSERT_TRUE(add("op-5", "demo-3", 199));  // of one that bore its name before it was started
  ASSERT_TRUE(add("op-6", "gone-0", 400));
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_EQ(ids(reader.newest_forecasts()), "op-2 op-3 ");
    return ok_status();
  }));
}

TEST_F(ForecastStoreTest, OldForecastsGoUnlessAMigrationFollowed) {
  for (const char* id : {"op-1", "op-2", "op-3"}) {
    Forecast row = full_forecast(id);
    row.made = WallTime{std::string(id) == "op-3" ? 5000 : 1000};
    ASSERT_TRUE(put(row));
  }
  Migration migration;
  migration.id = OperationId{"op-1"};
  ASSERT_TRUE(put(migration));
  ASSERT_TRUE(store_->prune(WallTime{2000}));
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_TRUE(reader.forecast(OperationId{"op-1"}));
    EXPECT_FALSE(reader.forecast(OperationId{"op-2"}));
    EXPECT_TRUE(reader.forecast(OperationId{"op-3"}));
    return ok_status();
  }));
}

TEST_F(ForecastStoreTest, AFileOfVersion1IsBroughtUpWithItsRows) {
  store_.reset();
  const std::string old = directory_ + "/old.db";
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(old.c_str(), &raw), SQLITE_OK);
  const std::string rows =
      "INSERT INTO host VALUES ('h1','a:1','active','up','',1,2,3,'qemu',1,4,5);"
      "INSERT INTO migration (id,vm,source,destination,rounds,memory_total_bytes,transferred_bytes,"
      "remaining_bytes,announcements,switched_us,jobs) "
      "VALUES ('op-1','demo-0','h1','h2','[]',7,8,0,5,9,'[\"job-1\"]');"
      "PRAGMA user_version = 1;";
  ASSERT_EQ(sqlite3_exec(raw, (std::string(kVersion1) + rows).c_str(), nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(raw);
  sqlite3_close(raw);
  for (std::size_t opened = 0; opened < 2; ++opened) {
    auto store = Store::open(old);
    ASSERT_TRUE(store) << store.error().text();
    ASSERT_TRUE((*store)->read([opened](const Reader& reader) -> Status {
      const auto host = reader.host(HostId{"h1"});
      EXPECT_TRUE(host && host->strategies.empty() && host->dirty_log.empty());
      EXPECT_TRUE(host && host->migration_address.empty() && host->cpu_speed == 0);
      const auto migration = reader.migration(OperationId{"op-1"});
      EXPECT_TRUE(migration && migration->sending.strategy == Strategy::PreCopy);
      EXPECT_TRUE(migration && migration->transferred == Bytes{8});
      EXPECT_EQ(reader.past_moves(10)->size(), opened) << "the one that is put below";
      return ok_status();
    }));
    ASSERT_TRUE((*store)->write([](Transaction& tx) { return tx.put(full_forecast("op-1")); }));
  }
}

}  // namespace
}  // namespace mare::store
