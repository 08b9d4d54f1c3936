// Hosts that will fail, over REST: by hand, by an Alertmanager; every reply checked against the
// description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using wire::Json;

class Evacuations : public testing::Test {
 protected:
  void SetUp() override {
    world.add_hosts(3);
    world.add_pool("demo", 2);
    host = world.get("/api/v1/vms/demo-0").json()["host"];
  }
  Got described(const std::string& operation_id, const Got& got) {
    EXPECT_THAT(schemas.check_reply(operation_id, got.status, got.header("content-type"), got.body),
                IsEmpty());
    return got;
  }
  Got evacuate(const std::string& body, const std::string& query = "") {
    return described("evacuateHost",
                     world.post("/api/v1/hosts/" + host + ":evacuate" + query, body));
  }
  Got alert(const std::string& body, const std::string& query = "?within_s=60") {
    return described("postAlerts", world.post("/api/v1/alerts" + query, body));
  }
  std::string admin() { return world.get("/api/v1/hosts/" + host).json()["admin"]; }
  std::string where(const std::string& vm) { return world.get("/api/v1/vms/" + vm).json()["host"]; }

  RestWorld world;
  Schemas schemas{world.get("/api/v1/openapi.json").json()};
  std::string host;
};

TEST_F(Evacuations, ADryRunThenTheThing) {
  const Json dry = world.finish(evacuate(R"({"within_s":60})", "?dry_run=true"));
  EXPECT_EQ(dry["kind"], "plan.evacuate");
  ASSERT_FALSE(dry["request"]["plan"]["moves"].empty()) << dry.dump();
  EXPECT_EQ(where("demo-0"), host);
  EXPECT_EQ(admin(), "active");

  const Got begun = evacuate(R"({"within_s":60,"reason":"DIMM B2"})");
  ASSERT_EQ(begun.status, 202) << begun.body;
  const Got again = evacuate(R"({"within_s":60})");
  ASSERT_EQ(again.status, 202) << again.body;
  const Json done = world.finish(begun);
  EXPECT_EQ(done["kind"], "host.evacuate");
  EXPECT_EQ(done["request"]["reason"], "DIMM B2");
  ASSERT_FALSE(done["request"]["fates"].empty());
  EXPECT_EQ(done["request"]["fates"][0]["fate"], "moved");
  EXPECT_NE(where("demo-0"), host);
  EXPECT_EQ(admin(), "drained");
  described("listOperations", world.get("/api/v1/operations?kind=host.evacuate&target=" + host));
  EXPECT_EQ(
      described("activateHost", world.post("/api/v1/hosts/" + host + ":activate", "{}")).status,
      200);
}

TEST_F(Evacuations, AnAlertmanagersWebhookIsTakenAsItIs) {
  const std::string firing =
      R"({"receiver":"mare","status":"firing","version":"4","groupKey":"{}","alerts":[)"
      R"({"status":"firing","labels":{"alertname":"MemoryFails","mare_host":")" +
      host +
      R"("},"annotations":{"summary":"DIMM B2 fails"},"startsAt":"2026-01-01T00:00:00Z"},)"
      R"({"status":"resolved","labels":{"mare_host":"h9"}},)"
      R"({"status":"firing","labels":{"instance":"elsewhere:9100"}},)"
      R"({"status":"firing","labels":{"mare_host":"h9"}}]})";
  const Got taken = alert(firing);
  ASSERT_EQ(taken.status, 200) << taken.body;
  const Json answer = taken.json();
  ASSERT_EQ(answer["operations"].size(), 1U);
  EXPECT_EQ(answer["operations"][0]["target"], host);
  EXPECT_EQ(answer["operations"][0]["request"]["reason"], "DIMM B2 fails");
  EXPECT_EQ(answer["ignored"], 2);
  ASSERT_EQ(answer["refused"].size(), 1U);
  EXPECT_EQ(answer["refused"][0]["host"], "h9");
  EXPECT_EQ(answer["refused"][0]["code"], "not_found");
  const std::string id = answer["operations"][0]["id"];
  Json ended = Json::object();
  for (int i = 0; i < 4 && ended.value("outcome", "pending") == "pending"; ++i) {
    ended = world.get("/api/v1/operations/" + id + "?wait=30s").json();
  }
  EXPECT_EQ(ended["outcome"], "succeeded") << ended.dump();
  // The host is empty by now: posted again it is a new one that ends at once.
  const Got repeated = alert(firing);
  EXPECT_EQ(repeated.status, 200) << repeated.body;
}

TEST_F(Evacuations, OfNoHostNothingIsBegun) {
  const Got none = alert(R"({"alerts":[{"status":"resolved","labels":{"mare_host":"h1"}}]})", "");
  ASSERT_EQ(none.status, 200);
  EXPECT_THAT(none.json()["operations"], IsEmpty());
  EXPECT_EQ(none.json()["ignored"], 1);
  const Got unknown = alert(R"({"alerts":[{"labels":{"mare_host":"h9"}}]})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("'h9'"));
}

}  // namespace
}  // namespace mare::test
