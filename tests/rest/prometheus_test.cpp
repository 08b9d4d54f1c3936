// Prometheus as the source of a pool's figure, over real HTTP.
#include "orchestrator/daemon/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/rest/canned_server.h"
#include "tests/rest/rest_world.h"

namespace mare::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::Json;

std::string sample(const std::string& value) {
  return CannedServer::response("200 OK",
                                R"({"status":"success","data":{"resultType":"vector","result":[)"
                                R"({"metric":{},"value":[1700000000,")" +
                                    value + "\"]}]}}");
}

TEST(AskPrometheus, TheQuestionAndTheAnswer) {
  CannedServer server([](const std::string&) { return sample("3"); });
  const SystemClock clock;
  const auto answer = daemon::ask_prometheus({server.url() + "/prom/", "sum(a{b=\"c d\"})"}, clock);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->status, 200);
  EXPECT_THAT(answer->body, HasSubstr("\"3\""));
  EXPECT_THAT(server.request_lines(),
              ElementsAre("GET /prom/api/v1/query?query=sum%28a%7Bb%3D%22c%20d%22%7D%29 HTTP/1.1"));
}

TEST(AskPrometheus, AnErrorOfHttpIsAnAnswer) {
  CannedServer server([](const std::string&) {
    return CannedServer::response("422 Unprocessable Entity", R"({"status":"error"})");
  });
  const SystemClock clock;
  const auto answer = daemon::ask_prometheus({server.url(), "up"}, clock);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 422);
}

TEST(AskPrometheus, SilenceEndsAfterTheTimeout) {
  CannedServer server([](const std::string&) { return std::string(); });
  const SystemClock clock;
  const auto begun = clock.now();
  const auto answer = daemon::ask_prometheus({server.url(), "up", Seconds{0.2}}, clock);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unavailable);
  EXPECT_THAT(answer.error().text(), HasSubstr("cannot reach Prometheus at " + server.url()));
  EXPECT_GE(clock.now() - begun, std::chrono::milliseconds{190});
}

TEST(AskPrometheus, NobodyThereAndTooMuch) {
  std::string gone;
  {
    CannedServer server([](const std::string&) { return sample("3"); });
    gone = server.url();
  }
  const SystemClock clock;
  const auto refused = daemon::ask_prometheus({gone, "up"}, clock);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("cannot reach Prometheus"));
  EXPECT_EQ(refused.error().text().find("mared"), std::string::npos);
  CannedServer large([](const std::string&) {
    return CannedServer::response("200 OK", std::string(2'000'000, 'x'));
  });
  const auto much = daemon::ask_prometheus({large.url(), "up"}, clock);
  ASSERT_FALSE(much);
  EXPECT_THAT(much.error().text(), HasSubstr("more than 1024 KiB"));
}

TEST(PrometheusRule, APoolGrowsByAQueryAndHoldsWithoutOne) {
  std::atomic<bool> ill{true};
  CannedServer server([&](const std::string&) {
    if (ill) return CannedServer::response("503 Service Unavailable", "starting");
    return sample("40");
  });
  RestWorld world;
  world.add_hosts(2);
  world.add_pool("p", 1);
  const std::string path = "/api/v1/pools/p/autoscale";
  const Json rule{{"source", "prometheus"}, {"url", server.url()}, {"query", "sum(waiting)"},
                  {"target", 15},           {"total", true},       {"max", 4}};
  const Got set = world.put(path, rule.dump());
  ASSERT_EQ(set.status, 200) << set.body;
  EXPECT_EQ(set.json()["query_timeout_s"], 2.0);
  const auto wait_for = [&](const std::function<bool(const Json&)>& enough) {
    Json now = world.get(path).json();
    for (int i = 0; i < 400 && !enough(now); ++i) {
      world.clock.sleep_for(std::chrono::milliseconds{50});
      now = world.get(path).json();
    }
    return now;
  };
  const Json held = wait_for([](const Json& now) { return now["reason"].is_string(); });
  EXPECT_THAT(held["reason"].get<std::string>(), HasSubstr("stays at 1"));
  EXPECT_THAT(held["reason"].get<std::string>(), HasSubstr("HTTP 503: starting"));
  EXPECT_TRUE(held["metric"].is_null());
  ill = false;
  ASSERT_EQ(world.put(path, rule.dump()).status, 200);
  const Json grown = wait_for([](const Json& now) { return now["operation"].is_string(); });
  EXPECT_EQ(grown["desired"], 3);
  const Got bad = world.put(path, R"({"source":"prometheus","url":"nowhere","query":"up",)"
                                  R"("target":1,"max":2})");
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(bad.body, HasSubstr("http://prometheus:9090"));
}

}  // namespace
}  // namespace mare::test
