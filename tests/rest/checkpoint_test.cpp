// Checkpoints over REST; every reply checked against the description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "rest/server/metrics.h"
#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using wire::Json;

class CheckpointApi : public testing::Test {
 protected:
  void SetUp() override {
    world.add_hosts(2);
    world.add_pool("p", 2);
  }
  Got described(const std::string& operation_id, const Got& got) {
    EXPECT_THAT(schemas.check_reply(operation_id, got.status, got.header("content-type"), got.body),
                IsEmpty());
    return got;
  }
  Json get(const std::string& operation_id, const std::string& path) {
    return described(operation_id, world.get("/api/v1/" + path)).json();
  }
  /// A job of two ranks that runs for long, and runs by now.
  std::string running_job(const std::string& more = "", const std::string& arguments = "") {
    const Json operation =
        described("submitJob",
                  world.post("/api/v1/jobs", R"({"pool":"p","command":["solver","--sim-work=60")" +
                                                 arguments + R"(],"ranks":2)" + more + "}"))
            .json();
    const std::string id = operation["target"];
    for (int i = 0; i < 1200 && get("getJob", "jobs/" + id)["state"] != "running"; ++i) {
      world.clock.sleep_for(Milliseconds{25});
    }
    EXPECT_EQ(get("getJob", "jobs/" + id)["state"], "running");
    return id;
  }
  Json checkpoint(const std::string& job, const std::string& outcome = "succeeded") {
    return world.finish(
        described("checkpointJob", world.post("/api/v1/jobs/" + job + ":checkpoint", "{}")),
        outcome);
  }
  Got restart(const std::string& job, const std::string& body = "{}") {
    return described("restartJob", world.post("/api/v1/jobs/" + job + ":restart", body));
  }

  RestWorld world;
  Schemas schemas{world.get("/api/v1/openapi.json").json()};
};

TEST_F(CheckpointApi, OneIsTakenListedAndGoneBackTo) {
  const std::string job = running_job();
  EXPECT_EQ(get("listCheckpoints", "jobs/" + job + "/checkpoints")["items"].size(), 0U);
  const Json taken = checkpoint(job);
  EXPECT_EQ(taken["kind"], "checkpoint.take");
  EXPECT_EQ(taken["target"], job);
  checkpoint(job);
  const Json all = get("listCheckpoints", "jobs/" + job + "/checkpoints")["items"];
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["id"], "ck-2");
  EXPECT_EQ(all[1]["id"], "ck-1");
  EXPECT_EQ(all[1]["operation"], taken["id"]);
  EXPECT_EQ(all[1]["state"], "complete");
  EXPECT_EQ(all[1]["parts"].size(), 2U);
  EXPECT_EQ(all[1]["safe_point"], "not-asked");
  EXPECT_GT(all[1]["pause_ms"].get<double>(), 0);
  EXPECT_TRUE(all[1]["base"].is_null());
  EXPECT_EQ(all[0]["in_memory"], 0);
  EXPECT_TRUE(all[0]["parts"][0]["partner"].is_null());
  EXPECT_EQ(all[0]["base"], "ck-1");
  EXPECT_LT(all[0]["written_bytes"].get<double>(), all[1]["written_bytes"].get<double>());
  const std::string metrics = world.get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("mare_checkpoints{state=\"complete\"} 2\n"));
  EXPECT_THAT(metrics, HasSubstr("mare_checkpoints_file_bytes "));
  EXPECT_THAT(metrics, HasSubstr("mare_checkpoint_parts_in_memory 0\n")) << "it was not asked for";
  const Json first = get("listCheckpoints", "jobs/" + job + "/checkpoints?limit=1");
  EXPECT_EQ(first["items"].size(), 1U);
  EXPECT_EQ(first["next_page_token"], "ck-2");

  const Json back =
      world.finish(restart(job, R"({"checkpoint":"ck-1","hosts":["h1","h2"],"eager":true})"));
  EXPECT_EQ(back["kind"], "checkpoint.restore");
  EXPECT_THAT(back["reason"].get<std::string>(), HasSubstr("ck-1"));
  EXPECT_EQ(get("getJob", "jobs/" + job)["restarts"], 1);
  EXPECT_EQ(get("getJob", "jobs/" + job)["state"], "running");
  EXPECT_EQ(get("listOperations", "operations?kind=checkpoint.restore")["items"].size(), 1U);
}

TEST_F(CheckpointApi, AJobTellsItsPlan) {
  const std::string job =
      running_job(R"(,"checkpoint_every_s":1.5,"checkpoints_kept":3,"checkpoint_mode":"full",)"
                  R"("checkpoint_chain":4,"checkpoints_max_age_s":3600,)"
                  R"("checkpoint_partner":true)");
  const Json shown = get("getJob", "jobs/" + job);
  EXPECT_EQ(shown["checkpoint_rule"], "every");
  EXPECT_EQ(shown["checkpoint_every_s"], 1.5);
  EXPECT_EQ(shown["checkpoints_kept"], 3);
  EXPECT_EQ(shown["checkpoint_mode"], "full");
  EXPECT_EQ(shown["checkpoint_chain"], 4);
  EXPECT_EQ(shown["checkpoints_max_age_s"], 3600);
  EXPECT_EQ(shown["checkpoint_partner"], true);
  EXPECT_EQ(shown["restarts"], 0);
  EXPECT_EQ(shown["safe_points"], false);
  EXPECT_TRUE(shown["safe_point_wait_s"].is_null());
  Json all;
  for (int i = 0; i < 1200 && all.size() < 1; ++i) {
    world.clock.sleep_for(Milliseconds{25});
    all = get("listCheckpoints", "jobs/" + job + "/checkpoints")["items"];
  }
  EXPECT_GE(all.size(), 1U) << "none came by itself";
}

TEST_F(CheckpointApi, SafePointsAreToldOfJobsAndCheckpoints) {
  // It works for 50 s between its collectives, the first of which is its beginning.
  const std::string job = running_job(R"(,"safe_points":true,"safe_point_wait_s":0.2)",
                                      R"(,"--sim-collective-every=50")");
  const Json shown = get("getJob", "jobs/" + job);
  EXPECT_EQ(shown["safe_points"], true);
  EXPECT_EQ(shown["safe_point_wait_s"], 0.2);
  world.clock.sleep_for(Milliseconds{300});
  checkpoint(job);
  EXPECT_EQ(get("listCheckpoints", "jobs/" + job + "/checkpoints")["items"][0]["safe_point"],
            "missed");
}

TEST_F(CheckpointApi, WhatCanNotBeIsRefusedWithTheReason) {
  EXPECT_EQ(described("checkpointJob", world.post("/api/v1/jobs/job-9:checkpoint", "{}")).status,
            404);
  EXPECT_EQ(described("listCheckpoints", world.get("/api/v1/jobs/job-9/checkpoints")).status, 404);
  EXPECT_EQ(restart("job-9").status, 404);
  const std::string job = running_job();
  EXPECT_EQ(restart(job).status, 409) << "it has no checkpoint";
  checkpoint(job);
  const Got unknown = restart(job, R"({"checkpoint":"ck-9"})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("/checkpoint"));
  const Got nowhere = restart(job, R"({"hosts":["h7"]})");
  EXPECT_EQ(nowhere.status, 404);
  EXPECT_THAT(nowhere.body, HasSubstr("h7"));
  EXPECT_EQ(restart(job, R"({"from":"ck-1"})").status, 400);
  EXPECT_EQ(restart(job, R"({"eager":1})").status, 400);
  EXPECT_EQ(
      described("listCheckpoints", world.get("/api/v1/jobs/" + job + "/checkpoints?state=complete"))
          .status,
      400);
}

TEST_F(CheckpointApi, AWrongPlanIsRefusedMemberByMember) {
  const auto refused = [&](const std::string& more) {
    const Got got =
        described("submitJob",
                  world.post("/api/v1/jobs", R"({"pool":"p","command":["solver"])" + more + "}"));
    EXPECT_EQ(got.status, 400) << more;
    return got.body;
  };
  EXPECT_THAT(refused(R"(,"checkpoint_every_s":0.1)"), HasSubstr("/checkpoint_every_s"));
  EXPECT_THAT(refused(R"(,"checkpoint_rule":"often")"), HasSubstr("optimal"));
  EXPECT_THAT(refused(R"(,"checkpoint_rule":"every")"), HasSubstr("/checkpoint_every_s"));
  EXPECT_THAT(refused(R"(,"checkpoint_rule":"optimal","checkpoint_every_s":60)"),
              HasSubstr("/checkpoint_every_s"));
  EXPECT_THAT(refused(R"(,"checkpoints_kept":0)"), HasSubstr("/checkpoints_kept"));
  EXPECT_THAT(refused(R"(,"safe_points":true,"safe_point_wait_s":90)"),
              HasSubstr("/safe_point_wait_s"));
  EXPECT_THAT(refused(R"(,"safe_point_wait_s":2)"), HasSubstr("safe_points"));
  EXPECT_THAT(refused(R"(,"checkpoint_partner":1)"), HasSubstr("/checkpoint_partner"));
}

TEST(CheckpointMetrics, PartsInMemoryAreThoseOfCompleteCheckpoints) {
  std::string directory = testing::TempDir() + "mare-metrics-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  {
    auto store = store::Store::open(directory + "/mare.db");
    ASSERT_TRUE(store) << store.error().text();
    Checkpoint one;
    one.id = CheckpointId{"ck-1"};
    one.job = JobId{"job-1"};
    one.state = CheckpointState::Complete;
    one.parts.resize(3);
    one.parts[0].partner = one.parts[2].partner = HostId{"h2"};
    Checkpoint going = one;
    going.id = CheckpointId{"ck-2"};
    going.state = CheckpointState::Dropping;
    for (const auto& row : {one, going}) {
      ASSERT_TRUE((*store)->write([&](store::Transaction& tx) { return tx.put(row); }));
    }
    const auto metrics = rest::store_metrics(**store);
    ASSERT_TRUE(metrics) << metrics.error().text();
    EXPECT_THAT(*metrics, HasSubstr("mare_checkpoint_parts_in_memory 2\n"));
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace mare::test
