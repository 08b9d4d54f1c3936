// Bad input: what comes back is a problem that names what is wrong and what to do, described in the
// API's description, and nothing has changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::HasSubstr;

struct BadCase {
  std::string method;
  std::string path;
  std::string body;
  int status;
  std::string code;
  std::string says;     // in `detail`, or in an error's detail
  std::string pointer;  // of the first of errors[]; "" : not looked at
};

// One world for all cases: hosts h1 and h2, pool demo with one VM on one of them.
class BadInput : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    world_ = new RestWorld;
    world_->add_hosts(2);
    world_->add_pool("demo", 1);
    schemas_ = new Schemas(world_->get("/api/v1/openapi.json").json());
  }
  static void TearDownTestSuite() {
    delete schemas_;
    delete world_;
  }

  static std::string everything() {
    std::string out;
    for (const char* path : {"hosts", "pools", "vms", "jobs", "migrations", "operations"}) {
      auto list = world_->get(std::string("/api/v1/") + path).json();
      // Heartbeats go on.
      for (auto& item : list["items"]) item.erase("last_seen");
      out += list.dump() + "\n";
    }
    return out;
  }

  static void check(const BadCase& bad) {
    const std::string what = bad.method + " " + bad.path + " " + bad.body;
    Sending sending;
    sending.method = bad.method;
    sending.url = world_->url(bad.path);
    sending.headers = world_->token_header();
    sending.headers.emplace_back("Content-Type: application/json");
    sending.body = bad.body;
    sending.with_body = bad.method == "POST";
    const Got got = send(sending);
    EXPECT_EQ(got.status, bad.status) << what << ": " << got.body;
    EXPECT_EQ(got.header("content-type"), "application/problem+json") << what;
    const auto problem = got.json();
    EXPECT_THAT(schemas_->check(problem, problem_schema()), testing::IsEmpty()) << what;
    EXPECT_EQ(problem["status"], bad.status);
    EXPECT_EQ(problem["code"], bad.code) << what;
    EXPECT_THAT(problem.dump(), HasSubstr(bad.says)) << what;
    // A user is told what to do.
    EXPECT_TRUE(problem.contains("remedy")) << what << " " << problem.dump();
    if (!bad.pointer.empty()) {
      ASSERT_TRUE(problem.contains("errors")) << what;
      EXPECT_EQ(problem["errors"][0]["pointer"], bad.pointer) << what;
    }
  }
  static wire::Json problem_schema() {
    return wire::Json{{"$ref", "#/components/schemas/Problem"}};
  }

  static RestWorld* world_;
  static Schemas* schemas_;
};
RestWorld* BadInput::world_ = nullptr;
Schemas* BadInput::schemas_ = nullptr;

TEST_F(BadInput, IsToldAndChangesNothing) {
  const std::string bad = "invalid_argument";
  const std::string before = everything();
  const std::vector<BadCase> cases{
      // Bodies that are no bodies.
      {"POST", "/api/v1/hosts", "", 400, bad, "is missing", "/id"},
      {"POST", "/api/v1/hosts", "{", 400, bad, "is not JSON", ""},
      {"POST", "/api/v1/hosts", "[]", 400, bad, "write an object", ""},
      {"POST", "/api/v1/hosts", "null", 400, bad, "write an object", ""},
      {"POST", "/api/v1/hosts", "\"h1\"", 400, bad, "write an object", ""},
      {"POST", "/api/v1/hosts", "{\"id\":\"\xff\xfe\"}", 400, bad, "is not JSON", ""},
      {"POST", "/api/v1/hosts", R"({"id":"a","id":"b","address":"c"})", 400, bad, "given twice",
       ""},
      {"POST", "/api/v1/pools", std::string(5000, '['), 400, bad, "nested", ""},
      // Hosts.
      {"POST", "/api/v1/hosts", R"({"id":"h3"})", 400, bad, "is missing", "/address"},
      {"POST", "/api/v1/hosts", R"({"id":3,"address":"a"})", 400, bad, "a number", "/id"},
      {"POST", "/api/v1/hosts", R"({"id":"H3","address":"a"})", 400, bad, "can't be a name", "/id"},
      {"POST", "/api/v1/hosts", R"({"id":"../x","address":"a"})", 400, bad, "can't be a name",
       "/id"},
      {"POST", "/api/v1/hosts", R"({"id":"h3","address":"a","port":1})", 400, bad,
       "is not known here", "/port"},
      {"POST", "/api/v1/hosts", R"({"id":"h1","address":"sim:///h9"})", 409, "already_exists",
       "'h1'", ""},
      {"GET", "/api/v1/hosts/h9", "", 404, "not_found", "'h9'", ""},
      {"DELETE", "/api/v1/hosts/h9", "", 404, "not_found", "'h9'", ""},
      {"POST", "/api/v1/hosts/h9:drain", "{}", 404, "not_found", "'h9'", ""},
      {"POST", "/api/v1/hosts/h9:evacuate", R"({"within_s":60})", 404, "not_found", "'h9'", ""},
      {"POST", "/api/v1/hosts/h1:evacuate", "{}", 400, bad, "is missing", "/within_s"},
      {"POST", "/api/v1/hosts/h1:evacuate", R"({"within_s":0.5})", 400, bad, "1", "/within_s"},
      {"POST", "/api/v1/hosts/h1:evacuate", R"({"within_s":"60s"})", 400, bad, "", "/within_s"},
      {"POST", "/api/v1/hosts/h1:evacuate", R"({"within_s":60,"reason":7})", 400, bad, "",
       "/reason"},
      {"POST", "/api/v1/hosts/h1:evacuate", R"({"within":60})", 400, bad, "is missing",
       "/within_s"},
      {"POST", "/api/v1/hosts/h1:evacuate?dry_run=1", R"({"within_s":60})", 400, bad, "",
       "?dry_run"},
      {"POST", "/api/v1/alerts", "{}", 400, bad, "is missing", "/alerts"},
      {"POST", "/api/v1/alerts", R"({"alerts":[{"labels":7}]})", 400, bad, "", "/alerts/0/labels"},
      {"POST", "/api/v1/alerts?within_s=0", R"({"alerts":[]})", 400, bad, "", "?within_s"},
      {"POST", "/api/v1/alerts", R"({"alerts":[{"labels":{"mare_host":"h9"}}]})", 404, "not_found",
       "'h9'", ""},
      {"POST", "/api/v1/hosts/h9:activate", "{}", 404, "not_found", "'h9'", ""},
      {"POST", "/api/v1/hosts/h1:drain", R"({"now":true})", 400, bad, "is not known here", "/now"},
      {"POST", "/api/v1/hosts/h1:explode", "{}", 404, "not_found", "openapi.json", ""},
      {"GET", "/api/v1/hosts?color=red", "", 400, bad, "is not known here", "?color"},
      {"GET", "/api/v1/hosts?limit=0", "", 400, bad, "1 to 1000", "?limit"},
      {"GET", "/api/v1/hosts?limit=1&limit=2", "", 400, bad, "twice", "?limit"},
      {"GET", "/api/v1/hosts?limit=%zz", "", 400, bad, "percent", ""},
      {"GET", "/api/v1/hosts?page_token=zz", "", 400, bad, "begin again", "?page_token"},
      {"GET", "/api/v1/hosts/h1?verbose=1", "", 400, bad, "is not known here", "?verbose"},
      {"POST", "/api/v1/jobs/nope:spread", "{}", 404, "not_found", "'nope'", ""},
      {"POST", "/api/v1/jobs/nope:pack", R"({"hosts":0})", 400, bad, "1 to", "/hosts"},
      {"POST", "/api/v1/jobs/nope:pack?dry_run=1", "{}", 400, bad, "true", "?dry_run"},
      // Pools.
      {"POST", "/api/v1/pools", R"({"id":"p","size":0})", 400, bad, "1 to", "/size"},
      {"POST", "/api/v1/pools", R"({"id":"p","size":"4"})", 400, bad, "a string", "/size"},
      {"POST", "/api/v1/pools", R"({"id":"p","memory_mib":1})", 400, bad, "128", "/memory_mib"},
      {"POST", "/api/v1/pools", R"({"id":"p","memory_mib":192.5})", 400, bad, "whole number",
       "/memory_mib"},
      {"POST", "/api/v1/pools", R"({"id":"p","image":"none"})", 404, "not_found", "'none'", ""},
      {"POST", "/api/v1/pools", R"({"id":"p","hosts":["h9"]})", 404, "not_found", "'h9'", ""},
      {"POST", "/api/v1/pools", R"({"id":"p","size":100})", 409, "resource_exhausted", "", ""},
      {"POST", "/api/v1/pools", R"({"id":"p","memory_mib":9000})", 409, "resource_exhausted", "",
       ""},
      {"POST", "/api/v1/pools", R"({"id":"demo"})", 409, "already_exists", "'demo'", ""},
      {"GET", "/api/v1/pools/nope", "", 404, "not_found", "'nope'", ""},
      {"DELETE", "/api/v1/pools/nope", "", 404, "not_found", "'nope'", ""},
      {"DELETE", "/api/v1/pools/demo?force=maybe", "", 400, bad, "true or false", "?force"},
      // VMs.
      {"GET", "/api/v1/vms/demo-7", "", 404, "not_found", "'demo-7'", ""},
      {"POST", "/api/v1/vms/demo-7:start", "{}", 404, "not_found", "'demo-7'", ""},
      {"POST", "/api/v1/vms/demo-0:start", R"({"host":7})", 400, bad, "a number", "/host"},
      {"POST", "/api/v1/vms/demo-0:stop", R"({"force":"yes"})", 400, bad, "true or false",
       "/force"},
      {"GET", "/api/v1/vms?state=running", "", 400, bad, "is not known here", "?state"},
      // Migrations.
      {"POST", "/api/v1/vms/demo-7/migrations", "{}", 404, "not_found", "'demo-7'", ""},
      {"POST", "/api/v1/vms/demo-0/migrations", R"({"destination":"h9"})", 404, "not_found", "'h9'",
       ""},
      {"POST", "/api/v1/vms/demo-0/migrations", R"({"to":"h2"})", 400, bad, "destination", "/to"},
      {"POST", "/api/v1/vms/demo-0/migrations", R"({"timeout_s":0})", 400, bad, "1 to 86400",
       "/timeout_s"},
      {"POST", "/api/v1/vms/demo-0/migrations", R"({"bandwidth_limit_bytes_per_s":10})", 400, bad,
       "1048576", "/bandwidth_limit_bytes_per_s"},
      {"POST", "/api/v1/vms/demo-0/migrations", R"({"downtime_limit_ms":-5})", 400, bad, "1 to",
       "/downtime_limit_ms"},
      {"GET", "/api/v1/migrations/op-1", "", 404, "not_found", "op-1", ""},
      {"POST", "/api/v1/migrations/op-1:cancel", "", 404, "not_found", "op-1", ""},
      {"GET", "/api/v1/migrations?outcome=fine", "", 400, bad, "succeeded", "?outcome"},
      // Jobs.
      {"POST", "/api/v1/jobs", "{}", 400, bad, "is missing", "/pool"},
      {"POST", "/api/v1/jobs", R"({"pool":"demo","command":"ls"})", 400, bad, "an array",
       "/command"},
      {"POST", "/api/v1/jobs", R"({"pool":"demo","command":[]})", 400, bad, "program", "/command"},
      {"POST", "/api/v1/jobs", R"({"pool":"nope","command":["a"]})", 404, "not_found", "'nope'",
       ""},
      {"POST", "/api/v1/jobs", R"({"pool":"demo","command":["a"],"ranks":2})", 400, bad, "2 ranks",
       "/ranks"},
      {"POST", "/api/v1/jobs", R"({"pool":"demo","command":["a"],"environment":["x"]})", 400, bad,
       "NAME=VALUE", "/environment"},
      {"GET", "/api/v1/jobs/job-9", "", 404, "not_found", "job-9", ""},
      {"GET", "/api/v1/jobs/job-9/output", "", 404, "not_found", "job-9", ""},
      {"GET", "/api/v1/jobs/job-9/output?follow=true", "", 404, "not_found", "job-9", ""},
      {"GET", "/api/v1/jobs/job-9/output?offset=-1", "", 400, bad, "0 to", "?offset"},
      {"POST", "/api/v1/jobs/job-9:cancel", "", 404, "not_found", "job-9", ""},
      {"GET", "/api/v1/jobs?state=odd", "", 400, bad, "queued", "?state"},
      // Operations.
      {"GET", "/api/v1/operations/op-99", "", 404, "not_found", "op-99", ""},
      {"GET", "/api/v1/operations/op-99?wait=1s", "", 404, "not_found", "op-99", ""},
      {"GET", "/api/v1/operations/op-1?wait=1h", "", 400, bad, "up to 60s", "?wait"},
      {"GET", "/api/v1/operations/op-1?wait=61s", "", 400, bad, "up to 60s", "?wait"},
      {"GET", "/api/v1/operations/op-99/events", "", 404, "not_found", "op-99", ""},
      {"POST", "/api/v1/operations/op-1:cancel", "", 409, "failed_precondition", "op-1", ""},
      {"POST", "/api/v1/operations/op-99:cancel", "", 404, "not_found", "op-99", ""},
      {"GET", "/api/v1/operations?kind=vm.fly", "", 400, bad, "vm.migrate", "?kind"},
      // Images, events, anything else.
      {"GET", "/api/v1/images/none", "", 404, "not_found", "'none'", ""},
      {"GET", "/api/v1/events?after=x", "", 400, bad, "whole number", "?after"},
      {"GET", "/api/v1/events?topics=vm,weather", "", 400, bad, "'weather'", "?topics"},
      {"GET", "/api/v1/nothing", "", 404, "not_found", "/api/v1/nothing", ""},
      {"GET", "/api/v2/hosts", "", 404, "not_found", "openapi.json", ""},
      {"GET", "/api/v1/hosts/", "", 404, "not_found", "openapi.json", ""},
      {"GET", "/api/v1/hosts/%00", "", 404, "not_found", "openapi.json", ""},
  };
  for (const auto& one : cases) check(one);
  EXPECT_EQ(everything(), before);
}

TEST_F(BadInput, EveryFaultIsToldAtOnce) {
  const Got got = world_->post("/api/v1/pools",
                               R"({"id":"P!","size":-1,"memory_mib":"big","vcpus":0,"zone":"x"})");
  const auto problem = got.json();
  std::vector<std::string> where;
  for (const auto& fault : problem["errors"]) where.push_back(fault["pointer"]);
  EXPECT_THAT(where, testing::ElementsAre("/id", "/size", "/memory_mib", "/vcpus", "/zone"));
}

TEST_F(BadInput, MigrationToWhereItIs) {
  const std::string host = world_->get("/api/v1/vms/demo-0").json()["host"];
  check({"POST", "/api/v1/vms/demo-0/migrations", R"({"destination":")" + host + "\"}", 400,
         "invalid_argument", "already", "/destination"});
}

TEST_F(BadInput, MethodsThatAPathDoesNotKnow) {
  for (const char* method : {"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}) {
    Sending sending;
    sending.method = method;
    sending.url = world_->url("/api/v1/hosts");
    sending.headers = world_->token_header();
    sending.headers.emplace_back("Content-Length: 0");
    const Got got = send(sending);
    EXPECT_EQ(got.status, 405) << method << " " << got.body;
    EXPECT_EQ(got.header("allow"), "GET, POST");
  }
  const Got head = world_->call("HEAD", "/api/v1/hosts");
  EXPECT_EQ(head.status, 405);
  EXPECT_TRUE(head.body.empty());
}

TEST_F(BadInput, OnlyJson) {
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "application/jsonx"}) {
    Sending sending;
    sending.method = "POST";
    sending.url = world_->url("/api/v1/hosts");
    sending.headers = world_->token_header();
    sending.headers.push_back(std::string("Content-Type: ") + type);
    sending.body = R"({"id":"h7","address":"sim:///h7"})";
    sending.with_body = true;
    const Got got = send(sending);
    EXPECT_EQ(got.status, 415) << type;
    EXPECT_THAT(got.json()["remedy"].get<std::string>(), HasSubstr("application/json"));
  }
  Sending sending;
  sending.method = "POST";
  sending.url = world_->url("/api/v1/hosts");
  sending.headers = world_->token_header();
  sending.headers.emplace_back("Content-Type: application/json; charset=utf-8");
  sending.body = "{}";
  sending.with_body = true;
  EXPECT_EQ(send(sending).status, 400);  // It was read.
}

}  // namespace
}  // namespace mare::test
