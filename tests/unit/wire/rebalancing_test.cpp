#include "rest/wire/rebalancing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::wire {
namespace {

using testing::ElementsAre;

std::vector<std::string> faults_of(const std::string& text, RebalancingBody& body) {
  Faults faults;
  if (auto json = parse_json(text, faults)) read(*json, body, faults);
  std::vector<std::string> where;
  for (const auto& fault : faults) where.push_back(fault.pointer);
  return where;
}
std::vector<std::string> faults_in(const std::string& text) {
  RebalancingBody body;
  return faults_of(text, body);
}

TEST(RebalancingBody, RoundTripAndDefaults) {
  RebalancingBody body;
  body.setting = {RebalanceMode::Automatic,
                  0.25,
                  Seconds{1},
                  0.5,
                  Seconds{2},
                  3,
                  Seconds{4},
                  {{PoolId{"demo"}, RebalanceMode::Partial}}};
  RebalancingBody back;
  EXPECT_THAT(faults_of(to_text(to_json(body)), back), ElementsAre());
  EXPECT_EQ(to_json(back), to_json(body));
  EXPECT_EQ(back.setting.pools.at(PoolId{"demo"}), RebalanceMode::Partial);
  RebalancingBody least;
  EXPECT_THAT(faults_of(R"({"mode":"partial"})", least), ElementsAre());
  EXPECT_EQ(least.setting.mode, RebalanceMode::Partial);
  EXPECT_EQ(least.setting.cooldown, Seconds{300});
  EXPECT_EQ(least.setting.max_moves, 4);
}

TEST(RebalancingBody, BadInput) {
  EXPECT_THAT(faults_in("{}"), ElementsAre("/mode"));
  EXPECT_THAT(faults_in(R"({"mode":"often"})"), ElementsAre("/mode"));
  EXPECT_THAT(
      faults_in(R"({"mode":"manual","threshold":-1,"margin":1,"max_moves":1.5,"hold_s":1e9})"),
      ElementsAre("/threshold", "/hold_s", "/margin", "/max_moves"));
  EXPECT_THAT(faults_in(R"({"mode":"manual","pools":{"a":"never"},"speed":1})"),
              ElementsAre("/pools/a", "/speed"));
  EXPECT_THAT(faults_in(R"({"mode":"manual","pools":[]})"), ElementsAre("/pools"));
}

TEST(Rebalancing, WhatIsNotKnownIsNull) {
  Rebalancing row;
  const Json before = to_json(row);
  for (const char* name : {"looked", "score", "broken_rules", "above_since", "reason", "operation",
                           "ended", "proposal"}) {
    EXPECT_TRUE(before[name].is_null()) << name;
  }
  row.looked = WallTime{1};
  row.proposal = RebalanceProposal{};
  row.proposal->moves.push_back({VmId{"demo-0"}, HostId{"h1"}, HostId{"h2"}, 2, 3, "why"});
  Json after = to_json(row);
  EXPECT_EQ(after["score"], 0.0);
  EXPECT_TRUE(after["proposal"]["moves"][0]["added_job_time_s"].is_null()) << "not forecast";
  row.proposal->operation = OperationId{"op-3"};
  after = to_json(row);
  EXPECT_EQ(after["proposal"]["moves"][0]["added_job_time_s"], 2.0);
  EXPECT_EQ(after["proposal"]["operation"], "op-3");
}

}  // namespace
}  // namespace mare::wire
