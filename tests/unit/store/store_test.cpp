#include "orchestrator/store/store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace mare::store {
namespace {

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string pattern = testing::TempDir() + "mare-store-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    open();
  }
  ~StoreTest() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  void open() {
    store_.reset();
    auto opened = Store::open(path());
    ASSERT_TRUE(opened) << opened.error().text();
    store_ = std::move(*opened);
  }
  std::string path() const { return directory_ + "/mare.db"; }

  template <typename T>
  Status put(const T& row) {
    return store_->write([&](Transaction& tx) { return tx.put(row); });
  }

  static Host full_host() {
    Host host;
    host.id = HostId{"h1"};
    host.address = "10.0.0.1:7412";
    host.admin = HostAdmin::Draining;
    host.health = HostHealth::Down;
    host.health_reason = "agent is gone";
    host.memory = mebibytes(4096);
    host.cpus = 8;
    host.vm_overhead = mebibytes(160);
    host.hypervisor = "qemu 10";
    host.live_migration = true;
    host.strategies = {Strategy::PreCopy, Strategy::StopAndCopy};
    host.dirty_log = "pagemap-scan";
    host.dirty_log_why = "x";
    host.migration_tls = true;
    host.migration_address = "192.0.2.7";
    host.cpu_speed = 431.5;
    host.added = WallTime{11};
    host.last_seen = WallTime{12};
    return host;
  }
  static Pool full_pool() {
    Pool pool;
    pool.id = PoolId{"demo"};
    pool.image = "base";
    pool.image_version = "abc";
    pool.size = 2;
    pool.memory = mebibytes(192);
    pool.vcpus = 3;
    pool.token = "secret";
    pool.hosts = {HostId{"h1"}, HostId{"h2"}};
    pool.created = WallTime{13};
    pool.project = ProjectId{"physics"};
    pool.move_policy.strategy = Strategy::Hybrid;
    pool.move_policy.priority = Priority::Manual;
    pool.move_policy.downtime_limit = Milliseconds{120};
    pool.move_policy.drop_page_cache = true;
    pool.move_policy.knobs.rate_gain = 1.5;
    pool.move_policy.knobs.pre_copy_rounds = 3;
    return pool;
  }
  static Vm full_vm(int index) {
    Vm vm;
    vm.id = VmId{"demo-" + std::to_string(index)};
    vm.pool = PoolId{"demo"};
    vm.index = index;
    vm.uuid = "u-" + std::to_string(index);
    vm.mac = MacAddress{{0x52, 0x54, 0, 1, 2, static_cast<std::uint8_t>(index)}};
    vm.ip = Ipv4Address{0x0a4d0101U + static_cast<std::uint32_t>(index)};
    vm.memory = mebibytes(192);
    vm.vcpus = 2;
    vm.state = VmState::Running;
    vm.host = HostId{"h1"};
    vm.reason = "why";
    vm.created = WallTime{14};
    vm.started = WallTime{15};
    return vm;
  }
  static Operation operation(const std::string& id, OperationKind kind, const std::string& target) {
    Operation out;
    out.id = OperationId{id};
    out.kind = kind;
    out.target = target;
    out.state = "Planned";
    out.request = "{}";
    out.created = WallTime{16};
    return out;
  }

  std::string directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, RebalancingIsOneRowAndKept) {
  const auto stored = [&] {
    Result<Rebalancing> out = make_error(Code::Internal, "not read");
    EXPECT_TRUE(store_->read([&](const Reader& reader) -> Status {
      out = reader.rebalancing();
      return ok_status();
    }));
    return out;
  };
  ASSERT_TRUE(stored());
  EXPECT_EQ(stored()->setting.mode, RebalanceMode::Manual) << "the defaults";
  EXPECT_EQ(stored()->looked.count(), 0);
  Rebalancing row;
  row.setting = {RebalanceMode::Partial,
                 0.25,
                 Seconds{1.5},
                 0.5,
                 Seconds{2},
                 3,
                 Seconds{4},
                 {{PoolId{"demo"}, RebalanceMode::Partial}}};
  row.looked = WallTime{11};
  row.score = 0.5;
  row.broken = 2;
  row.above_since = WallTime{12};
  row.reason = "why";
  row.operation = OperationId{"op-3"};
  row.ended = WallTime{13};
  row.rounds = 4;
  row.moves = 5;
  row.refusals = 6;
  row.proposal = RebalanceProposal{WallTime{14},
                                   OperationId{"op-2"},
                                   1,
                                   0.5,
                                   2,
                                   0,
                                   {{VmId{"v"}, HostId{"a"}, HostId{"b"}, 7, 8, "so"}},
                                   "words"};
  ASSERT_TRUE(put(row));
  ASSERT_TRUE(put(row));
  const auto back = stored();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->setting.mode, RebalanceMode::Partial);
  EXPECT_EQ(back->setting.threshold, 0.25);
  EXPECT_EQ(back->setting.hold, Seconds{1.5});
  EXPECT_EQ(back->setting.margin, 0.5);
  EXPECT_EQ(back->setting.cooldown, Seconds{2});
  EXPECT_EQ(back->setting.max_moves, 3);
  EXPECT_EQ(back->setting.rest, Seconds{4});
  EXPECT_EQ(back->setting.pools, row.setting.pools);
  EXPECT_EQ(back->looked, WallTime{11});
  EXPECT_EQ(back->score, 0.5);
  EXPECT_EQ(back->broken, 2);
  EXPECT_EQ(back->above_since, WallTime{12});
  EXPECT_EQ(back->reason, "why");
  EXPECT_EQ(back->operation, OperationId{"op-3"});
  EXPECT_EQ(back->ended, WallTime{13});
  EXPECT_EQ(back->rounds, 4U);
  EXPECT_EQ(back->moves, 5U);
  EXPECT_EQ(back->refusals, 6U);
  ASSERT_TRUE(back->proposal);
  EXPECT_EQ(back->proposal->made, WallTime{14});
  EXPECT_EQ(back->proposal->operation, OperationId{"op-2"});
  EXPECT_EQ(back->proposal->score_after, 0.5);
  EXPECT_EQ(back->proposal->broken_before, 2);
  ASSERT_EQ(back->proposal->moves.size(), 1U);
  EXPECT_EQ(back->proposal->moves[0].to, HostId{"b"});
  EXPECT_EQ(back->proposal->moves[0].added_job_time_s, 7);
  EXPECT_EQ(back->proposal->moves[0].bytes, 8);
  EXPECT_EQ(back->proposal->reason, "words");
}

TEST_F(StoreTest, AnAutoscalerIsKeptAndGoesWithItsPool) {
  ASSERT_TRUE(put(full_pool()));
  Autoscaler row;
  row.pool = PoolId{"demo"};
  row.setting.source = MetricSource::Queue;
  row.setting.prometheus = {"http://a", "up", Seconds{1.5}};
  row.setting.total = true;
  row.setting.stale_after = Seconds{7.5};
  row.setting.rule = {12.5, 0.2, 2, 9, {Seconds{1}, Seconds{2}, 3}, {Seconds{4}, Seconds{5}, 6}};
  ASSERT_TRUE(put(row));
  const auto stored = [&] {
    Result<Autoscaler> out = make_error(Code::Internal, "not read");
    EXPECT_TRUE(store_->read([&](const Reader& reader) -> Status {
      out = reader.autoscaler(PoolId{"demo"});
      return ok_status();
    }));
    return out;
  };
  auto back = stored();
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->posted);
  EXPECT_FALSE(back->metric);
  EXPECT_FALSE(back->operation);
  EXPECT_FALSE(back->memory.last_up);
  EXPECT_EQ(back->setting.source, MetricSource::Queue);
  EXPECT_EQ(back->setting.prometheus, row.setting.prometheus);
  EXPECT_TRUE(back->setting.total);
  EXPECT_EQ(back->setting.stale_after, Seconds{7.5});
  EXPECT_EQ(back->setting.rule.target, 12.5);
  EXPECT_EQ(back->setting.rule.tolerance, 0.2);
  EXPECT_EQ(back->setting.rule.min, 2);
  EXPECT_EQ(back->setting.rule.max, 9);
  EXPECT_EQ(back->setting.rule.up.step, 3);
  EXPECT_EQ(back->setting.rule.down.stabilisation, Seconds{4});
  EXPECT_EQ(back->setting.rule.down.cooldown, Seconds{5});
  row.posted = 0;
  row.posted_at = WallTime{21};
  row.metric = 1e-3;
  row.memory = {{{Seconds{1700000000.25}, 4}, {Seconds{1700000001.5}, 5}}, Seconds{3}, {}};
  row.looked = WallTime{22};
  row.desired = 5;
  row.reason = "because";
  row.operation = OperationId{"op-9"};
  ASSERT_TRUE(put(row));
  back = stored();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->posted, 0.0) << "which is not nothing";
  EXPECT_EQ(back->posted_at, WallTime{21});
  EXPECT_EQ(back->metric, 1e-3);
  ASSERT_EQ(back->memory.wishes.size(), 2U);
  EXPECT_EQ(back->memory.wishes[0].at, Seconds{1700000000.25});
  EXPECT_EQ(back->memory.wishes[1].desired, 5);
  EXPECT_EQ(back->memory.last_up, Seconds{3});
  EXPECT_FALSE(back->memory.last_down);
  EXPECT_EQ(back->operation, OperationId{"op-9"});
  EXPECT_EQ(back->reason, "because");
  ASSERT_TRUE(store_->write([](Transaction& tx) { return tx.erase(PoolId{"demo"}); }));
  EXPECT_EQ(stored().error().code, Code::NotFound);
  EXPECT_EQ(put(row).error().code, Code::Conflict) << "no rule without a pool";
}

TEST_F(StoreTest, AQuotaIsKeptWithItsHolesAndCountsItsProjectsVms) {
  const ProjectId physics{"physics"};
  const auto stored = [&] {
    Quota out;
    EXPECT_TRUE(store_->read([&](const Reader& reader) -> Status {
      out = reader.quota(physics).value();
      return ok_status();
    }));
    return out;
  };
  EXPECT_EQ(stored().project, physics);
  EXPECT_FALSE(stored().vms);
  Quota quota{physics};
  quota.memory = mebibytes(5);
  quota.hosts = 0;
  ASSERT_TRUE(put(quota));
  EXPECT_FALSE(stored().vms);
  EXPECT_EQ(stored().memory, mebibytes(5));
  EXPECT_EQ(stored().hosts, 0) << "which is not none";
  ASSERT_TRUE(put(full_pool()));
  Pool other = full_pool();
  other.id = PoolId{"other"};
  other.project = ProjectId{kDefaultProject};
  ASSERT_TRUE(put(other));
  ASSERT_TRUE(put(full_host()));
  ASSERT_TRUE(put(full_vm(0)));
  EXPECT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_EQ(reader.vms_of_project(physics)->size(), 1U);
    EXPECT_EQ(reader.vms_of_project(other.project)->size(), 0U);
    EXPECT_EQ(reader.quotas()->size(), 1U);
    return ok_status();
  }));
  ASSERT_TRUE(store_->write([&](Transaction& tx) { return tx.erase_quota(physics); }));
  EXPECT_FALSE(stored().memory);
}

TEST_F(StoreTest, EveryFieldOfAHostComesBackAfterReopening) {
  const Host host = full_host();
  ASSERT_TRUE(put(host));
  open();
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    auto row = reader.host(host.id);
    EXPECT_TRUE(row);
    EXPECT_EQ(row->address, host.address);
    EXPECT_EQ(row->admin, host.admin);
    EXPECT_EQ(row->health, host.health);
    EXPECT_EQ(row->health_reason, host.health_reason);
    EXPECT_EQ(row->memory, host.memory);
    EXPECT_EQ(row->cpus, host.cpus);
    EXPECT_EQ(row->vm_overhead, host.vm_overhead);
    EXPECT_EQ(row->hypervisor, host.hypervisor);
    EXPECT_EQ(row->live_migration, host.live_migration);
    EXPECT_EQ(row->strategies, host.strategies);
    EXPECT_EQ(row->dirty_log, host.dirty_log);
    EXPECT_EQ(row->dirty_log_why, host.dirty_log_why);
    EXPECT_TRUE(row->migration_tls);
    EXPECT_EQ(row->migration_address, host.migration_address);
    EXPECT_EQ(row->cpu_speed, host.cpu_speed);
    EXPECT_EQ(row->added, host.added);
    EXPECT_EQ(row->last_seen, host.last_seen);
    return ok_status();
  }));
}

TEST_F(StoreTest, EveryFieldOfPoolVmAndJobComesBack) {
  ASSERT_TRUE(put(full_host()));
  ASSERT_TRUE(put(full_pool()));
  ASSERT_TRUE(put(full_vm(0)));
  Job job;
  job.id = JobId{"job-1"};
  job.name = "n";
  job.pool = PoolId{"demo"};
  job.command = {"prog", "with \"quotes\"", "\xff\xfe"};
  job.environment = {"A=1"};
  job.ranks = 2;
  job.state = JobState::Running;
  job.exit_code = 137;
  job.reason = "r";
  job.vms = {VmId{"demo-0"}};
  job.output_bytes = 1ULL << 40U;
  job.created = WallTime{1};
  job.started = WallTime{2};
  job.ended = WallTime{3};
  ASSERT_TRUE(put(job));
  open();
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    const auto pool = reader.pool(PoolId{"demo"});
    EXPECT_TRUE(pool);
    EXPECT_EQ(pool->hosts, full_pool().hosts);
    EXPECT_EQ(pool->token, "secret");
    EXPECT_EQ(pool->vcpus, 3);
    EXPECT_EQ(pool->image_version, "abc");
    EXPECT_EQ(pool->move_policy.strategy, Strategy::Hybrid);
    EXPECT_EQ(pool->move_policy.priority, Priority::Manual);
    EXPECT_EQ(pool->move_policy.downtime_limit, Milliseconds{120});
    EXPECT_FALSE(pool->move_policy.time_limit);
    EXPECT_TRUE(pool->move_policy.drop_page_cache);
    EXPECT_EQ(pool->move_policy.knobs, full_pool().move_policy.knobs);
    EXPECT_EQ(pool->project, ProjectId{"physics"});
    const auto vm = reader.vm(VmId{"demo-0"});
    EXPECT_TRUE(vm);
    EXPECT_EQ(vm->mac, full_vm(0).mac);
    EXPECT_EQ(vm->ip, full_vm(0).ip);
    EXPECT_EQ(vm->host, full_vm(0).host);
    EXPECT_EQ(vm->uuid, "u-0");
    EXPECT_EQ(vm->state, VmState::Running);
    EXPECT_EQ(vm->started, WallTime{15});
    const auto back = reader.job(job.id);
    EXPECT_TRUE(back);
    EXPECT_EQ(back->command.size(), 3U);
    EXPECT_EQ(back->command[1], "with \"quotes\"");
    EXPECT_EQ(back->exit_code, 137);
    EXPECT_EQ(back->output_bytes, 1ULL << 40U);
    EXPECT_EQ(back->vms, job.vms);
    return ok_status();
  }));
}

TEST_F(StoreTest, IncarnationsThatAreOverStayKnown) {
  ASSERT_TRUE(put(full_host()));
  ASSERT_TRUE(put(full_pool()));
  Vm vm = full_vm(0);
  ASSERT_TRUE(put(vm));
  vm.reason = "still the same one";
  ASSERT_TRUE(put(vm));
  const auto over = [&](const char* uuid) {
    bool out = false;
    EXPECT_TRUE(store_->read([&](const Reader& reader) -> Status {
      out = *reader.has_ended(uuid);
      return ok_status();
    }));
    return out;
  };
  EXPECT_FALSE(over("u-0"));
  vm.uuid = "u-1";
  ASSERT_TRUE(put(vm));
  EXPECT_TRUE(over("u-0"));
  EXPECT_FALSE(over("u-1"));
  vm.uuid = "u-0";
  ASSERT_TRUE(put(vm));
  ASSERT_TRUE(store_->write([&](Transaction& tx) { return tx.erase(vm.id); })) << "a second time";
  open();
  EXPECT_TRUE(over("u-0"));
  EXPECT_TRUE(over("u-1"));
  EXPECT_FALSE(over("u-2"));
}

TEST_F(StoreTest, EveryFieldOfAMigrationComesBack) {
  Migration migration;
  migration.id = OperationId{"op-1"};
  migration.vm = VmId{"demo-0"};
  migration.source = HostId{"h1"};
  migration.destination = HostId{"h2"};
  migration.bandwidth_limit = BytesPerSecond{5e7};
  migration.downtime_limit = Milliseconds{300};
  migration.sending = {Strategy::Hybrid,
                       3,
                       21,
                       11,
                       4,
                       BytesPerSecond{1.5e6},
                       BytesPerSecond{2.5e6},
                       0.75,
                       true,
                       Milliseconds{45},
                       Milliseconds{290},
                       BytesPerSecond{3.5e6},
                       {},
                       true};
  migration.rounds = {{0, Microseconds{1}, Microseconds{2}, Bytes{3}, Bytes{4}, 5.5},
                      {1, Microseconds{6}, Microseconds{7}, Bytes{8}, Bytes{9}, 10.25}};
  migration.transferred = Bytes{99};
  migration.total_time = Microseconds{123};
  migration.downtime_peers = Microseconds{0};
  migration.announcements = 6;
  migration.held = Microseconds{0};
  migration.switched_with = 5;
  migration.earlier = {
      {Strategy::Compressed, {4.5, 3.5, 5.5, 4.25}, Microseconds{76}, Bytes{77}, 4, WallTime{78}}};
  migration.reconsiders = "it goes on and on";
  migration.jobs = {JobId{"job-1"}};
  migration.file = {"/store/moves/op-1/demo-0",
                    Bytes{71},
                    0xfedcba9876543210ULL,
                    Bytes{72},
                    WallTime{73},
                    WallTime{74},
                    Microseconds{75},
                    std::nullopt,
                    Microseconds{0}};
  ASSERT_TRUE(put(migration));
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    const auto row = reader.migration(migration.id);
    EXPECT_TRUE(row);
    EXPECT_EQ(row->bandwidth_limit, migration.bandwidth_limit);
    EXPECT_EQ(row->downtime_limit, migration.downtime_limit);
    EXPECT_EQ(row->sending.strategy, Strategy::Hybrid);
    EXPECT_EQ(row->sending.channels, 3);
    EXPECT_EQ(row->sending.throttle_initial_percent, 21);
    EXPECT_EQ(row->sending.throttle_step_percent, 11);
    EXPECT_EQ(row->sending.pre_copy_rounds, 4);
    EXPECT_EQ(row->sending.rate_min, BytesPerSecond{1.5e6});
    EXPECT_EQ(row->sending.rate_max, BytesPerSecond{2.5e6});
    EXPECT_DOUBLE_EQ(row->sending.rate_gain, 0.75);
    EXPECT_TRUE(row->sending.allow_post_copy);
    EXPECT_TRUE(row->sending.limit_rises_early);
    EXPECT_EQ(row->sending.downtime_limit, Milliseconds{45});
    EXPECT_EQ(row->sending.later_downtime_limit, Milliseconds{290});
    EXPECT_EQ(row->sending.switchover_bandwidth, BytesPerSecond{3.5e6});
    EXPECT_EQ(row->rounds.size(), 2U);
    EXPECT_EQ(row->rounds[1].sent, Bytes{8});
    EXPECT_EQ(row->reconsiders, "it goes on and on");
    EXPECT_EQ(row->earlier.size(), 1U);
    const EarlierTry& earlier = row->earlier.front();
    EXPECT_EQ(earlier.strategy, Strategy::Compressed);
    EXPECT_DOUBLE_EQ(earlier.said_s.value, 4.5);
    EXPECT_DOUBLE_EQ(earlier.said_s.low, 3.5);
    EXPECT_DOUBLE_EQ(earlier.said_s.high, 5.5);
    EXPECT_DOUBLE_EQ(earlier.said_s.model, 4.25);
    EXPECT_EQ(earlier.lasted, Microseconds{76});
    EXPECT_EQ(earlier.sent, Bytes{77});
    EXPECT_EQ(earlier.rounds, 4);
    EXPECT_EQ(earlier.ended, WallTime{78});
    EXPECT_DOUBLE_EQ(row->rounds[1].dirty_bytes_per_s, 10.25);
    EXPECT_EQ(row->total_time, Microseconds{123});
    EXPECT_EQ(row->downtime_peers, Microseconds{0}) << "zero is known, not unknown";
    EXPECT_EQ(row->downtime_guest, std::nullopt);
    EXPECT_EQ(row->held, Microseconds{0});
    EXPECT_EQ(row->switched_with, 5);
    EXPECT_EQ(row->jobs, migration.jobs);
    EXPECT_EQ(row->file.path, migration.file.path);
    EXPECT_EQ(row->file.size, migration.file.size);
    EXPECT_EQ(row->file.checksum, migration.file.checksum);
    EXPECT_EQ(row->file.written, migration.file.written);
    EXPECT_EQ(row->file.began, migration.file.began);
    EXPECT_EQ(row->file.stopped, migration.file.stopped);
    EXPECT_EQ(row->file.may_have_run, migration.file.may_have_run);
    EXPECT_EQ(row->file.check, migration.file.check);
    EXPECT_EQ(row->file.trans, std::nullopt);
    EXPECT_EQ(row->file.restart, Microseconds{0});
    const auto with_files = reader.migrations_with_files();
    EXPECT_TRUE(with_files);
    EXPECT_EQ(with_files->size(), 1U);
    return ok_status();
  }));
  migration.file.path.clear();
  migration.file.may_have_run = true;
  ASSERT_TRUE(put(migration));
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_TRUE(reader.migrations_with_files()->empty());
    EXPECT_EQ(reader.migration(migration.id)->file.check, migration.file.check);
    EXPECT_TRUE(reader.migration(migration.id)->file.may_have_run);
    return ok_status();
  }));
}

TEST_F(StoreTest, AFailedChangeLeavesEverythingAsItWas) {
  ASSERT_TRUE(put(full_host()));
  const auto commits = store_->commits();
  auto done = store_->write([&](Transaction& tx) -> Status {
    Host changed = full_host();
    changed.cpus = 99;
    EXPECT_TRUE(tx.put(changed));
    return make_error(Code::FailedPrecondition, "no");
  });
  EXPECT_FALSE(done);
  EXPECT_EQ(done.error().message, "no");
  EXPECT_EQ(store_->commits(), commits);
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_EQ(reader.host(HostId{"h1"})->cpus, 8);
    return ok_status();
  }));
}

TEST_F(StoreTest, OneUnfinishedOperationPerObject) {
  const auto insert = [&](const Operation& op) {
    return store_->write([&](Transaction& tx) { return tx.insert(op); });
  };
  ASSERT_TRUE(insert(operation("op-1", OperationKind::VmMigrate, "x")));
  const auto second = insert(operation("op-2", OperationKind::VmStop, "x"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::Conflict);
  EXPECT_NE(second.error().text().find("op-1"), std::string::npos) << second.error().text();
  // A pool may have a VM's or a host's name.
  EXPECT_TRUE(insert(operation("op-3", OperationKind::PoolCreate, "x")));
  // Once it ended, the next one may come.
  ASSERT_TRUE(store_->write([&](Transaction& tx) -> Status {
    auto first = tx.operation(OperationId{"op-1"});
    first->outcome = Outcome::Succeeded;
    return tx.update(*first);
  }));
  EXPECT_TRUE(insert(operation("op-4", OperationKind::VmStop, "x")));
}

TEST_F(StoreTest, TheIndexHoldsEvenIfTheCheckAboveItIsForgotten) {
  ASSERT_TRUE(store_->write([&](Transaction& tx) {
    return tx.insert(operation("op-1", OperationKind::VmMigrate, "x"));
  }));
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &raw), SQLITE_OK);
  const int code = sqlite3_exec(
      raw,
      "INSERT INTO operation (id, kind, target, state, outcome, reason, error_code, "
      "cancel_requested, "
      "attempt, request, progress, created_us, started_us, ended_us, deadline_us) VALUES ('op-9', "
      "'vm.stop', 'x', 'Planned', 'pending', '', '', 0, 1, '{}', 0, 0, 0, 0, 0)",
      nullptr, nullptr, nullptr);
  EXPECT_EQ(code, SQLITE_CONSTRAINT);
  sqlite3_close(raw);
}

TEST_F(StoreTest, MacAndAddressAreUnique) {
  ASSERT_TRUE(put(full_host()));
  ASSERT_TRUE(put(full_pool()));
  ASSERT_TRUE(put(full_vm(0)));
  Vm twin = full_vm(1);
  twin.ip = full_vm(0).ip;
  EXPECT_FALSE(put(twin));
  twin = full_vm(1);
  twin.mac = full_vm(0).mac;
  EXPECT_FALSE(put(twin));
  EXPECT_TRUE(put(full_vm(1)));
}

TEST_F(StoreTest, AHostWithVmsCantBeErased) {
  ASSERT_TRUE(put(full_host()));
  ASSERT_TRUE(put(full_pool()));
  ASSERT_TRUE(put(full_vm(0)));
  EXPECT_FALSE(store_->write([](Transaction& tx) { return tx.erase(HostId{"h1"}); }));
}

TEST_F(StoreTest, NumbersGoOnAfterReopening) {
  const auto take = [&] {
    std::uint64_t got = 0;
    EXPECT_TRUE(store_->write([&](Transaction& tx) -> Status {
      auto number = tx.next_number("job");
      if (!number) return number.error();
      got = *number;
      return ok_status();
    }));
    return got;
  };
  EXPECT_EQ(take(), 1U);
  EXPECT_EQ(take(), 2U);
  open();
  EXPECT_EQ(take(), 3U);
}

TEST_F(StoreTest, EventsComeInOrderAndAfterANumber) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store_->write([&](Transaction& tx) {
      return tx.append(Event{0, WallTime{i}, "vm", "v" + std::to_string(i), "vm.state", "{}"});
    }));
  }
  ASSERT_TRUE(store_->read([&](const Reader& reader) -> Status {
    EXPECT_EQ(*reader.last_event(), 5U);
    const auto events = reader.events_after(2, 2);
    EXPECT_TRUE(events);
    EXPECT_EQ(events->size(), 2U);
    EXPECT_EQ((*events)[0].subject, "v2");
    EXPECT_EQ((*events)[1].seq, 4U);
    return ok_status();
  }));
}

TEST_F(StoreTest, AMissingRowIsNamed) {
  ASSERT_TRUE(store_->read([](const Reader& reader) -> Status {
    const auto row = reader.vm(VmId{"nobody"});
    EXPECT_FALSE(row);
    EXPECT_EQ(row.error().code, Code::NotFound);
    EXPECT_NE(row.error().text().find("'nobody'"), std::string::npos);
    return ok_status();
  }));
}

TEST_F(StoreTest, AfterAStopNothingIsWritten) {
  ASSERT_TRUE(put(full_host()));
  store_->stop_after_commits(store_->commits());
  EXPECT_FALSE(put(full_pool()));
  open();
  ASSERT_TRUE(store_->read([](const Reader& reader) -> Status {
    EXPECT_TRUE(reader.host(HostId{"h1"}));
    EXPECT_FALSE(reader.pool(PoolId{"demo"}));
    return ok_status();
  }));
}

TEST_F(StoreTest, AFileOfANewerProgramIsRefused) {
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, "PRAGMA user_version = 999", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(raw);
  store_.reset();
  const auto opened = Store::open(path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::FailedPrecondition);
}

TEST_F(StoreTest, AKilledWriterLosesNothingThatWasReported) {
  store_.reset();
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    // Reports each commit through the pipe after it returned ok, until it is killed.
    auto opened = Store::open(path());
    if (!opened) _exit(1);
    for (unsigned char i = 1; i < 200; ++i) {
      const auto done = (*opened)->write([](Transaction& tx) -> Status {
        auto number = tx.next_number("killed");
        if (!number) return number.error();
        return ok_status();
      });
      if (!done || ::write(pipe_ends[1], &i, 1) != 1) _exit(1);
    }
    pause();
    _exit(0);
  }
  unsigned char reported = 0;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(::read(pipe_ends[0], &reported, 1), 1);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  close(pipe_ends[1]);
  unsigned char more = 0;
  while (::read(pipe_ends[0], &more, 1) == 1) reported = more;
  close(pipe_ends[0]);
  open();
  std::uint64_t next = 0;
  ASSERT_TRUE(store_->write([&](Transaction& tx) -> Status {
    auto number = tx.next_number("killed");
    if (!number) return number.error();
    next = *number;
    return ok_status();
  }));
  // The commit in flight at the kill may or may not be there; every reported one is.
  EXPECT_GE(next, static_cast<std::uint64_t>(reported) + 1);
  EXPECT_LE(next, static_cast<std::uint64_t>(reported) + 2);
}

}  // namespace
}  // namespace mare::store
