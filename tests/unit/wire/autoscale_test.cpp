#include "rest/wire/autoscale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::wire {
namespace {

using testing::ElementsAre;

template <typename Body>
std::vector<std::string> faults_of(const std::string& text, Body& body) {
  Faults faults;
  if (auto json = parse_json(text, faults)) read(*json, body, faults);
  std::vector<std::string> where;
  for (const auto& fault : faults) where.push_back(fault.pointer);
  return where;
}
std::vector<std::string> bad(const std::string& text) {
  AutoscaleBody body;
  return faults_of(text, body);
}

TEST(AutoscaleBody, RoundTripAndDefaults) {
  AutoscaleBody body;
  body.setting.source = MetricSource::Queue;
  body.setting.total = true;
  body.setting.stale_after = Seconds{9};
  body.setting.rule = {15, 0.25, 2, 8, {Seconds{1}, Seconds{2}, 3}, {Seconds{4}, Seconds{5}, 6}};
  AutoscaleBody back;
  EXPECT_THAT(faults_of(to_text(to_json(body)), back), ElementsAre());
  EXPECT_EQ(to_json(back), to_json(body));
  AutoscaleBody least;
  EXPECT_THAT(faults_of(R"({"target":1.5,"max":3})", least), ElementsAre());
  EXPECT_EQ(least.setting.source, MetricSource::Posted);
  EXPECT_EQ(least.setting.rule.target, 1.5);
  EXPECT_EQ(least.setting.rule.min, 1);
  EXPECT_EQ(least.setting.rule.max, 3);
  EXPECT_EQ(least.setting.rule.down.stabilisation, Seconds{300});
  AutoscaleBody partly;
  EXPECT_THAT(faults_of(R"({"target":1,"max":3,"down":{"step":2}})", partly), ElementsAre());
  EXPECT_EQ(partly.setting.rule.down.stabilisation, Seconds{300}) << "what is absent is default";
  EXPECT_EQ(partly.setting.rule.down.step, 2);
}

TEST(AutoscaleBody, AQueryGoesWithItsSource) {
  AutoscaleBody body;
  body.setting.source = MetricSource::Prometheus;
  body.setting.prometheus = {"http://a:9090", "sum(up)", Seconds{0.5}};
  body.setting.rule.max = 3;
  AutoscaleBody back;
  EXPECT_THAT(faults_of(to_text(to_json(body)), back), ElementsAre());
  EXPECT_EQ(back.setting.prometheus, body.setting.prometheus);
  EXPECT_THAT(bad(R"({"target":1,"max":3,"source":"prometheus"})"), ElementsAre("/url", "/query"));
  EXPECT_THAT(bad(R"({"target":1,"max":3,"url":"http://a","query":"up","query_timeout_s":1})"),
              ElementsAre("/url", "/query", "/query_timeout_s"));
  EXPECT_THAT(bad(R"({"target":1,"max":3,"source":"prometheus","url":"http://a","query":"up",
                      "query_timeout_s":60})"),
              ElementsAre("/query_timeout_s"));
}

TEST(AutoscaleBody, BadInput) {
  EXPECT_THAT(bad("{}"), ElementsAre("/target", "/max"));
  EXPECT_THAT(bad(R"({"target":0,"max":3})"), ElementsAre("/target"));
  EXPECT_THAT(bad(R"({"target":1,"min":4,"max":3})"), ElementsAre("/max"));
  EXPECT_THAT(bad(R"({"target":1,"max":2000})"), ElementsAre("/max"));
  EXPECT_THAT(bad(R"({"target":1,"max":3,"source":"moon"})"), ElementsAre("/source"));
  EXPECT_THAT(bad(R"({"target":1,"max":3,"up":{"step":-1,"speed":2}})"),
              ElementsAre("/up/step", "/up/speed"));
  EXPECT_THAT(bad(R"({"target":1,"max":3,"tolerance":1,"cooldown_s":3})"),
              ElementsAre("/tolerance", "/cooldown_s"));
  MetricBody metric;
  EXPECT_THAT(faults_of(R"({"value":-1})", metric), ElementsAre("/value"));
  EXPECT_THAT(faults_of("{}", metric), ElementsAre("/value"));
  EXPECT_THAT(faults_of(R"({"value":2.5})", metric), ElementsAre());
  EXPECT_EQ(metric.value, 2.5);
}

TEST(Autoscaler, WhatIsNotKnownIsNull) {
  Autoscaler row;
  row.pool = PoolId{"demo"};
  const Json before = to_json(row);
  for (const char* name :
       {"posted", "posted_at", "looked", "metric", "desired", "reason", "operation"}) {
    EXPECT_TRUE(before[name].is_null()) << name;
  }
  row.posted = 0;
  row.looked = WallTime{1};
  row.desired = 2;
  row.operation = OperationId{"op-3"};
  const Json after = to_json(row);
  EXPECT_EQ(after["posted"], 0.0);
  EXPECT_EQ(after["desired"], 2);
  EXPECT_EQ(after["operation"], "op-3");
}

}  // namespace
}  // namespace mare::wire
