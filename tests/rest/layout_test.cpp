// A job that is spread and packed over REST; every reply checked against the description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using wire::Json;

class Layouts : public testing::Test {
 protected:
  /// Two ranks on a host of one cpu, and another host that has just come.
  void SetUp() override {
    add_host("h1");
    world.add_pool("demo", 2);
    const auto stream = world.follow("/api/v1/events", {"Accept: text/event-stream"});
    ASSERT_TRUE(stream->wait_for_text(": hello"));
    const Got submitted = described(
        "submitJob",
        world.post("/api/v1/jobs",
                   R"({"pool":"demo","command":["/opt/ring","--sim-work=300"],"ranks":2})"));
    ASSERT_EQ(submitted.status, 202) << submitted.body;
    job = submitted.json()["target"];
    ASSERT_TRUE(stream->wait_for_text("running"));
    add_host("h2");
  }
  void add_host(const std::string& name) {
    world.finish(world.post("/api/v1/hosts", R"({"id":")" + name + R"(","address":"sim:///)" +
                                                 name + R"(?memory_mib=2048&cpus=1"})"));
  }
  Got described(const std::string& operation_id, const Got& got) {
    EXPECT_THAT(schemas.check_reply(operation_id, got.status, got.header("content-type"), got.body),
                IsEmpty());
    return got;
  }
  Json ask(const std::string& verb, const std::string& body, const std::string& outcome) {
    const std::string id = verb.starts_with("spread") ? "spreadJob" : "packJob";
    return world.finish(described(id, world.post("/api/v1/jobs/" + job + ":" + verb, body)),
                        outcome);
  }
  int on(const std::string& host) {
    const Json vms = world.get("/api/v1/vms").json()["items"];
    return static_cast<int>(
        std::count_if(vms.begin(), vms.end(), [&](const Json& vm) { return vm["host"] == host; }));
  }

  RestWorld world;
  Schemas schemas{world.get("/api/v1/openapi.json").json()};
  std::string job;
};

TEST_F(Layouts, TheClusterIsRebalancedByHand) {
  const auto show = [&] {
    return described("getRebalancing", world.get("/api/v1/rebalancing")).json();
  };
  const auto put = [&](const std::string& body) {
    return described("putRebalancing", world.put("/api/v1/rebalancing", body));
  };
  const auto run = [&](const std::string& query) {
    return described("runRebalancing", world.post("/api/v1/rebalancing:run" + query, "{}"));
  };
  EXPECT_EQ(show()["mode"], "manual");
  const Json dry = world.finish(run("?dry_run=true"), "succeeded");
  EXPECT_EQ(dry["kind"], "plan.rebalance");
  EXPECT_EQ(dry["target"], "cluster");
  ASSERT_EQ(dry["request"]["plan"]["moves"].size(), 1U) << dry.dump();
  EXPECT_EQ(on("h1"), 2) << "nothing has moved";
  const Json proposal = show()["proposal"];
  EXPECT_THAT(schemas.check(proposal, Json{{"$ref", "#/components/schemas/RebalanceProposal"}}),
              IsEmpty());
  EXPECT_EQ(proposal["operation"], dry["id"]);
  EXPECT_GT(proposal["moves"][0]["bytes"].get<double>(), 0);
  const Json set = put(R"({"mode":"manual","rest_s":60,"pools":{"demo":"partial"}})").json();
  EXPECT_EQ(set["rest_s"], 60);
  EXPECT_THAT(world.finish(run(""), "succeeded")["reason"].get<std::string>(),
              HasSubstr("no beneficial move"))
      << "the pool is held back";
  EXPECT_EQ(put(R"({"mode":"manual"})").status, 200);
  const Json round = world.finish(run(""), "succeeded");
  EXPECT_EQ(round["kind"], "cluster.rebalance");
  EXPECT_EQ(round["reason"], "1 move made");
  EXPECT_EQ(on("h2"), 1);
  EXPECT_EQ(show()["moves"], 1);
  EXPECT_EQ(show()["operation"], round["id"]);
  EXPECT_THAT(world.get("/metrics").body, HasSubstr("mare_rebalance_moves_total 1\n"));
  const Json events = world.get("/api/v1/events?topics=cluster").json()["items"];
  ASSERT_GE(events.size(), 1U);
  EXPECT_EQ(events[0]["type"], "rebalance.proposed");
  EXPECT_EQ(put("{}").status, 400);
  EXPECT_EQ(put(R"({"mode":"manual","pools":{"nope":"manual"}})").status, 404);
  EXPECT_EQ(run("?dry_run=perhaps").status, 400);
}

TEST_F(Layouts, ADryRunThenSpreadThenPack) {
  const Json dry = ask("spread?dry_run=true", R"({"remaining_s":600})", "succeeded");
  EXPECT_EQ(dry["kind"], "plan.layout");
  EXPECT_EQ(dry["target"], job);
  const Json& plan = dry["request"]["plan"];
  EXPECT_EQ(plan["worth"], true);
  EXPECT_EQ(plan["remaining_s"], 600);
  EXPECT_EQ(plan["slowdown_before"], 2);
  EXPECT_EQ(plan["slowdown_after"], 1);
  ASSERT_EQ(plan["moves"].size(), 1U);
  EXPECT_EQ(plan["moves"][0]["from"], "h1");
  EXPECT_EQ(plan["moves"][0]["to"], "h2");
  EXPECT_GT(plan["moves"][0]["bytes"].get<double>(), 0);
  EXPECT_EQ(on("h1"), 2) << "nothing has moved";

  const Json spread = ask("spread", R"({"remaining_s":600})", "succeeded");
  EXPECT_EQ(spread["kind"], "layout.change");
  EXPECT_EQ(spread["reason"], "1 move made; the job's VMs are on 2 hosts");
  EXPECT_EQ(on("h2"), 1);

  const Json refused = ask("pack", R"({"hosts":1,"remaining_s":600})", "failed");
  EXPECT_EQ(refused["error_code"], "failed_precondition");
  EXPECT_THAT(refused["reason"].get<std::string>(), HasSubstr("which loses 600.0 s"));
  EXPECT_EQ(on("h2"), 1);
  ask("pack", R"({"hosts":1,"force":true})", "succeeded");
  EXPECT_EQ(std::max(on("h1"), on("h2")), 2);

  // What happened can be read afterwards.
  const Got changes =
      described("listOperations", world.get("/api/v1/operations?kind=layout.change&target=" + job));
  EXPECT_EQ(changes.json()["items"].size(), 3U);
}

TEST_F(Layouts, OfAJobThatHasEndedIsRefused) {
  world.finish(world.post("/api/v1/jobs/" + job + ":cancel", "{}"), "cancelled");
  const Got late = described("spreadJob", world.post("/api/v1/jobs/" + job + ":spread", "{}"));
  EXPECT_EQ(late.status, 409);
  EXPECT_THAT(late.body, HasSubstr("is cancelled"));
}

}  // namespace
}  // namespace mare::test
