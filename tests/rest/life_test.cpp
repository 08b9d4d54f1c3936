// A cluster's life over REST, every reply checked against the description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using wire::Json;

class Life : public testing::Test {
 protected:
  /// The reply, after it was found to be as described.
  Got described(const std::string& operation_id, const Got& got) {
    EXPECT_THAT(schemas.check_reply(operation_id, got.status, got.header("content-type"), got.body),
                IsEmpty());
    return got;
  }
  Json get(const std::string& operation_id, const std::string& path) {
    return described(operation_id, world.get(path)).json();
  }
  Json run(const std::string& operation_id, const Got& accepted,
           const std::string& outcome = "succeeded") {
    return world.finish(described(operation_id, accepted), outcome);
  }
  static std::string migrate_to(const std::string& host) {
    return host == "h1" ? R"({"destination":"h2"})" : R"({"destination":"h1"})";
  }

  RestWorld world;
  Schemas schemas{world.get("/api/v1/openapi.json").json()};
};

TEST_F(Life, FromHostsToAMigratedJobAndBackToNothing) {
  run("addHost",
      world.post("/api/v1/hosts", R"({"id":"h1","address":"sim:///h1?memory_mib=2048"})"));
  run("addHost",
      world.post("/api/v1/hosts", R"({"id":"h2","address":"sim:///h2?memory_mib=2048"})"));
  EXPECT_EQ(get("listHosts", "/api/v1/hosts")["items"].size(), 2U);

  run("createPool", world.post("/api/v1/pools", R"({"id":"demo","size":2,"memory_mib":256})"));
  const Json pool = get("getPool", "/api/v1/pools/demo");
  EXPECT_EQ(pool["size"], 2);
  EXPECT_FALSE(pool.contains("token"));
  const Json vms = get("listVms", "/api/v1/vms?pool=demo");
  ASSERT_EQ(vms["items"].size(), 2U);
  EXPECT_EQ(vms["items"][0]["state"], "running");
  const std::string host = vms["items"][0]["host"];
  EXPECT_EQ(get("getHost", "/api/v1/hosts/" + host)["memory_allocated_mib"].get<double>(),
            256 * get("getHost", "/api/v1/hosts/" + host)["vms"].get<double>() +
                64 * get("getHost", "/api/v1/hosts/" + host)["vms"].get<double>());

  const Got submitted =
      described("submitJob",
                world.post("/api/v1/jobs",
                           R"({"pool":"demo","command":["/opt/ring","--sim-work=2"],"ranks":2})"));
  ASSERT_EQ(submitted.status, 202) << submitted.body;
  const std::string job = "/api/v1/jobs/" + submitted.json()["target"].get<std::string>();

  const Json moved =
      run("migrateVm", world.post("/api/v1/vms/demo-0/migrations", migrate_to(host)));
  const Json migration =
      get("getMigration", "/api/v1/migrations/" + moved["id"].get<std::string>());
  EXPECT_EQ(migration["outcome"], "succeeded");
  EXPECT_EQ(migration["source"], host);
  EXPECT_GE(migration["rounds"].size(), 1U);
  EXPECT_GT(migration["total_time_ms"].get<double>(), 0);
  EXPECT_NE(get("getVm", "/api/v1/vms/demo-0")["host"], host);
  EXPECT_EQ(get("listMigrations", "/api/v1/migrations?vm=demo-0")["items"].size(), 1U);
  EXPECT_EQ(get("listMigrations", "/api/v1/migrations?vm=demo-1")["items"].size(), 0U);

  world.finish(submitted);
  const Json ended = get("getJob", job);
  EXPECT_EQ(ended["state"], "succeeded");
  EXPECT_EQ(ended["exit_code"], 0);
  const Got output = described("getJobOutput", world.get(job + "/output"));
  EXPECT_EQ(output.header("mare-complete"), "true");
  EXPECT_EQ(output.body, sim::complete_output(JobId{ended["id"].get<std::string>()}, 2));
  EXPECT_EQ(output.header("mare-next-offset"), std::to_string(output.body.size()));
  const Got tail = world.get(job + "/output?offset=" + std::to_string(output.body.size() - 5));
  EXPECT_EQ(tail.body, output.body.substr(output.body.size() - 5));
  EXPECT_EQ(described("getJobOutput", world.get(job + "/output?offset=100000000")).body, "");

  const Got late = described("cancelJob", world.post(job + ":cancel", "{}"));
  EXPECT_EQ(late.status, 409);
  EXPECT_THAT(late.body, HasSubstr("has ended"));

  const std::string other = get("getVm", "/api/v1/vms/demo-0")["host"];
  run("drainHost", world.post("/api/v1/hosts/" + other + ":drain", ""));
  EXPECT_EQ(get("getHost", "/api/v1/hosts/" + other)["admin"], "drained");
  EXPECT_EQ(get("getHost", "/api/v1/hosts/" + other)["vms"], 0);
  const Got active =
      described("activateHost", world.post("/api/v1/hosts/" + other + ":activate", ""));
  EXPECT_EQ(active.json()["admin"], "active");

  run("stopVm", world.post("/api/v1/vms/demo-1:stop", R"({"force":true})"));
  EXPECT_EQ(get("getVm", "/api/v1/vms/demo-1")["state"], "stopped");
  run("startVm", world.post("/api/v1/vms/demo-1:start", R"({"host":")" + other + "\"}"));
  EXPECT_EQ(get("getVm", "/api/v1/vms/demo-1")["host"], other);

  run("deletePool", world.call("DELETE", "/api/v1/pools/demo"));
  EXPECT_EQ(get("listVms", "/api/v1/vms")["items"].size(), 0U);
  run("removeHost", world.call("DELETE", "/api/v1/hosts/h1"));
  EXPECT_EQ(described("getHost", world.get("/api/v1/hosts/h1")).status, 404);

  // What happened can be read afterwards.
  const Json history =
      get("getOperationEvents", "/api/v1/operations/" + moved["id"].get<std::string>() + "/events");
  EXPECT_EQ(history["items"].front()["event"], "Submit");
  EXPECT_EQ(history["items"].back()["to"], "Done");
  EXPECT_GE(get("listEvents", "/api/v1/events?topics=vm&limit=1000")["items"].size(), 4U);
  EXPECT_EQ(get("listOperations",
                "/api/v1/operations?kind=vm.migrate&outcome=succeeded&target="
                "demo-0&parent=")["status"],
            400);
  EXPECT_GE(get("listOperations",
                "/api/v1/operations?kind=vm.migrate&outcome=succeeded&target=demo-0")["items"]
                .size(),
            1U);
  described("getMetrics", world.get("/metrics"));
}

TEST_F(Life, APoolGrowsAndShrinks) {
  world.add_hosts(2);  // eight VMs of 192 + 64 MiB on each
  world.add_pool("p", 2);
  const auto patch = [&](const std::string& body) {
    return described("patchPool", world.patch("/api/v1/pools/p", body));
  };
  const Json grown = run("patchPool", patch(R"({"size":4})"));
  EXPECT_EQ(grown["kind"], "pool.scale");
  EXPECT_EQ(grown["reason"], "the pool has 4 VMs");
  EXPECT_EQ(grown["request"]["before"], 2);
  EXPECT_EQ(get("getPool", "/api/v1/pools/p")["size"], 4);
  EXPECT_EQ(get("listVms", "/api/v1/vms?pool=p")["items"].size(), 4U);
  EXPECT_THAT(run("patchPool", patch(R"({"size":4})"))["reason"].get<std::string>(),
              HasSubstr("already"));

  const Got job =
      world.post("/api/v1/jobs", R"({"pool":"p","command":["/x","--sim-work=600"],"ranks":3})");
  const std::string id = job.json()["target"];
  const auto running = [&] { return get("getJob", "/api/v1/jobs/" + id)["state"] == "running"; };
  for (int i = 0; i < 100 && !running(); ++i) world.get(job.header("location") + "?wait=100ms");
  ASSERT_TRUE(running());
  const Got refused = patch(R"({"size":2})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.json()["code"], "failed_precondition");
  EXPECT_THAT(refused.body, HasSubstr(id));
  EXPECT_THAT(refused.json()["remedy"].get<std::string>(), HasSubstr("shrink to 3"));
  const Json some = run("patchPool", patch(R"({"size":2,"best_effort":true})"), "failed");
  EXPECT_EQ(some["state"], "Partial");
  EXPECT_THAT(some["reason"].get<std::string>(), HasSubstr("the pool has 3 VMs, 2 were asked for"));
  EXPECT_EQ(get("getPool", "/api/v1/pools/p")["size"], 3);
  EXPECT_THAT(world.get("/metrics").body, HasSubstr("mare_pool_size{pool=\"p\"} 3\n"));
  EXPECT_THAT(world.get("/metrics").body, HasSubstr("mare_pool_vms_running{pool=\"p\"} 3\n"));

  const Got full = patch(R"({"size":500})");
  EXPECT_EQ(full.status, 409);
  EXPECT_EQ(full.json()["code"], "resource_exhausted");
  for (const char* wrong : {"{}", R"({"size":0})", R"({"size":2,"move_policy":{}})",
                            R"({"best_effort":true})", R"({"size":2000})"}) {
    EXPECT_EQ(patch(wrong).status, 400) << wrong;
  }
  EXPECT_EQ(described("patchPool", world.patch("/api/v1/pools/q", R"({"size":2})")).status, 404);
  world.post("/api/v1/jobs/" + id + ":cancel", "");
  world.finish(job, "cancelled");
}

TEST_F(Life, AProjectHasNoMoreThanItsQuota) {
  world.add_hosts(2);
  const std::string quota = "/api/v1/projects/physics/quota";
  const auto put = [&](const std::string& body) {
    return described("putQuota", world.put(quota, body));
  };
  EXPECT_EQ(described("getProject", world.get("/api/v1/projects/physics")).status, 404);
  EXPECT_EQ(get("listProjects", "/api/v1/projects")["items"].size(), 1U) << "default";
  const Got set = put(R"({"vms":3,"memory_mib":600})");
  ASSERT_EQ(set.status, 200) << set.body;
  EXPECT_EQ(set.json()["vms"], 0);
  EXPECT_EQ(set.json()["quota"]["vms"], 3);
  EXPECT_TRUE(set.json()["quota"]["hosts"].is_null());
  const auto create = [&](const std::string& body) {
    return described("createPool", world.post("/api/v1/pools", body));
  };
  const Got refused = create(R"({"id":"p","size":4,"project":"physics"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.json()["code"], "resource_exhausted");
  EXPECT_THAT(refused.body, HasSubstr("project 'physics' has 0 of the 3 VMs it may have"));
  run("createPool", create(R"({"id":"p","size":2,"project":"physics"})"));
  const Json some = run(
      "patchPool",
      described("patchPool", world.patch("/api/v1/pools/p", R"({"size":9,"best_effort":true})")),
      "failed");
  EXPECT_THAT(some["reason"].get<std::string>(), HasSubstr("the pool has 3 VMs, 9 were asked for"));
  const Json now = get("getProject", "/api/v1/projects/physics");
  EXPECT_EQ(now["vms"], 3);
  EXPECT_EQ(now["memory_mib"], 576);
  EXPECT_EQ(now["pools"], Json::array({"p"}));
  EXPECT_THAT(world.get("/metrics").body, HasSubstr("mare_project_vms{project=\"physics\"} 3\n"));
  EXPECT_EQ(put(R"({"vms":-1})").status, 400);
  EXPECT_EQ(put(R"({"cpus":1})").status, 400);
  EXPECT_EQ(create(R"({"id":"q","project":"No Name"})").status, 400);
  EXPECT_EQ(described("deleteQuota", world.call("DELETE", quota)).status, 200);
  EXPECT_EQ(described("deleteQuota", world.call("DELETE", quota)).status, 404);
}

TEST_F(Life, APoolFollowsAFigure) {
  world.add_hosts(2);
  world.add_pool("p", 1);
  const std::string path = "/api/v1/pools/p/autoscale";
  const auto put = [&](const std::string& body) {
    return described("putAutoscale", world.put(path, body));
  };
  EXPECT_EQ(described("getAutoscale", world.get(path)).status, 404);
  EXPECT_EQ(
      described("postPoolMetric", world.post("/api/v1/pools/p/metrics", R"({"value":1})")).status,
      404)
      << "nobody would look at it";
  const Got set = put(R"({"target":15,"total":true,"max":4})");
  ASSERT_EQ(set.status, 200) << set.body;
  EXPECT_EQ(set.json()["min"], 1);
  const Got posted =
      described("postPoolMetric", world.post("/api/v1/pools/p/metrics", R"({"value":40})"));
  EXPECT_EQ(posted.json()["posted"], 40.0);
  const auto rule = [&] { return get("getAutoscale", path); };
  for (int i = 0; i < 200 && rule()["operation"].is_null(); ++i) {
    world.clock.sleep_for(std::chrono::milliseconds{50});
  }
  const Json now = rule();
  ASSERT_TRUE(now["operation"].is_string()) << now.dump();
  EXPECT_EQ(now["desired"], 3);
  const std::string operation = "/api/v1/operations/" + now["operation"].get<std::string>();
  const Json ended = get("getOperation", operation + "?wait=60s");
  EXPECT_EQ(ended["outcome"], "succeeded");
  EXPECT_THAT(ended["request"]["cause"].get<std::string>(), HasSubstr("grows from 1 to 3"));
  EXPECT_EQ(get("getPool", "/api/v1/pools/p")["size"], 3);
  EXPECT_THAT(world.get("/metrics").body, HasSubstr("mare_pool_desired{pool=\"p\"} 3\n"));
  EXPECT_EQ(put(R"({"target":0,"max":4})").status, 400);
  EXPECT_EQ(put("{}").status, 400);
  EXPECT_EQ(
      described("putAutoscale", world.put("/api/v1/pools/q/autoscale", R"({"target":1,"max":4})"))
          .status,
      404);
  EXPECT_EQ(described("deleteAutoscale", world.call("DELETE", path)).json()["id"], "p");
  EXPECT_EQ(described("deleteAutoscale", world.call("DELETE", path)).status, 404);
  EXPECT_EQ(described("getAutoscale", world.get(path)).status, 404);
}

TEST_F(Life, AFailedJobTellsItsExitCode) {
  world.add_hosts(1);
  world.add_pool("p", 1);
  const Got submitted = world.post(
      "/api/v1/jobs", R"({"pool":"p","command":["/x","--sim-work=0.2","--sim-exit=3"]})");
  const Json operation = run("submitJob", submitted, "failed");
  const Json job = get("getJob", "/api/v1/jobs/" + operation["target"].get<std::string>());
  EXPECT_EQ(job["state"], "failed");
  EXPECT_EQ(job["exit_code"], 3);
  EXPECT_EQ(get("listJobs", "/api/v1/jobs?state=failed&pool=p")["items"].size(), 1U);
  EXPECT_EQ(get("listJobs", "/api/v1/jobs?state=running")["items"].size(), 0U);
}

TEST_F(Life, AJobIsCancelled) {
  world.add_hosts(1);
  world.add_pool("p", 1);
  const Got submitted =
      world.post("/api/v1/jobs", R"({"pool":"p","command":["/x","--sim-work=600"]})");
  const std::string id = submitted.json()["target"];
  described("cancelJob", world.post("/api/v1/jobs/" + id + ":cancel", ""));
  world.finish(submitted, "cancelled");
  EXPECT_EQ(get("getJob", "/api/v1/jobs/" + id)["state"], "cancelled");
}

TEST_F(Life, AMigrationIsCancelledAndASecondOneIsAConflict) {
  world.add_hosts(2);
  world.add_pool("p", 1);
  const std::string host = get("getVm", "/api/v1/vms/p-0")["host"];
  // At 2 MiB/s it takes long enough to be caught.
  const Got first = world.post("/api/v1/vms/p-0/migrations",
                               R"({"strategy":"pre-copy","bandwidth_limit_bytes_per_s":2097152})");
  ASSERT_EQ(first.status, 202);
  const std::string id = first.json()["id"];
  const Got second = described("migrateVm", world.post("/api/v1/vms/p-0/migrations", "{}"));
  EXPECT_EQ(second.status, 409);
  EXPECT_EQ(second.json()["code"], "conflict");
  EXPECT_THAT(second.body, HasSubstr(id));
  const Got cancel =
      described("cancelMigration", world.post("/api/v1/migrations/" + id + ":cancel", ""));
  EXPECT_EQ(cancel.status, 202) << cancel.body;
  world.finish(first, "cancelled");
  EXPECT_EQ(get("getMigration", "/api/v1/migrations/" + id)["outcome"], "cancelled");
  EXPECT_EQ(get("getVm", "/api/v1/vms/p-0")["host"], host);
}

TEST_F(Life, ImagesAreShown) {
  EXPECT_EQ(get("listImages", "/api/v1/images")["items"].size(), 2U);
  EXPECT_EQ(get("getImage", "/api/v1/images/base")["min_memory_mib"], 128);
  EXPECT_EQ(described("getImage", world.get("/api/v1/images/base?version=7")).status, 404);
  described("getHealth", world.get("/healthz"));
  described("getReadiness", world.get("/readyz"));
}

TEST_F(Life, ListsComeInPages) {
  world.add_hosts(3);
  std::vector<std::string> seen;
  std::string token;
  for (int page = 0; page < 10; ++page) {
    const std::string after = token.empty() ? "" : "&page_token=" + token;
    const Json list = get("listHosts", "/api/v1/hosts?limit=1" + after);
    ASSERT_EQ(list["items"].size(), 1U);
    seen.push_back(list["items"][0]["id"]);
    if (list["next_page_token"].is_null()) break;
    token = list["next_page_token"];
  }
  EXPECT_THAT(seen, testing::ElementsAre("h1", "h2", "h3"));
  // Newest first, from where the last page ended.
  const Json newest = get("listOperations", "/api/v1/operations?limit=2");
  EXPECT_EQ(newest["items"][0]["id"], "op-3");
  const Json older = get("listOperations", "/api/v1/operations?limit=2&page_token=" +
                                               newest["next_page_token"].get<std::string>());
  EXPECT_EQ(older["items"][0]["id"], "op-1");
  EXPECT_TRUE(older["next_page_token"].is_null());
}

TEST_F(Life, ManyRowsAreFoundBehindOthers) {
  // More rows than one query fetches, the wanted ones last.
  ASSERT_TRUE(world.store->write([](store::Transaction& tx) -> Status {
    for (int i = 1; i <= 700; ++i) {
      Operation row;
      row.id = OperationId{"old-" + std::to_string(i)};
      row.kind = OperationKind::VmStop;
      row.target = i <= 2 ? "rare" : "common";
      row.state = "Done";
      row.outcome = Outcome::Succeeded;
      row.created = WallTime{i};
      row.request = "{}";
      if (auto done = tx.insert(row); !done) return done;
    }
    return ok_status();
  }));
  const Json all = get("listOperations", "/api/v1/operations?outcome=succeeded&limit=1000");
  EXPECT_EQ(all["items"].size(), 700U);
  const Json page = get("listOperations", "/api/v1/operations?limit=5&page_token=old-4");
  ASSERT_EQ(page["items"].size(), 3U);
  EXPECT_EQ(page["items"][2]["id"], "old-1");
}

TEST_F(Life, WaitingHasAnEnd) {
  world.add_hosts(1);
  world.add_pool("p", 1);
  const Got submitted =
      world.post("/api/v1/jobs", R"({"pool":"p","command":["/x","--sim-work=600"]})");
  const Json now = get("getOperation", submitted.header("location") + "?wait=200ms");
  EXPECT_EQ(now["outcome"], "pending");
  world.post("/api/v1/operations/" + now["id"].get<std::string>() + ":cancel", "");
  world.finish(submitted, "cancelled");
}

}  // namespace
}  // namespace mare::test
