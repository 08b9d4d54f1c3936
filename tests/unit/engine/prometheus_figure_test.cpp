#include "orchestrator/engine/prometheus_figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::engine {
namespace {

using testing::HasSubstr;

HttpAnswer success(const std::string& type, const std::string& result) {
  return {200, R"({"status":"success","data":{"resultType":")" + type + R"(","result":)" + result +
                   "}}"};
}
std::string why(const HttpAnswer& answer) {
  const auto figure = prometheus_figure(answer);
  return figure ? "figure " + std::to_string(*figure) : figure.error().text();
}
std::string sample(const std::string& value) {
  return R"([{"metric":{"a":"b"},"value":[1700000000.5,")" + value + "\"]}]";
}

TEST(PrometheusFigure, AScalarOrTheOnlySample) {
  EXPECT_EQ(*prometheus_figure(success("scalar", R"([1700000000,"2.5"])")), 2.5);
  EXPECT_EQ(*prometheus_figure(success("vector", sample("1e3"))), 1000);
  EXPECT_EQ(*prometheus_figure(success("vector", sample("0"))), 0);
}

TEST(PrometheusFigure, WhatIsNoneSaysWhy) {
  EXPECT_THAT(why(success("vector", "[]")), HasSubstr("no sample"));
  const std::string one = sample("1");
  const std::string two = one.substr(0, one.size() - 1) + "," + one.substr(1);
  EXPECT_THAT(why(success("vector", two)), HasSubstr("2 samples"));
  EXPECT_THAT(why(success("vector", sample("NaN"))), HasSubstr("'NaN'"));
  EXPECT_THAT(why(success("vector", sample("+Inf"))), HasSubstr("'+Inf'"));
  EXPECT_THAT(why(success("vector", sample("-1"))), HasSubstr("is -1"));
  EXPECT_THAT(why(success("vector", sample("1x"))), HasSubstr("'1x'"));
  EXPECT_THAT(why(success("matrix", "[]")), HasSubstr("a matrix"));
  EXPECT_THAT(why(success("scalar", "[1]")), HasSubstr("no pair"));
  EXPECT_THAT(why(success("vector", "[3]")), HasSubstr("no pair"));
  EXPECT_THAT(why(success("vector", "{}")), HasSubstr("without samples"));
}

TEST(PrometheusFigure, ErrorsOfTheServer) {
  EXPECT_THAT(
      why({400, R"({"status":"error","errorType":"bad_data","error":"parse error: unexpected"})"}),
      HasSubstr("HTTP 400: parse error: unexpected"));
  EXPECT_THAT(why({503, ""}), HasSubstr("HTTP 503: no reason given"));
  EXPECT_THAT(why({302, "moved"}), HasSubstr("HTTP 302: moved"));
  EXPECT_THAT(why({200, "<html>"}), HasSubstr("no answer of its API: <html>"));
  EXPECT_THAT(why({200, R"({"status":"success"})"}), HasSubstr("no answer of its API"));
  EXPECT_THAT(why({200, R"([])"}), HasSubstr("no answer of its API"));
  EXPECT_THAT(why({200, R"({"status":"success","data":7})"}), HasSubstr("no answer of its API"));
  const std::string longest = why({500, std::string(5000, 'x') + "\n"});
  EXPECT_LT(longest.size(), 300U);
  EXPECT_EQ(longest.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace mare::engine
