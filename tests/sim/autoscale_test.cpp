// Pools whose size follows a figure, over hours of virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/invariants.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const PoolId kPool{"demo"};

class Follows : public testing::Test {
 protected:
  void SetUp() override {
    world.prometheus = [this](const PrometheusQuery& asked) {
      questions.push_back(asked);
      return answer;
    };
    world.start_mared();
    for (const char* name : {"h1", "h2"}) ASSERT_TRUE(world.add_host(name));
    engine::PoolCreateRequest request;
    request.id = kPool;
    request.size = 2;
    auto accepted = world.engine().submit(request);
    ASSERT_TRUE(accepted);
    ASSERT_EQ(world.wait(accepted->id).outcome, Outcome::Succeeded);
    world.on_step([this] {
      invariants.check_moment();
      if (world.store_is_open()) invariants.check_rows();
    });
  }
  void TearDown() override {
    world.play_while_not([this] { return world.all_ended(); }, 30min);
    world.play(10s);
    invariants.check_quiet();
    world.on_step({});
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }

  static AutoscaleSetting rule(double target, int min, int max) {
    AutoscaleSetting out;
    out.rule.target = target;
    out.rule.min = min;
    out.rule.max = max;
    return out;
  }
  void set(const AutoscaleSetting& setting) {
    const auto done = world.engine().set_autoscale(kPool, setting);
    ASSERT_TRUE(done) << done.error().text();
  }
  void post(double value) { ASSERT_TRUE(world.engine().post_metric(kPool, value)); }
  /// Posts it every 10 s for so long.
  void go_on(double value, std::chrono::seconds span) {
    for (auto left = span; left > 0s; left -= 10s) {
      post(value);
      world.play(10s);
    }
  }
  Autoscaler row() {
    Result<Autoscaler> out = make_error(Code::Internal, "not read");
    EXPECT_TRUE(world.store().read([&](const store::Reader& reader) -> Status {
      out = reader.autoscaler(kPool);
      return ok_status();
    }));
    EXPECT_TRUE(out) << (out ? "" : out.error().text());
    return out ? *out : Autoscaler{kPool};
  }
  int size() { return world.pools().front().size; }
  std::size_t scales() {
    const auto all = world.operations();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Operation& o) {
      return o.kind == OperationKind::PoolScale;
    }));
  }

  static AutoscaleSetting query_rule(const std::string& query) {
    auto out = rule(10, 1, 8);
    out.source = MetricSource::Prometheus;
    out.prometheus = {"http://prometheus:9090", query, Seconds{2}};
    return out;
  }
  static engine::HttpAnswer sample(const std::string& value) {
    return {200, R"({"status":"success","data":{"resultType":"vector","result":[)"
                 R"({"metric":{},"value":[1700000000.1,")" +
                     value + "\"]}]}}"};
  }

  Result<engine::HttpAnswer> answer = engine::HttpAnswer{500, ""};
  std::vector<PrometheusQuery> questions;
  SimWorld world{1};
  Invariants invariants{world};
};

TEST_F(Follows, AQueryOfPrometheus) {
  answer = sample("20");
  set(query_rule("load"));
  world.play(20s);
  EXPECT_EQ(size(), 8) << "of each VM: twice the target, again and again";
  ASSERT_FALSE(questions.empty());
  EXPECT_EQ(questions.front(), query_rule("load").prometheus);
  EXPECT_EQ(row().metric, 20.0);
}

TEST_F(Follows, WhatIsNoFigureIsSaidAndHoldsThePool) {
  answer = make_error(Code::Unavailable, "cannot reach Prometheus at http://prometheus:9090");
  auto setting = query_rule("load");
  setting.rule.down.stabilisation = Seconds{0};
  set(setting);
  world.play(30s);
  EXPECT_EQ(size(), 2);
  EXPECT_FALSE(row().metric);
  EXPECT_THAT(row().reason, HasSubstr("stays at 2"));
  EXPECT_THAT(row().reason, HasSubstr("cannot reach Prometheus"));
  answer = sample("NaN");
  world.play(30s);
  EXPECT_THAT(row().reason, HasSubstr("'NaN'"));
  EXPECT_EQ(scales(), 0U);
  answer = sample("1");
  world.play(30s);
  EXPECT_EQ(size(), 1) << "the next figure counts";
}

TEST_F(Follows, AnAnswerToAnotherQuestionCountsForNothing) {
  answer = sample("80");
  world.executor.slow_next("prometheus", 7s);
  set(query_rule("load"));
  world.play(1s);
  answer = sample("10");
  set(query_rule("other"));
  world.play(5s);
  EXPECT_EQ(row().looked.count(), 0) << "nobody has answered yet, and nobody asks twice meanwhile";
  world.play(20s);
  EXPECT_EQ(size(), 2);
  EXPECT_EQ(questions.back().query, "other");
  EXPECT_GT(row().looked.count(), 0);
}

TEST_F(Follows, AServerThatHangsHoldsUpNothing) {
  answer = sample("30");
  world.executor.slow_next("prometheus", 30s);
  set(query_rule("load"));
  world.play(1s);
  const auto mine = world.engine().submit(engine::PoolScaleRequest{kPool, 3, false});
  ASSERT_TRUE(mine);
  EXPECT_EQ(world.wait(mine->id, 20s).outcome, Outcome::Succeeded);
  EXPECT_TRUE(questions.empty()) << "the answer is still to come";
  world.kill_mared();
  world.start_mared();
  world.play(20s);
  EXPECT_EQ(size(), 8) << "a new process asks anew";
}

TEST_F(Follows, AQueryThatCantBeAskedIsRefused) {
  const auto field = [&](const std::string& url, const std::string& query, double timeout_s = 2) {
    auto setting = query_rule(query);
    setting.prometheus.url = url;
    setting.prometheus.timeout = Seconds{timeout_s};
    const auto done = world.engine().set_autoscale(kPool, setting);
    return done ? "" : done.error().field;
  };
  for (const char* url : {"", "prometheus:9090", "ftp://a", "http://", "http:///x", "http://a b",
                          "http://a/?x=1", "http://a#b", "http://user:word@a"}) {
    EXPECT_EQ(field(url, "up"), "url") << url;
  }
  EXPECT_EQ(field("http://a", ""), "query");
  EXPECT_EQ(field("http://a", std::string("up\0", 3)), "query");
  EXPECT_EQ(field("http://a", "up", 0), "query_timeout_s");
  EXPECT_EQ(field("http://a", "up", 11), "query_timeout_s");
  EXPECT_EQ(field("https://a:1/prometheus/", "sum by (a) (\n  up)"), "");
}

TEST_F(Follows, APostedFigureUpAtOnceAndDownWhenItHasLasted) {
  set(rule(10, 1, 8));
  world.play(10s);
  EXPECT_EQ(size(), 2) << "no figure, no change";
  EXPECT_THAT(row().reason, HasSubstr("no figure"));
  post(20);
  world.play(1s);
  ASSERT_TRUE(row().operation);
  const auto growing = world.operation(*row().operation);
  EXPECT_EQ(growing.kind, OperationKind::PoolScale);
  EXPECT_THAT(growing.request, HasSubstr("ceil(2 * 20.00 / 10.00) = 4"));
  EXPECT_EQ(world.wait(growing.id).outcome, Outcome::Succeeded);
  EXPECT_EQ(size(), 4);
  go_on(10, 60s);
  EXPECT_EQ(size(), 4) << "it is what it should be";
  EXPECT_EQ(scales(), 1U);
  go_on(5, 240s);
  EXPECT_EQ(size(), 4) << "five minutes have not passed";
  go_on(5, 120s);
  EXPECT_EQ(size(), 2);
}

TEST_F(Follows, AStaleFigureIsNone) {
  auto setting = rule(10, 1, 8);
  setting.rule.down.stabilisation = Seconds{0};
  set(setting);
  post(2);
  world.play(5s);
  EXPECT_EQ(size(), 1);
  world.play(2min);
  EXPECT_THAT(row().reason, HasSubstr("no figure"));
  EXPECT_EQ(scales(), 1U);
}

TEST_F(Follows, ATotalIsSharedByTheVms) {
  auto setting = rule(15, 1, 8);
  setting.total = true;
  set(setting);
  post(75);
  world.play(20s);
  EXPECT_EQ(size(), 5) << row().reason;
  EXPECT_EQ(row().desired, 5);
  go_on(75, 60s);
  EXPECT_EQ(size(), 5) << "the same figure, the same size";
  EXPECT_EQ(scales(), 1U);
}

TEST_F(Follows, LimitsHoldWhateverTheFigure) {
  set(rule(1, 3, 4));
  world.play(20s);
  EXPECT_EQ(size(), 3) << row().reason;
  post(1e9);
  world.play(20s);
  EXPECT_EQ(size(), 4);
}

TEST_F(Follows, TheQueueOfTheJobs) {
  auto setting = rule(1, 1, 6);
  setting.source = MetricSource::Queue;
  setting.rule.down.stabilisation = Seconds{30};
  set(setting);
  engine::JobSubmitRequest job;
  job.pool = kPool;
  job.command = {"solver", "--sim-work=20"};
  job.ranks = 7;
  EXPECT_EQ(world.engine().submit(job).error().field, "ranks") << "more than it ever has";
  job.ranks = 5;
  const auto large = world.engine().submit(job);
  ASSERT_TRUE(large) << "it will have five";
  EXPECT_EQ(world.wait(large->id).outcome, Outcome::Succeeded);
  EXPECT_EQ(size(), 5);
  world.play(60s);
  EXPECT_EQ(size(), 1) << row().reason;
}

TEST_F(Follows, ACooldownOutlivesMared) {
  auto setting = rule(10, 1, 8);
  setting.rule.up.cooldown = Seconds{120};
  set(setting);
  go_on(15, 20s);
  ASSERT_EQ(size(), 3);
  world.kill_mared();
  world.play(5s);
  world.start_mared();
  go_on(20, 60s);
  EXPECT_EQ(size(), 3);
  EXPECT_THAT(row().reason, HasSubstr("cooldown"));
  go_on(20, 60s);
  EXPECT_EQ(size(), 6);
}

TEST_F(Follows, WhatIsRefusedIsSaidAndBeginsNoCooldown) {
  auto setting = rule(10, 1, 100);
  setting.rule.up.cooldown = Seconds{600};
  set(setting);
  // Two hosts of 4096 MiB have room for 32 VMs of 192 + 64 MiB.
  go_on(1000, 60s);
  EXPECT_EQ(size(), 32) << "by best effort";
  go_on(30, 30s);
  EXPECT_EQ(size(), 32);
  EXPECT_THAT(row().reason, HasSubstr("cooldown"));
  setting.rule.up.cooldown = Seconds{0};
  set(setting);
  go_on(30, 30s);
  EXPECT_THAT(row().reason, HasSubstr("refused: "));
  EXPECT_EQ(scales(), 1U) << "what is refused is no operation";
}

TEST_F(Follows, TheQuotaOfItsProjectBindsARuleAndAUserAlike) {
  Quota quota{ProjectId{kDefaultProject}};
  quota.vms = 4;
  ASSERT_TRUE(world.engine().set_quota(quota));
  set(rule(10, 1, 8));
  go_on(30, 20s);
  EXPECT_EQ(size(), 4) << row().reason;
  go_on(30, 60s);
  EXPECT_THAT(row().reason, HasSubstr("has 4 of the 4 VMs it may have"));
  EXPECT_EQ(scales(), 1U);
  ASSERT_TRUE(world.engine().clear_autoscale(kPool));
  const auto ask = [&](int wanted) {
    return world.engine().submit(engine::PoolScaleRequest{kPool, wanted, false});
  };
  EXPECT_EQ(ask(5).error().code, Code::ResourceExhausted);
  quota.vms = 1;  // what there is stays
  ASSERT_TRUE(world.engine().set_quota(quota));
  world.play(10s);
  EXPECT_EQ(size(), 4);
  const auto smaller = ask(3);
  ASSERT_TRUE(smaller) << "it may always shrink";
  EXPECT_EQ(world.wait(smaller->id).outcome, Outcome::Succeeded);
  ASSERT_TRUE(world.engine().clear_quota(quota.project));
  EXPECT_EQ(world.engine().clear_quota(quota.project).error().code, Code::NotFound);
  const auto larger = ask(5);
  ASSERT_TRUE(larger);
  EXPECT_EQ(world.wait(larger->id).outcome, Outcome::Succeeded);
  quota.vms = -1;
  EXPECT_EQ(world.engine().set_quota(quota).error().field, "vms");
}

TEST_F(Follows, AVmThatDoesNotComeUpIsNotTriedWithoutAPause) {
  sim::FaultModel faults;
  faults.start_fails = 1;
  world.cluster.set_faults(faults);
  set(rule(10, 1, 8));
  go_on(20, 60s);
  EXPECT_EQ(size(), 2);
  EXPECT_GE(scales(), 2U);
  EXPECT_LE(scales(), 3U) << "in a minute";
  post(20);
  world.play(20s);
  EXPECT_THAT(row().reason, HasSubstr("did not reach its size"));
  world.cluster.set_faults({});
  go_on(20, 60s);
  EXPECT_EQ(size(), 8);
}

TEST_F(Follows, AUsersScaleIsNotDisturbed) {
  set(rule(10, 1, 8));
  const auto mine = world.engine().submit(engine::PoolScaleRequest{kPool, 6, false});
  ASSERT_TRUE(mine);
  post(5);
  const auto ended = world.wait(mine->id);
  EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  EXPECT_EQ(size(), 6);
}

TEST_F(Follows, WithoutItsRuleThePoolStays) {
  set(rule(10, 1, 8));
  ASSERT_TRUE(world.engine().clear_autoscale(kPool));
  EXPECT_EQ(world.engine().post_metric(kPool, 100).error().code, Code::NotFound);
  EXPECT_EQ(world.engine().clear_autoscale(kPool).error().code, Code::NotFound);
  world.play(20s);
  EXPECT_EQ(size(), 2);
  EXPECT_EQ(world.engine().set_autoscale(PoolId{"nope"}, rule(1, 1, 1)).error().code,
            Code::NotFound);
  EXPECT_EQ(world.engine().set_autoscale(kPool, rule(0, 1, 1)).error().field, "target");
  EXPECT_EQ(world.engine().set_autoscale(kPool, rule(1, 3, 2)).error().field, "max");
  // It goes with its pool.
  set(rule(10, 1, 8));
  const auto gone = world.engine().submit(engine::PoolDeleteRequest{kPool, true});
  ASSERT_TRUE(gone);
  EXPECT_EQ(world.wait(gone->id).outcome, Outcome::Succeeded);
  world.play(20s);
}

}  // namespace
}  // namespace mare::test
