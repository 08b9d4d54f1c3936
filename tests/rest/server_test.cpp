// Starting, ending, authorisation, health.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rest/server/listen_check.h"
#include "tests/rest/rest_world.h"

namespace mare::test {
namespace {

using testing::HasSubstr;

class Server : public testing::Test {
 protected:
  Result<std::unique_ptr<rest::RestServer>> another(const rest::RestOptions& options) {
    return rest::RestServer::start(options, *world.engine, *world.store, world.images, world.clock,
                                   world.log);
  }
  Got with(const std::vector<std::string>& headers, const std::string& path = "/api/v1/hosts") {
    Sending sending;
    sending.url = world.url(path);
    sending.headers = headers;
    return send(sending);
  }
  RestWorld world;
};

TEST_F(Server, SaysWhereItIs) {
  EXPECT_THAT(world.server->url(), testing::MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_GT(world.port(), 1023);
}

TEST_F(Server, APortThatIsTakenIsNamed) {
  rest::RestOptions options;
  options.token = kToken;
  options.listen = Endpoint{"127.0.0.1", static_cast<std::uint16_t>(world.port())};
  const auto second = another(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::FailedPrecondition);
  EXPECT_THAT(second.error().message, HasSubstr(options.listen.text() + " is taken"));
  EXPECT_THAT(second.error().remedy, HasSubstr("--listen"));
  // The first one was not harmed.
  EXPECT_EQ(world.get("/healthz").status, 200);
}

TEST_F(Server, RefusesTheOpenNetworkUnlessForced) {
  rest::RestOptions options;
  options.token = kToken;
  options.listen = Endpoint{"0.0.0.0", 0};
  const auto refused = another(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("--allow-remote"));
  options.allow_remote = true;
  auto forced = another(options);
  ASSERT_TRUE(forced.ok()) << forced.error().text();
  (*forced)->stop();
}

TEST_F(Server, RefusesWhatIsNoAddressOfOurs) {
  rest::RestOptions options;
  options.token = kToken;
  options.allow_remote = true;
  options.listen = Endpoint{"192.0.2.1", 0};
  EXPECT_THAT(another(options).error().message, HasSubstr("192.0.2.1"));
  options.listen = Endpoint{"[::1]", 0};
  EXPECT_EQ(another(options).error().code, Code::InvalidArgument);
  options.listen = Endpoint{"127.0.0.1", 0};
  options.token = "";
  EXPECT_THAT(another(options).error().message, HasSubstr("no token"));
}

TEST_F(Server, TheTokenIsAskedForEverywhereButHealth) {
  for (const char* path : {"/api/v1/hosts", "/metrics", "/api/v1/openapi.json", "/nowhere", "/"}) {
    const Got none = with({}, path);
    EXPECT_EQ(none.status, 401) << path;
    EXPECT_EQ(none.header("www-authenticate"), "Bearer realm=\"mare\"");
    EXPECT_EQ(none.header("content-type"), "application/problem+json");
    EXPECT_EQ(none.json()["code"], "unauthenticated");
  }
  EXPECT_EQ(with({}, "/healthz").status, 200);
  EXPECT_EQ(with({}, "/readyz").status, 200);
}

TEST_F(Server, OnlyTheRightTokenIsRight) {
  const std::vector<std::string> wrongs{"Bearer ",
                                        "Bearer x" + kToken,
                                        "Bearer " + kToken + "x",
                                        "Bearer " + kToken.substr(1),
                                        "Bearer " + kToken + kToken,
                                        "Basic " + kToken,
                                        kToken,
                                        "Bearer  " + kToken,
                                        "bearer",
                                        "Bearer 0",
                                        "Bearer " + std::string(kToken.size(), '0')};
  for (const auto& wrong : wrongs) {
    EXPECT_EQ(with({"Authorization: " + wrong}).status, 401) << wrong;
  }
  EXPECT_EQ(with({"Authorization: Bearer " + kToken}).status, 200);
  EXPECT_EQ(with({"authorization: bearer " + kToken}).status, 200);
}

TEST_F(Server, ReadinessNeedsTheStore) {
  EXPECT_EQ(with({}, "/readyz").json()["status"], "ready");
  world.store->stop_after_commits(0);
  const Got broken = with({}, "/readyz");
  EXPECT_EQ(broken.status, 503);
  EXPECT_EQ(with({}, "/healthz").status, 200);
}

TEST_F(Server, WritesWithABrokenStoreAreUnavailable) {
  world.store->stop_after_commits(0);
  const Got broken = world.post("/api/v1/hosts", R"({"id":"h1","address":"sim:///h1"})");
  EXPECT_EQ(broken.status, 503);
  EXPECT_EQ(broken.json()["code"], "unavailable");
}

TEST_F(Server, EndsTwiceAndAnswersNobodyAfterwards) {
  world.server->stop();
  world.server->stop();
  EXPECT_EQ(world.get("/healthz").status, 0);
  // Its port is free again.
  const Endpoint where{"127.0.0.1", static_cast<std::uint16_t>(world.port())};
  EXPECT_TRUE(rest::probe_port(where).ok());
}

TEST_F(Server, ManyAtATime) {
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      for (int n = 0; n < 20; ++n) good += world.get("/api/v1/hosts").status == 200 ? 1 : 0;
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(good.load(), 320);
}

TEST_F(Server, MetricsCountWhatHappened) {
  world.add_hosts(1);
  world.get("/api/v1/nowhere");
  const Got metrics = world.get("/metrics");
  EXPECT_THAT(metrics.header("content-type"), HasSubstr("text/plain; version=0.0.4"));
  for (const char* line :
       {"mare_build_info{version=\"", "mare_hosts{health=\"up\"} 1\n",
        "mare_vms{state=\"running\"} 0\n", "mare_jobs{state=\"queued\"} 0\n",
        "mare_operations{kind=\"host.add\",outcome=\"succeeded\"} 1\n",
        "mare_http_requests_total{route=\"addHost\",status=\"202\"} 1\n",
        "mare_http_requests_total{route=\"none\",status=\"404\"} 1\n",
        "mare_migration_duration_seconds_count{strategy=\"pre-copy\"} 0\n",
        "mare_host_silence_seconds_bucket{le=\"0.3\"} ", "mare_host_longest_silence_seconds "}) {
    EXPECT_THAT(metrics.body, HasSubstr(line));
  }
}

}  // namespace
}  // namespace mare::test
