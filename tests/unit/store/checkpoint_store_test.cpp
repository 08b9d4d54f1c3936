// Rows of checkpoints, and what jobs and hosts learned with them.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>

#include "orchestrator/store/store.h"

namespace mare::store {
namespace {

Checkpoint full_checkpoint(const std::string& id, const std::string& job, CheckpointState state) {
  Checkpoint checkpoint;
  checkpoint.id = CheckpointId{id};
  checkpoint.job = JobId{job};
  checkpoint.operation = OperationId{"op-9"};
  checkpoint.state = state;
  checkpoint.began = WallTime{100};
  checkpoint.completed = WallTime{200};
  checkpoint.pause = Microseconds{43'000};
  checkpoint.skew = Microseconds{2'000};
  checkpoint.size = Bytes{12};
  checkpoint.safe_point = SafePoint::Missed;
  for (int i = 0; i < 2; ++i) {
    CheckpointPart part;
    part.vm = VmId{"demo-" + std::to_string(i)};
    part.uuid = "u" + std::to_string(i);
    part.host = HostId{"h1"};
    part.path = "/store/" + id + "/demo-" + std::to_string(i);
    part.size = Bytes{6};
    part.checksum = 0xfedcba9876543210ULL + static_cast<std::uint64_t>(i);  // above what SQL has
    part.stopped = WallTime{110};
    part.resumed = WallTime{150};
    part.written = Bytes{3};
    part.base = CheckpointId{"ck-0"};
    part.partner = HostId{i == 0 ? "h2" : ""};
    checkpoint.parts.push_back(part);
  }
  return checkpoint;
}

class CheckpointStoreTest : public testing::Test {
 protected:
  CheckpointStoreTest() {
    std::string pattern = testing::TempDir() + "mare-store-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    auto opened = Store::open(directory_ + "/mare.db");
    EXPECT_TRUE(opened) << opened.error().text();
    store_ = std::move(*opened);
  }
  ~CheckpointStoreTest() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  template <typename T>
  void put(const T& row) {
    EXPECT_TRUE(store_->write([&](Transaction& tx) { return tx.put(row); }));
  }
  template <typename T>
  T get(const std::function<Result<T>(const Reader&)>& ask) {
    std::optional<T> out;
    EXPECT_TRUE(store_->read([&](const Reader& reader) -> Status {
      auto found = ask(reader);
      EXPECT_TRUE(found) << found.error().text();
      if (found) out = *found;
      return ok_status();
    }));
    return out.value_or(T{});
  }
  std::string directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(CheckpointStoreTest, ComesBackAsItWas) {
  const Checkpoint put_in = full_checkpoint("ck-1", "job-1", CheckpointState::Complete);
  put(put_in);
  const auto found =
      get<Checkpoint>([](const Reader& r) { return r.checkpoint(CheckpointId{"ck-1"}); });
  EXPECT_EQ(found.job, put_in.job);
  EXPECT_EQ(found.operation, put_in.operation);
  EXPECT_EQ(found.state, CheckpointState::Complete);
  EXPECT_EQ(found.began, put_in.began);
  EXPECT_EQ(found.completed, put_in.completed);
  EXPECT_EQ(found.pause, put_in.pause);
  EXPECT_EQ(found.skew, put_in.skew);
  EXPECT_EQ(found.size, put_in.size);
  EXPECT_EQ(found.safe_point, SafePoint::Missed);
  ASSERT_EQ(found.parts.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found.parts[i].vm, put_in.parts[i].vm);
    EXPECT_EQ(found.parts[i].uuid, put_in.parts[i].uuid);
    EXPECT_EQ(found.parts[i].host, put_in.parts[i].host);
    EXPECT_EQ(found.parts[i].path, put_in.parts[i].path);
    EXPECT_EQ(found.parts[i].size, put_in.parts[i].size);
    EXPECT_EQ(found.parts[i].checksum, put_in.parts[i].checksum);
    EXPECT_EQ(found.parts[i].stopped, put_in.parts[i].stopped);
    EXPECT_EQ(found.parts[i].resumed, put_in.parts[i].resumed);
    EXPECT_EQ(found.parts[i].written, put_in.parts[i].written);
    EXPECT_EQ(found.parts[i].base, put_in.parts[i].base);
    EXPECT_EQ(found.parts[i].partner, put_in.parts[i].partner);
  }
}

TEST_F(CheckpointStoreTest, AreListedByJobAndByState) {
  put(full_checkpoint("ck-1", "job-1", CheckpointState::Complete));
  put(full_checkpoint("ck-2", "job-2", CheckpointState::Dropping));
  put(full_checkpoint("ck-3", "job-1", CheckpointState::Writing));
  const auto of_job = get<std::vector<Checkpoint>>(
      [](const Reader& r) { return r.checkpoints_of(JobId{"job-1"}); });
  ASSERT_EQ(of_job.size(), 2U);
  EXPECT_EQ(of_job[0].id.value, "ck-3") << "the newest first";
  EXPECT_EQ(of_job[1].id.value, "ck-1");
  const auto going = get<std::vector<Checkpoint>>(
      [](const Reader& r) { return r.checkpoints_in(CheckpointState::Dropping); });
  ASSERT_EQ(going.size(), 1U);
  EXPECT_EQ(going[0].id.value, "ck-2");
  ASSERT_TRUE(store_->write([](Transaction& tx) { return tx.erase(CheckpointId{"ck-1"}); }));
  ASSERT_TRUE(store_->read([](const Reader& r) -> Status {
    const auto gone = r.checkpoint(CheckpointId{"ck-1"});
    EXPECT_FALSE(gone);
    EXPECT_EQ(gone.error().code, Code::NotFound);
    return ok_status();
  }));
}

TEST_F(CheckpointStoreTest, AJobKeepsItsPlan) {
  Job job;
  job.id = JobId{"job-1"};
  job.pool = PoolId{"demo"};
  job.checkpoints = {
      CheckpointRule::Every, Seconds{1.5}, 7, CheckpointMode::Full, 5, Seconds{90.5}, true,
      Seconds{2.5},          true};
  job.restarts = 3;
  job.recovery_from = CheckpointId{"ck-5"};
  job.recovery_tries = 2;
  put(job);
  const auto found = get<Job>([](const Reader& r) { return r.job(JobId{"job-1"}); });
  EXPECT_EQ(found.checkpoints.rule, CheckpointRule::Every);
  EXPECT_EQ(found.checkpoints.every, Seconds{1.5});
  EXPECT_EQ(found.checkpoints.keep, 7);
  EXPECT_TRUE(found.checkpoints.safe_points);
  EXPECT_EQ(found.checkpoints.safe_point_wait, Seconds{2.5});
  EXPECT_EQ(found.checkpoints.mode, CheckpointMode::Full);
  EXPECT_EQ(found.checkpoints.chain, 5);
  EXPECT_EQ(found.checkpoints.max_age, Seconds{90.5});
  EXPECT_TRUE(found.checkpoints.partner);
  EXPECT_EQ(found.restarts, 3);
  EXPECT_EQ(found.recovery_from.value, "ck-5");
  EXPECT_EQ(found.recovery_tries, 2);
}

TEST_F(CheckpointStoreTest, AFileOfVersion8HasNoPartners) {
  put(full_checkpoint("ck-1", "job-1", CheckpointState::Complete));
  Job job;
  job.id = JobId{"job-1"};
  job.checkpoints.partner = true;
  put(job);
  store_.reset();
  // As version 8 had it: without the column, and without the member of each part.
  sqlite3* raw = nullptr;
  const std::string file = directory_ + "/mare.db";
  ASSERT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw,
                         "DROP INDEX job_with_partner;"
                         "DROP INDEX forecast_with_verdict;"
                         "ALTER TABLE forecast DROP COLUMN verdicts;"
                         "ALTER TABLE forecast DROP COLUMN job;"
                         "ALTER TABLE host DROP COLUMN migration_address;"
                         "ALTER TABLE host DROP COLUMN cpu_speed;"
                         "ALTER TABLE job DROP COLUMN tightness;"
                         "ALTER TABLE forecast DROP COLUMN destination_speed;"
                         "ALTER TABLE forecast DROP COLUMN tightness;"
                         "ALTER TABLE migration DROP COLUMN earlier;"
                         "ALTER TABLE migration DROP COLUMN reconsiders;"
                         "ALTER TABLE job DROP COLUMN checkpoint_partner;"
                         "UPDATE checkpoint SET parts = "
                         "json_remove(parts, '$[0].partner', '$[1].partner');"
                         "PRAGMA user_version = 8;",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(raw);
  sqlite3_close(raw);
  auto opened = Store::open(file);
  ASSERT_TRUE(opened) << opened.error().text();
  store_ = std::move(*opened);
  const auto old = get<Job>([](const Reader& r) { return r.job(JobId{"job-1"}); });
  EXPECT_FALSE(old.checkpoints.partner);
  EXPECT_EQ(old.tightness, 1) << "all wait for the slowest, as was taken of every job";
  const auto found =
      get<Checkpoint>([](const Reader& r) { return r.checkpoint(CheckpointId{"ck-1"}); });
  ASSERT_EQ(found.parts.size(), 2U);
  EXPECT_EQ(found.parts[0].path, "/store/ck-1/demo-0");
  EXPECT_EQ(found.parts[0].partner.value, "");
}

TEST_F(CheckpointStoreTest, AHostKeepsItsLeaseAndFence) {
  Host host;
  host.id = HostId{"h1"};
  host.lease = Milliseconds{4000};
  host.fence = HostFence::Over;
  host.fences = 3;
  put(host);
  const auto found = get<Host>([](const Reader& r) { return r.host(HostId{"h1"}); });
  EXPECT_EQ(found.lease, Milliseconds{4000});
  EXPECT_EQ(found.fence, HostFence::Over);
  EXPECT_EQ(found.fences, 3);
}

TEST_F(CheckpointStoreTest, TakingAndRestoringExcludeEachOther) {
  Operation take;
  take.id = OperationId{"op-1"};
  take.kind = OperationKind::CheckpointTake;
  take.target = "job-1";
  Operation restore = take;
  restore.id = OperationId{"op-2"};
  restore.kind = OperationKind::CheckpointRestore;
  Operation run = take;
  run.id = OperationId{"op-3"};
  run.kind = OperationKind::JobRun;
  ASSERT_TRUE(store_->write([&](Transaction& tx) { return tx.insert(take); }));
  EXPECT_TRUE(store_->write([&](Transaction& tx) { return tx.insert(run); })) << "the job goes on";
  const auto refused = store_->write([&](Transaction& tx) { return tx.insert(restore); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Conflict);
}

}  // namespace
}  // namespace mare::store
