#include "orchestrator/engine/move_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mare::engine {
namespace {

TEST(MovePolicy, EveryFieldIsKept) {
  MovePolicy policy;
  policy.priority = Priority::ByDeadline;
  policy.strategy = Strategy::RateControlled;
  policy.bandwidth_limit = BytesPerSecond{12.5e6};
  policy.downtime_limit = Milliseconds{250};
  policy.time_limit = Seconds{7.5};
  policy.at_limit = LimitAction::StopAndCopy;
  policy.drop_page_cache = true;
  policy.knobs.rate_min = 2.5e6;
  policy.knobs.throttle_step = 7;
  const auto back = move_policy_from(text_of(policy));
  EXPECT_EQ(back.priority, policy.priority);
  EXPECT_EQ(back.strategy, policy.strategy);
  EXPECT_EQ(back.bandwidth_limit, policy.bandwidth_limit);
  EXPECT_EQ(back.downtime_limit, policy.downtime_limit);
  EXPECT_EQ(back.time_limit, policy.time_limit);
  EXPECT_EQ(back.at_limit, policy.at_limit);
  EXPECT_TRUE(back.drop_page_cache);
  EXPECT_EQ(back.knobs, policy.knobs);
}

TEST(MovePolicy, AChangeKeepsWhatItStatesAndNoMore) {
  PolicyChange change;
  change.priority = Priority::LeastTraffic;
  change.bandwidth_limit = BytesPerSecond{12.5e6};
  change.time_limit.emplace();  // stated to be none
  change.drop_page_cache = false;
  const auto back = policy_change_from(text_of(change));
  EXPECT_EQ(back.priority, change.priority);
  EXPECT_EQ(back.bandwidth_limit, change.bandwidth_limit);
  EXPECT_EQ(back.time_limit, change.time_limit);
  EXPECT_EQ(back.drop_page_cache, false);
  EXPECT_FALSE(back.strategy || back.downtime_limit || back.at_limit || back.knobs);
  change.knobs.emplace();
  EXPECT_EQ(policy_change_from(text_of(change)).knobs, Knobs{}) << "stated to be none";
  change.knobs->pre_copy_rounds = 3;
  EXPECT_EQ(policy_change_from(text_of(change)).knobs, change.knobs);
  for (const PolicyChange& all :
       {default_policy(), policy_change_from(text_of(default_policy()))}) {
    EXPECT_TRUE(all.priority && all.strategy && all.bandwidth_limit && all.downtime_limit &&
                all.time_limit && all.at_limit && all.drop_page_cache && all.knobs);
    EXPECT_FALSE(*all.strategy || *all.downtime_limit);
  }
  EXPECT_EQ(text_of(policy_change_from("force")), "{}");
}

TEST(MovePolicy, TheMomentIsKeptBesideIt) {
  const auto back = timing_from(text_of({}, true, {Moment::Trough, Seconds{75}}));
  EXPECT_EQ(back.moment, Moment::Trough);
  EXPECT_EQ(back.within, Seconds{75});
  EXPECT_EQ(timing_from(text_of(MovePolicy{})).moment, Moment::Now);
  EXPECT_EQ(timing_from("force").moment, Moment::Now);
}

/// Operations of an earlier version kept nothing.
TEST(MovePolicy, WhatIsMissingIsTheDefault) {
  for (const char* text :
       {"", "force", "[]", "{}", R"({"strategy":"teleport","time_limit_s":"x"})"}) {
    const auto policy = move_policy_from(text);
    EXPECT_FALSE(policy.strategy) << text;
    EXPECT_FALSE(policy.time_limit) << text;
    EXPECT_EQ(policy.at_limit, LimitAction::Cancel) << text;
  }
}

TEST(MovePolicy, OfNoStrategyPlainPreCopyComes) {
  EXPECT_EQ(sending_for({}).strategy, Strategy::PreCopy);
  EXPECT_FALSE(sending_for({}).allow_post_copy);
}

TEST(MovePolicy, PostCopyAtTheLimitIsAllowedFromTheStart) {
  MovePolicy policy;
  policy.at_limit = LimitAction::PostCopy;
  EXPECT_FALSE(sending_for(policy).allow_post_copy) << "there is no limit to reach";
  policy.time_limit = Seconds{10};
  EXPECT_TRUE(sending_for(policy).allow_post_copy);
}

TEST(MovePolicy, RateControlKeepsWithinTheBandwidthLimit) {
  MovePolicy policy;
  policy.strategy = Strategy::RateControlled;
  policy.bandwidth_limit = BytesPerSecond{40e6};
  const auto sending = sending_for(policy);
  EXPECT_EQ(sending.rate_max, *policy.bandwidth_limit);
  EXPECT_LT(sending.rate_min, sending.rate_max);
  EXPECT_GT(sending.rate_min.value, 0);
}

TEST(MovePolicy, KnobsAreOfTheStrategyThatIsNamed) {
  const auto refused = [](MovePolicy policy, auto set) {
    set(policy.knobs);
    const Status status = check(policy);
    EXPECT_FALSE(status.ok());
    if (status) return std::string();
    EXPECT_EQ(status.error().field, "knobs");
    EXPECT_FALSE(status.error().remedy.empty());
    return status.error().message;
  };
  MovePolicy policy;
  EXPECT_NE(refused(policy, [](Knobs& k) { k.rate_gain = 1; })
                .find("'rate_gain' is a knob of rate-controlled"),
            std::string::npos);
  policy.priority = Priority::Manual;
  policy.strategy = Strategy::Throttled;
  refused(policy, [](Knobs& k) { k.rate_gain = 1; });
  for (const double wrong : {0.0, 100.0, 20.5, -1.0}) {
    refused(policy, [wrong](Knobs& k) { k.throttle_initial = wrong; });
  }
  policy.knobs.throttle_initial = 99;
  EXPECT_TRUE(check(policy).ok());
  EXPECT_EQ(sending_for(policy).throttle_initial_percent, 99);
  policy = {};
  policy.priority = Priority::Manual;
  policy.strategy = Strategy::RateControlled;
  policy.knobs.rate_min = 20e6;
  EXPECT_TRUE(check(policy).ok());
  refused(policy, [](Knobs& k) { k.rate_max = 19e6; });
  refused(policy, [](Knobs& k) { k.rate_max = 1000; });
  policy.bandwidth_limit = BytesPerSecond{10e6};
  refused(policy, [](Knobs&) {});
}

TEST(MovePolicy, WhatCanNotBeGrantedNamesItsField) {
  MovePolicy policy;
  EXPECT_TRUE(check(policy).ok());
  policy.downtime_limit = Milliseconds{0};
  EXPECT_EQ(check(policy).error().field, "downtime_limit_ms");
  policy = {};
  policy.strategy = Strategy::CheckpointRestart;
  EXPECT_TRUE(check(policy).ok());
  policy.at_limit = LimitAction::PostCopy;
  EXPECT_EQ(check(policy).error().field, "at_limit");
  policy.at_limit = LimitAction::StopAndCopy;
  EXPECT_TRUE(check(policy).ok());
  policy.bandwidth_limit = BytesPerSecond{10e6};
  EXPECT_EQ(check(policy).error().field, "bandwidth_limit_bytes_per_s");
  policy = {};
  policy.priority = Priority::Manual;
  EXPECT_EQ(check(policy).error().field, "priority");
  policy = {};
  policy.strategy = Strategy::Compressed;
  EXPECT_TRUE(check(policy).ok());
  policy.at_limit = LimitAction::PostCopy;
  EXPECT_EQ(check(policy).error().field, "at_limit");
}

TEST(MovePolicy, CheckpointRestartIsComposedWhereThereAreCapturesAndStorage) {
  HostFacts facts;
  facts.strategies = {Strategy::StopAndCopy};
  const auto composed = [&](const std::string& checkpoints) {
    const auto all = strategies_with(facts, checkpoints);
    EXPECT_EQ(all.front(), Strategy::StopAndCopy);
    return std::count(all.begin(), all.end(), Strategy::CheckpointRestart);
  };
  EXPECT_EQ(composed("/store"), 0) << "an older agent";
  facts.captures_to_leave = true;
  EXPECT_EQ(composed("/store"), 1);
  EXPECT_EQ(composed(""), 0) << "nowhere to put the file";
  facts.strategies.push_back(Strategy::CheckpointRestart);
  EXPECT_EQ(composed("/store"), 1) << "once is enough";
  facts.strategies.pop_back();
  facts.migration_tls = true;
  EXPECT_EQ(composed("/store"), 0) << "the file would not be encrypted";
}

}  // namespace
}  // namespace mare::engine
