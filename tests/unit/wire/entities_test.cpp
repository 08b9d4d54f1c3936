// Every member of every entity goes there and back, filled and empty.
#include "rest/wire/entities.h"

#include "rest/wire/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::wire {
namespace {

using testing::HasSubstr;

constexpr WallTime kThen{1'795'233'600'123'456};

/// JSON -> value -> JSON is the same, and so is the text in between.
template <typename T, typename From>
void there_and_back(const T& value, From from) {
  const Json json = to_json(value);
  const Json received = Json::parse(to_text(json));
  const auto back = from(received);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(to_text(to_json(*back)), to_text(json));
}

Migration full_migration() {
  Migration m;
  m.id = OperationId{"op-9"};
  m.vm = VmId{"demo-1"};
  m.source = HostId{"h1"};
  m.destination = HostId{"h3"};
  m.bandwidth_limit = BytesPerSecond{5.5e7};
  m.downtime_limit = Milliseconds{300};
  m.sending.strategy = Strategy::Throttled;
  m.rounds = {{0, Microseconds{0}, Microseconds{1'500'001}, Bytes{200'000'000}, Bytes{77}, 1.5e6},
              {1, Microseconds{1'500'001}, Microseconds{7}, Bytes{77}, Bytes{0}, 0.0}};
  m.memory_total = mebibytes(192);
  m.transferred = Bytes{200'000'077};
  m.remaining = Bytes{3};
  m.total_time = Microseconds{1'600'000};
  m.downtime_hypervisor = Microseconds{21'500};
  m.downtime_guest = Microseconds{40'001};
  m.downtime_peers = Microseconds{55'000};
  m.file.check = Microseconds{1'200'000};
  m.file.trans = Microseconds{300'000};
  m.file.restart = Microseconds{100'001};
  m.announce_delay = Microseconds{900};
  m.announcements = 10;
  m.held = Microseconds{1'250'000};
  m.switched_with = 5;
  m.earlier = {{Strategy::Compressed,
                {4.25, 3.9, 5, 4.1},
                Microseconds{10'800'001},
                Bytes{1'180'000'000},
                4,
                kThen}};
  m.switched = kThen;
  m.jobs = {JobId{"job-1"}};
  return m;
}

TEST(Entities, Host) {
  HostRecord record;
  record.host = {HostId{"h1"},
                 "10.77.0.11:7412",
                 HostAdmin::Draining,
                 HostHealth::Down,
                 "no heartbeat",
                 Bytes{4294967297},
                 4,
                 mebibytes(40),
                 "qemu 10.0.2 (tcg)",
                 true,
                 kThen,
                 kThen};
  record.host.strategies = {Strategy::PreCopy, Strategy::Hybrid};
  record.host.dirty_log = "pagemap-scan";
  record.host.dirty_log_why = "x";
  record.host.migration_address = "10.78.0.11";
  record.host.cpu_speed = 431.5;
  record.use = {3, mebibytes(696)};
  there_and_back(record, host_from);
  HostRecord least;
  least.host.id = HostId{"h"};
  there_and_back(least, host_from);
  EXPECT_TRUE(to_json(least)["health_reason"].is_null());
  EXPECT_TRUE(to_json(least)["last_seen"].is_null());
  EXPECT_TRUE(to_json(least)["migration_address"].is_null());
  EXPECT_TRUE(to_json(least)["cpu_speed"].is_null());
}

TEST(Entities, PoolKeepsItsTokenToItself) {
  const Pool pool{PoolId{"demo"}, "base",         "3",  4, mebibytes(192), 1,
                  "secret",       {HostId{"h1"}}, kThen};
  there_and_back(pool, pool_from);
  Pool limited = pool;
  limited.move_policy.priority = Priority::LeastTraffic;
  limited.move_policy.bandwidth_limit = BytesPerSecond{5e7};
  limited.move_policy.time_limit = Seconds{20};
  limited.move_policy.at_limit = LimitAction::StopAndCopy;
  limited.project = ProjectId{"physics"};
  there_and_back(limited, pool_from);
  EXPECT_EQ(pool_from(to_json(limited))->move_policy.at_limit, LimitAction::StopAndCopy);
  EXPECT_EQ(pool_from(to_json(limited))->project, ProjectId{"physics"});
  EXPECT_THAT(to_text(to_json(pool)), testing::Not(HasSubstr("secret")));
}

TEST(Entities, Vm) {
  for (int i = 0; i <= static_cast<int>(VmState::Lost); ++i) {
    Vm vm{VmId{"demo-0"},
          PoolId{"demo"},
          0,
          "5d2c",
          *MacAddress::parse("52:54:00:12:34:56"),
          *Ipv4Address::parse("10.77.1.1"),
          mebibytes(192),
          2,
          static_cast<VmState>(i),
          HostId{"h1"},
          "why",
          kThen,
          kThen};
    there_and_back(vm, vm_from);
    EXPECT_EQ(vm_from(to_json(vm))->state, vm.state);
    vm.host.reset();
    vm.started = WallTime{0};
    there_and_back(vm, vm_from);
    EXPECT_TRUE(to_json(vm)["host"].is_null());
  }
}

TEST(Entities, Job) {
  Job job{JobId{"job-1"},
          "ring",
          PoolId{"demo"},
          {"/opt/x", ""},
          {"A="},
          2,
          JobState::Failed,
          137,
          "killed",
          {VmId{"demo-0"}, VmId{"demo-1"}},
          12345,
          kThen,
          kThen,
          kThen};
  there_and_back(job, job_from);
  job.exit_code.reset();
  job.vms.clear();
  there_and_back(job, job_from);
  EXPECT_TRUE(to_json(job)["exit_code"].is_null());
  EXPECT_TRUE(to_json(job)["checkpoint_every_s"].is_null());
  EXPECT_TRUE(to_json(job)["checkpoints_max_age_s"].is_null());
  job.checkpoints = {CheckpointRule::Every, Seconds{2.5}, 7, CheckpointMode::Full, 3, Seconds{90}};
  job.restarts = 3;
  there_and_back(job, job_from);
  EXPECT_TRUE(to_json(job)["safe_point_wait_s"].is_null());
  job.checkpoints.safe_points = true;
  job.checkpoints.safe_point_wait = Seconds{0.25};
  there_and_back(job, job_from);
  EXPECT_EQ(to_json(job)["safe_point_wait_s"], 0.25);
  EXPECT_EQ(to_json(job)["checkpoint_partner"], false);
  job.checkpoints.partner = true;
  there_and_back(job, job_from);
  EXPECT_EQ(to_json(job)["checkpoint_partner"], true);
  EXPECT_EQ(to_json(job)["tightness"], 1);
  job.tightness = 0.25;
  there_and_back(job, job_from);
  EXPECT_EQ(to_json(job)["tightness"], 0.25);
  EXPECT_EQ(to_json(job)["checkpoint_every_s"], 2.5);
  Json old = to_json(job);
  for (const char* name :
       {"checkpoint_rule", "checkpoint_every_s", "checkpoints_kept", "checkpoint_mode",
        "checkpoint_chain", "checkpoints_max_age_s", "restarts", "safe_points", "safe_point_wait_s",
        "checkpoint_partner", "tightness"}) {
    old.erase(name);
  }
  const auto from_older = job_from(old);
  ASSERT_TRUE(from_older.ok()) << "a server of the version before";
  EXPECT_EQ(from_older->checkpoints.rule, CheckpointRule::Never);
  EXPECT_FALSE(from_older->checkpoints.safe_points);
  EXPECT_FALSE(from_older->checkpoints.partner);
  EXPECT_EQ(from_older->tightness, 1);
}

TEST(Entities, Checkpoint) {
  Checkpoint checkpoint;
  checkpoint.id = CheckpointId{"ck-1"};
  checkpoint.job = JobId{"job-1"};
  checkpoint.operation = OperationId{"op-3"};
  checkpoint.state = CheckpointState::Complete;
  checkpoint.began = kThen;
  checkpoint.pause = Microseconds{62'500};
  checkpoint.skew = Microseconds{4'125};
  checkpoint.size = Bytes{5'000'000'000};
  CheckpointPart part;
  part.vm = VmId{"demo-0"};
  part.host = HostId{"h1"};
  part.path = "/store/ck-1/demo-0";
  part.size = checkpoint.size;
  part.checksum = 0xfedcba9876543210ULL;
  part.stopped = kThen;
  checkpoint.parts = {part, part};
  checkpoint.parts[1].written = Bytes{7};
  checkpoint.parts[1].base = CheckpointId{"ck-0"};
  checkpoint.parts[1].partner = HostId{"h2"};
  const Json shown = Json::parse(to_text(to_json(checkpoint)));
  EXPECT_EQ(shown["pause_ms"], 62.5);
  EXPECT_EQ(shown["safe_point"], "not-asked");
  EXPECT_EQ(shown["skew_ms"], 4.125);
  EXPECT_TRUE(shown["completed"].is_null());
  EXPECT_EQ(shown["size_bytes"], 5'000'000'000);
  EXPECT_EQ(shown["parts"][0]["checksum"], "fedcba9876543210") << "no number: it needs 64 bits";
  EXPECT_EQ(shown["parts"][0]["vm"], "demo-0");
  EXPECT_EQ(shown["parts"][0]["written_bytes"], 5'000'000'000) << "as an older version wrote it";
  EXPECT_TRUE(shown["parts"][0]["base"].is_null());
  EXPECT_EQ(shown["parts"][1]["written_bytes"], 7);
  EXPECT_EQ(shown["parts"][1]["base"], "ck-0");
  EXPECT_EQ(shown["written_bytes"], 5'000'000'007);
  EXPECT_EQ(shown["base"], "ck-0");
  EXPECT_TRUE(shown["parts"][0]["partner"].is_null());
  EXPECT_EQ(shown["parts"][1]["partner"], "h2");
  EXPECT_EQ(shown["in_memory"], 1);
  EXPECT_TRUE(shown["parts"][0]["resumed"].is_null());
}

TEST(Entities, ForeignBytesAreShown) {
  Job job;
  job.id = JobId{"job-1"};
  job.pool = PoolId{"p"};
  job.command = {"\xff\xfe"};
  EXPECT_THAT(to_text(to_json(job)), HasSubstr("\xEF\xBF\xBD"));
}

TEST(Entities, Operation) {
  Operation op{OperationId{"op-2"},
               OperationKind::VmMigrate,
               "demo-0",
               "PreCopying",
               Outcome::Pending,
               "moving",
               "conflict",
               OperationId{"op-1"},
               true,
               2,
               R"({"vm":"demo-0","timeout_s":600})",
               0.25,
               kThen,
               kThen,
               WallTime{0},
               kThen};
  there_and_back(op, operation_from);
  const auto back = operation_from(to_json(op));
  EXPECT_EQ(Json::parse(back->request), Json::parse(op.request));
  EXPECT_EQ(back->parent, op.parent);
  EXPECT_EQ(back->kind, op.kind);
  op.parent.reset();
  op.request.clear();
  there_and_back(op, operation_from);
}

TEST(Entities, ARequestIsAlwaysAnObject) {
  Operation op;
  op.id = OperationId{"op-1"};
  for (const char* text : {"", "{}", "force", "7", "[1]"}) {
    op.request = text;
    EXPECT_TRUE(to_json(op)["request"].is_object()) << text;
  }
  EXPECT_EQ(to_json(op)["request"]["value"], Json::array({1}));
}

TEST(Entities, EventsAndHistory) {
  there_and_back(Event{7, kThen, "vm", "demo-0", "vm.state", R"({"state":"running"})"}, event_from);
  EXPECT_EQ(to_json(Event{7, kThen, "vm", "x", "y", "not json"})["data"], "not json");
  there_and_back(
      OperationEvent{3, OperationId{"op-1"}, kThen, "Planned", "Reserve", "Reserved", ""},
      operation_event_from);
}

TEST(Entities, Migration) {
  MigrationRecord record{full_migration(), MigrationStatus{"Done", Outcome::Succeeded, "moved", "",
                                                           1.0, kThen, kThen, kThen}};
  there_and_back(record, migration_from);
  const auto back = migration_from(to_json(record));
  EXPECT_EQ(back->migration.downtime_guest, Microseconds{40'001});
  EXPECT_EQ(back->migration.rounds.at(0).duration, Microseconds{1'500'001});
  EXPECT_EQ(back->migration.earlier.at(0).lasted, Microseconds{10'800'001});
  ASSERT_TRUE(back->status);
  EXPECT_EQ(back->status->outcome, Outcome::Succeeded);
  record.status.reset();  // The operation was pruned.
  there_and_back(record, migration_from);
  EXPECT_FALSE(migration_from(to_json(record))->status);
  MigrationRecord least;
  least.migration.id = OperationId{"op-1"};
  least.migration.vm = VmId{"a"};
  least.migration.source = HostId{"b"};
  least.migration.destination = HostId{"c"};
  there_and_back(least, migration_from);
  EXPECT_TRUE(to_json(least)["downtime_ms"]["peers"].is_null());
}

TEST(Entities, Image) {
  there_and_back(Image{"base", "3", mebibytes(160), 400'000'000, {"hpcc"}, kThen}, image_from);
}

TEST(Entities, WrongAnswersAreNamed) {
  const auto none = vm_from(Json::array());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::Internal);
  Json json = to_json(Vm{});
  json["id"] = "demo-0";
  json["pool"] = "demo";
  json["state"] = "flying";
  json["mac"] = "zz";
  const auto wrong = vm_from(json);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("'flying'"));
  EXPECT_THAT(wrong.error().message, HasSubstr("/mac"));
  EXPECT_THAT(wrong.error().remedy, HasSubstr("same version"));
}

TEST(Entities, NewerServersMaySayMore) {
  Json json = to_json(Event{7, kThen, "vm", "demo-0", "vm.state", "{}"});
  json["color"] = "blue";
  EXPECT_TRUE(event_from(json).ok());
}

}  // namespace
}  // namespace mare::wire
