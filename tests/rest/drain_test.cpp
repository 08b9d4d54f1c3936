// A drain over REST: its whole plan, its policy, and what came of it; every reply checked against
// the description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using wire::Json;

class Drains : public testing::Test {
 protected:
  void SetUp() override {
    world.add_hosts(3);
    const Got made = world.post("/api/v1/pools", R"({"id":"p","size":3,"hosts":["h1"]})");
    world.finish(made);
  }
  Got described(const std::string& operation_id, const Got& got) {
    EXPECT_THAT(schemas.check_reply(operation_id, got.status, got.header("content-type"), got.body),
                IsEmpty());
    return got;
  }
  Json drain(const std::string& query, const std::string& body,
             const std::string& outcome = "succeeded") {
    return world.finish(described("drainHost", world.post("/api/v1/hosts/h1:drain" + query, body)),
                        outcome);
  }
  Json explained(const Json& operation) {
    const std::string id = operation["id"];
    const Got got =
        described("explainDrain", world.get("/api/v1/operations/" + id + "/explanation"));
    EXPECT_EQ(got.status, 200) << got.body;
    return got.json();
  }
  Json checked_plan(const Json& plan) {
    EXPECT_THAT(schemas.check(plan, Json{{"$ref", "#/components/schemas/DrainPlan"}}), IsEmpty());
    return plan;
  }
  static double actual(const Json& figures, std::size_t which) {
    EXPECT_TRUE(figures[which]["actual"].is_number()) << figures.dump();
    return figures[which].value("actual", -1.0);
  }

  RestWorld world;
  Schemas schemas{world.get("/api/v1/openapi.json").json()};
};

TEST_F(Drains, ADryRunEndsWithTheWholePlan) {
  const Json dry = drain("?dry_run=true", "");
  const Json plan = checked_plan(dry["request"]["plan"]);
  ASSERT_EQ(plan["moves"].size(), 3U);
  EXPECT_TRUE(plan["stay"].empty());
  EXPECT_THAT(dry["reason"].get<std::string>(),
              StartsWith("3 VMs would move in " + std::to_string(plan["waves"].size()) + " wave"));
  double bytes = 0;
  double high = 0;
  for (const Json& move : plan["moves"]) {
    bytes += move["sent_bytes"]["value"].get<double>();
    high += move["sent_bytes"]["high"].get<double>();
    const std::string id = move["forecast"];
    const Json forecast = described("getForecast", world.get("/api/v1/forecasts/" + id)).json();
    EXPECT_EQ(forecast["vm"], move["vm"]);
    EXPECT_EQ(forecast["choice"], move["strategy"]);
    const auto& vms = plan["waves"][move["wave"].get<std::size_t>() - 1]["vms"];
    EXPECT_THAT(vms.get<std::vector<std::string>>(),
                testing::Contains(move["vm"].get<std::string>()));
  }
  EXPECT_NEAR(plan["total"]["sent_bytes"]["value"].get<double>(), bytes, 1);
  EXPECT_NEAR(plan["total"]["sent_bytes"]["high"].get<double>(), high, 1);
}

TEST_F(Drains, WhatStaysIsInThePlanWithItsReason) {
  const Json dry = drain("?dry_run=true", R"({"downtime_limit_ms":1})");
  EXPECT_EQ(dry["request"]["downtime_limit_ms"], 1);
  const Json plan = checked_plan(dry["request"]["plan"]);
  EXPECT_TRUE(plan["moves"].empty());
  ASSERT_EQ(plan["stay"].size(), 3U);
  EXPECT_THAT(plan["stay"][0]["reason"].get<std::string>(), StartsWith("Do not move"));

  const Json told = explained(drain("", R"({"downtime_limit_ms":1})", "failed"));
  EXPECT_THAT(told["sentence"].get<std::string>(), StartsWith("It did not empty its host: VM 'p-"));
  EXPECT_TRUE(told["migrations"].empty());
  checked_plan(told["plan"]);
}

TEST_F(Drains, ItsPlanIsHeldAgainstWhatCame) {
  const Json drained = drain("", R"({"strategy":"stop-and-copy"})");
  EXPECT_EQ(drained["request"], Json::parse(R"({"strategy":"stop-and-copy"})"));
  Json told = explained(drained);
  EXPECT_EQ(told["host"], "h1");
  EXPECT_EQ(told["outcome"], "succeeded");
  const Json plan = checked_plan(told["plan"]);
  ASSERT_EQ(told["migrations"].size(), 3U);
  ASSERT_EQ(told["figures"].size(), 4U);
  double bytes = 0;
  double downtime = 0;
  std::map<int, double> waves;
  for (const Json& one : told["migrations"]) {
    EXPECT_EQ(one["strategy"], "stop-and-copy");
    EXPECT_EQ(one["outcome"], "succeeded");
    const Json row = described("getMigration", world.get("/api/v1/migrations/" +
                                                         one["migration"].get<std::string>()))
                         .json();
    EXPECT_EQ(row["vm"], one["vm"]);
    EXPECT_EQ(row["destination"], one["destination"]);
    EXPECT_DOUBLE_EQ(actual(one["figures"], 0) * 1000, row["total_time_ms"].get<double>());
    double& longest = waves[one["wave"]];
    longest = std::max(longest, actual(one["figures"], 0));
    bytes += actual(one["figures"], 1);
    downtime += actual(one["figures"], 2);
  }
  double total = 0;
  for (const auto& [wave, longest] : waves) total += longest;
  EXPECT_EQ(waves.size(), plan["waves"].size());
  EXPECT_NEAR(actual(told["figures"], 0), total, 1e-6);
  EXPECT_NEAR(actual(told["figures"], 1), bytes, 1);
  EXPECT_NEAR(actual(told["figures"], 2), downtime, 1e-6);
  EXPECT_EQ(told["figures"][1]["forecast"], plan["total"]["sent_bytes"]["value"]);
  EXPECT_EQ(told["figures"][0]["moves"], 3);
  EXPECT_TRUE(told["figures"][3]["actual"].is_null()) << "nobody reported it";
  EXPECT_EQ(told["figures"][3]["moves"], 0);
  EXPECT_GE(told["elapsed_s"].get<double>(), 0);
  EXPECT_THAT(told["sentence"].get<std::string>(), StartsWith("3 VMs moved in "));
  EXPECT_THAT(told["sentence"].get<std::string>(), HasSubstr(" of 3 figures lay in"));

  // One of three is reported: that figure is of this one alone, on both sides. Those that share
  // h1's link can't be.
  ASSERT_EQ(waves.size(), 2U);
  const Json last = told["migrations"][2];
  ASSERT_EQ(last["wave"], 2);
  const std::string id = last["migration"];
  const Got kept =
      world.post("/api/v1/migrations/" + id + ":report", R"({"added_job_time_s":0.75})");
  ASSERT_EQ(kept.status, 200) << kept.body;
  told = explained(drained);
  EXPECT_EQ(told["figures"][3]["actual"], 0.75);
  EXPECT_EQ(told["figures"][3]["moves"], 1);
  EXPECT_EQ(told["figures"][3]["forecast"], last["figures"][3]["forecast"]);
  EXPECT_THAT(told["sentence"].get<std::string>(), HasSubstr("(1 of 3 moves tell)"));
}

TEST_F(Drains, OneThatGoesOnOrWasCancelledIsExplainedAsFarAsItCame) {
  const auto stream = world.follow("/api/v1/events", {"Accept: text/event-stream"});
  ASSERT_TRUE(stream->wait_for_text(": hello"));
  // 1 MiB/s: it can be cancelled before its first move ends.
  const Got slow = world.post("/api/v1/hosts/h1:drain",
                              R"({"strategy":"pre-copy","bandwidth_limit_bytes_per_s":1048576})");
  ASSERT_EQ(slow.status, 202) << slow.body;
  ASSERT_TRUE(stream->wait_for_text("PreCopying"));
  Json told = explained(slow.json());
  EXPECT_EQ(told["outcome"], "pending");
  EXPECT_TRUE(told["elapsed_s"].is_null());
  EXPECT_EQ(told["sentence"], "It goes on: 0 VMs moved so far.");
  EXPECT_EQ(told["figures"][0]["forecast"],
            checked_plan(told["plan"])["total"]["total_time_s"]["value"]);
  EXPECT_TRUE(told["figures"][0]["actual"].is_null());

  const std::string id = slow.json()["id"];
  world.post("/api/v1/operations/" + id + ":cancel", "");
  world.finish(slow, "cancelled");
  told = explained(slow.json());
  EXPECT_THAT(told["sentence"].get<std::string>(),
              StartsWith("It did not empty its host: cancelled"));
  ASSERT_GE(told["migrations"].size(), 3U);
  EXPECT_TRUE(told["migrations"].back()["migration"].is_null()) << "its wave never came";
  EXPECT_EQ(told["migrations"][0]["outcome"], "cancelled");
}

TEST_F(Drains, OnlyADrainIsExplainedHere) {
  const Json dry = drain("?dry_run=true", "");
  const auto asked = [&](const std::string& path) {
    return described("explainDrain", world.get("/api/v1/operations/" + path));
  };
  const Got other = asked(dry["id"].get<std::string>() + "/explanation");
  EXPECT_EQ(other.status, 404);
  EXPECT_THAT(other.json()["detail"].get<std::string>(), HasSubstr("plan.drain, not a host.drain"));
  EXPECT_EQ(asked("op-99/explanation").status, 404);
  EXPECT_EQ(asked(dry["id"].get<std::string>() + "/explanation?vm=x").status, 400);
}

TEST_F(Drains, APolicyThatCantBeGrantedIsRefused) {
  const auto refused = [&](const std::string& query, const std::string& body) {
    const Got got = described("drainHost", world.post("/api/v1/hosts/h1:drain" + query, body));
    EXPECT_EQ(got.status, 400) << got.body;
    return got.body;
  };
  for (const char* query : {"", "?dry_run=true"}) {
    EXPECT_THAT(refused(query, R"({"strategy":"teleport"})"), HasSubstr("/strategy"));
    EXPECT_THAT(refused(query, R"({"destination":"h2"})"), HasSubstr("/destination"));
    EXPECT_THAT(refused(query, R"({"bandwidth_limit_bytes_per_s":10})"),
                HasSubstr("bandwidth_limit_bytes_per_s"));
  }
  EXPECT_EQ(world.get("/api/v1/hosts/h1").json()["admin"], "active");
}

}  // namespace
}  // namespace mare::test
