#include "rest/wire/bodies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::wire {
namespace {

template <typename Body>
Body good(const std::string& text) {
  Faults faults;
  Body body;
  auto json = parse_json(text, faults);
  if (json) read(*json, body, faults);
  EXPECT_TRUE(faults.empty()) << text << ": " << faults[0].pointer << " " << faults[0].detail;
  return body;
}

template <typename Body>
std::vector<std::string> bad(const std::string& text) {
  Faults faults;
  Body body;
  auto json = parse_json(text, faults);
  if (json) read(*json, body, faults);
  std::vector<std::string> where;
  for (const auto& fault : faults) {
    // Every fault says what to write instead.
    EXPECT_THAT(fault.detail, testing::ContainsRegex("[;]")) << text;
    where.push_back(fault.pointer);
  }
  return where;
}

using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST(HostBody, RoundTrip) {
  const HostBody body{HostId{"h1"}, "10.77.0.11:7412"};
  const auto back = good<HostBody>(to_text(to_json(body)));
  EXPECT_EQ(back.id, body.id);
  EXPECT_EQ(back.address, body.address);
}

TEST(HostBody, BadInput) {
  EXPECT_THAT(bad<HostBody>("{}"), ElementsAre("/id", "/address"));
  EXPECT_THAT(bad<HostBody>(R"({"id":"H 1","address":""})"), ElementsAre("/id", "/address"));
  EXPECT_THAT(bad<HostBody>(R"({"id":"../etc","address":"a"})"), ElementsAre("/id"));
  EXPECT_THAT(bad<HostBody>(R"({"id":"h1","adress":"a"})"), ElementsAre("/address", "/adress"));
  EXPECT_THAT(bad<HostBody>("[]"), ElementsAre(""));
  EXPECT_THAT(bad<HostBody>("null"), ElementsAre(""));
}

TEST(PoolBody, RoundTripAndDefaults) {
  PoolBody body{PoolId{"demo"}, "hpc", 4, mebibytes(256), 2, {HostId{"h1"}, HostId{"h2"}}};
  const auto back = good<PoolBody>(to_text(to_json(body)));
  EXPECT_EQ(back.image, "hpc");
  EXPECT_EQ(back.size, 4);
  EXPECT_EQ(back.memory, mebibytes(256));
  EXPECT_EQ(back.vcpus, 2);
  EXPECT_EQ(back.hosts, body.hosts);
  const auto least = good<PoolBody>(R"({"id":"p"})");
  EXPECT_EQ(least.size, 1);
  EXPECT_EQ(least.memory, mebibytes(192));
  EXPECT_EQ(least.image, "base");
  EXPECT_EQ(least.project.value, "default");
  EXPECT_EQ(good<PoolBody>(R"({"id":"p","project":"physics"})").project.value, "physics");
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","project":"A b"})"), ElementsAre("/project"));
}

TEST(PoolBody, BadInput) {
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","size":0})"), ElementsAre("/size"));
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","size":-3,"memory_mib":1.5,"vcpus":"2"})"),
              ElementsAre("/size", "/memory_mib", "/vcpus"));
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","memory_mib":1e99})"), ElementsAre("/memory_mib"));
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","hosts":["h1","h1"]})"), ElementsAre("/hosts"));
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","hosts":"h1"})"), ElementsAre("/hosts"));
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","memory":192})"), ElementsAre("/memory"));
}

TEST(PoolBody, APolicyIsReadLikeAMigrations) {
  const auto body = good<PoolBody>(
      R"({"id":"p","move_policy":{"priority":"least-traffic","downtime_limit_ms":200}})");
  EXPECT_EQ(body.move_policy.priority, Priority::LeastTraffic);
  EXPECT_EQ(good<PoolBody>(to_text(to_json(body))).move_policy.downtime_limit, Milliseconds{200});
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","move_policy":{"at_limit":"x","timeout_s":3}})"),
              ElementsAre("/move_policy/at_limit", "/move_policy/timeout_s"));
  EXPECT_THAT(bad<PoolBody>(R"({"id":"p","move_policy":[]})"), ElementsAre("/move_policy"));
}

TEST(PoolPatchBody, WhatIsAbsentStaysAndNullIsTheDefault) {
  MovePolicy before;
  before.bandwidth_limit = BytesPerSecond{1e7};
  before.time_limit = Seconds{9};
  before.at_limit = LimitAction::PostCopy;
  const auto patch = [&](const std::string& policy) {
    const auto body = good<PoolPatchBody>(R"({"move_policy":)" + policy + "}");
    const auto again = good<PoolPatchBody>(to_text(to_json(body)));
    EXPECT_FALSE(again.size);
    return changed(before, again.move_policy.value());
  };
  EXPECT_EQ(patch("{}").bandwidth_limit, before.bandwidth_limit);
  const MovePolicy less = patch(R"({"bandwidth_limit_bytes_per_s":null,"at_limit":null})");
  EXPECT_FALSE(less.bandwidth_limit);
  EXPECT_EQ(less.at_limit, LimitAction::Cancel);
  EXPECT_EQ(less.time_limit, before.time_limit);
  EXPECT_EQ(patch(R"({"time_limit_s":3})").time_limit, Seconds{3});
}

TEST(PoolPatchBody, ASizeOrAPolicy) {
  const auto body = good<PoolPatchBody>(R"({"size":3})");
  EXPECT_EQ(body.size, 3);
  EXPECT_FALSE(body.best_effort);
  EXPECT_FALSE(body.move_policy);
  const auto again = good<PoolPatchBody>(to_text(to_json({{}, 8, true})));
  EXPECT_EQ(again.size, 8);
  EXPECT_TRUE(again.best_effort);
  EXPECT_THAT(bad<PoolPatchBody>("{}"), ElementsAre(""));
  EXPECT_THAT(bad<PoolPatchBody>(R"({"move_policy":{},"size":3})"), ElementsAre("/size"));
  EXPECT_THAT(bad<PoolPatchBody>(R"({"best_effort":true})"), ElementsAre("/best_effort"));
  EXPECT_THAT(bad<PoolPatchBody>(R"({"size":0,"best_effort":1})"),
              ElementsAre("/size", "/best_effort"));
  EXPECT_THAT(bad<PoolPatchBody>(R"({"size":2.5})"), ElementsAre("/size"));
  EXPECT_THAT(bad<PoolPatchBody>(R"({"count":2})"), UnorderedElementsAre("", "/count"));
}

TEST(MigrationBody, RoundTripAndDefaults) {
  MigrationBody body{HostId{"h3"}, {}, Seconds{60}, true};
  body.policy.priority = Priority::Manual;
  body.policy.strategy = Strategy::Hybrid;
  body.policy.bandwidth_limit = BytesPerSecond{5e7};
  body.policy.downtime_limit = Milliseconds{300};
  body.policy.time_limit.emplace();  // none, whatever the pool says
  body.policy.at_limit = LimitAction::PostCopy;
  body.policy.drop_page_cache = true;
  body.policy.knobs.emplace();
  body.policy.knobs->rate_gain = 1.5;
  body.policy.knobs->pre_copy_rounds = 3;
  const auto back = good<MigrationBody>(to_text(to_json(body)));
  EXPECT_EQ(back.destination, body.destination);
  EXPECT_EQ(back.policy.priority, body.policy.priority);
  EXPECT_EQ(back.policy.strategy, body.policy.strategy);
  EXPECT_EQ(back.policy.bandwidth_limit, body.policy.bandwidth_limit);
  EXPECT_EQ(back.policy.downtime_limit, body.policy.downtime_limit);
  ASSERT_TRUE(back.policy.time_limit);
  EXPECT_FALSE(*back.policy.time_limit);
  EXPECT_EQ(back.policy.at_limit, body.policy.at_limit);
  EXPECT_EQ(back.policy.drop_page_cache, true);
  EXPECT_EQ(back.policy.knobs, body.policy.knobs);
  EXPECT_EQ(good<MigrationBody>(R"({"knobs":null})").policy.knobs, Knobs{}) << "stated: none";
  EXPECT_EQ(back.timeout, body.timeout);
  EXPECT_TRUE(back.force);
  const auto least = good<MigrationBody>("{}");
  EXPECT_FALSE(least.force);
  EXPECT_FALSE(least.destination);
  EXPECT_FALSE(least.policy.priority || least.policy.strategy || least.policy.bandwidth_limit ||
               least.policy.downtime_limit || least.policy.time_limit || least.policy.at_limit ||
               least.policy.knobs);
  EXPECT_EQ(least.timeout, Seconds{600});
  EXPECT_FALSE(good<MigrationBody>(R"({"destination":null})").destination);
}

TEST(MigrationBody, BadInput) {
  EXPECT_THAT(bad<MigrationBody>(R"({"knobs":{"pre_copy_rounds":1.5,"rate_gain":-1,"speed":2}})"),
              UnorderedElementsAre("/knobs/pre_copy_rounds", "/knobs/rate_gain", "/knobs/speed"));
  EXPECT_THAT(bad<MigrationBody>(R"({"knobs":3})"), ElementsAre("/knobs"));
  EXPECT_THAT(bad<MigrationBody>(R"({"destination":3})"), ElementsAre("/destination"));
  EXPECT_THAT(
      bad<MigrationBody>(R"({"bandwidth_limit_bytes_per_s":-1,"downtime_limit_ms":0,
                                     "timeout_s":1e9,"to":"h3"})"),
      ElementsAre("/bandwidth_limit_bytes_per_s", "/downtime_limit_ms", "/timeout_s", "/to"));
  EXPECT_THAT(
      bad<MigrationBody>(R"({"strategy":"teleport","at_limit":"explode","time_limit_s":0})"),
      UnorderedElementsAre("/strategy", "/at_limit", "/time_limit_s"));
}

TEST(MigrationBody, AMomentHasItsDeadline) {
  EXPECT_EQ(good<MigrationBody>("{}").timing.moment, Moment::Now);
  const auto trough = good<MigrationBody>(R"({"moment":"trough","within_s":90})");
  EXPECT_EQ(trough.timing.moment, Moment::Trough);
  EXPECT_EQ(good<MigrationBody>(to_text(to_json(trough))).timing.within, Seconds{90});
  const auto safe = good<MigrationBody>(R"({"moment":"safe-point"})");
  EXPECT_EQ(safe.timing.moment, Moment::SafePoint);
  EXPECT_EQ(safe.timing.within, Seconds{5});
  EXPECT_EQ(good<MigrationBody>(R"({"moment":"trough"})").timing.within, Seconds{600});
  EXPECT_THAT(bad<MigrationBody>(R"({"moment":"full moon"})"), ElementsAre("/moment"));
  EXPECT_THAT(bad<MigrationBody>(R"({"within_s":90})"), ElementsAre("/within_s"));
  EXPECT_THAT(bad<MigrationBody>(R"({"moment":"trough","within_s":0})"), ElementsAre("/within_s"));
}

TEST(MigrationBody, WhatIsNoWordIsAFault) {
  const auto chosen = good<MigrationBody>(R"({"priority":"least-traffic"})");
  EXPECT_EQ(chosen.policy.priority, Priority::LeastTraffic);
  EXPECT_EQ(good<MigrationBody>(to_text(to_json(chosen))).policy.priority, Priority::LeastTraffic);
  EXPECT_THAT(bad<MigrationBody>(R"({"priority":"fast"})"), ElementsAre("/priority"));
  EXPECT_THAT(bad<MigrationBody>(R"({"force":"yes"})"), ElementsAre("/force"));
}

TEST(DrainBody, RoundTripAndBadInput) {
  DrainBody body;
  body.policy.priority = Priority::LeastTraffic;
  body.policy.bandwidth_limit = BytesPerSecond{5e7};
  body.policy.downtime_limit.emplace();  // none, whatever the pools say
  const auto back = good<DrainBody>(to_text(to_json(body)));
  EXPECT_EQ(back.policy.priority, body.policy.priority);
  EXPECT_EQ(back.policy.bandwidth_limit, body.policy.bandwidth_limit);
  EXPECT_EQ(back.policy.downtime_limit, body.policy.downtime_limit);
  EXPECT_FALSE(back.policy.strategy || back.policy.time_limit || back.policy.at_limit);
  EXPECT_EQ(to_text(to_json(good<DrainBody>("{}"))), "{}");
  EXPECT_THAT(bad<DrainBody>(R"({"priority":"fast","time_limit_s":0,"now":true})"),
              UnorderedElementsAre("/priority", "/time_limit_s", "/now"));
}

TEST(ReportBody, RoundTripAndBadInput) {
  EXPECT_DOUBLE_EQ(good<ReportBody>(to_text(to_json(ReportBody{-0.25}))).added_job_time_s, -0.25);
  EXPECT_THAT(bad<ReportBody>("{}"), ElementsAre("/added_job_time_s"));
  EXPECT_THAT(bad<ReportBody>(R"({"added_job_time_s":1e300})"), ElementsAre("/added_job_time_s"));
  EXPECT_THAT(bad<ReportBody>(R"({"added_job_time_s":1,"vm":"x"})"), ElementsAre("/vm"));
}

TEST(JobBody, RoundTrip) {
  const JobBody body{PoolId{"demo"}, "ring", {"/opt/x", "-n", "", "ü"}, {"A=1", "B="}, 3};
  const auto back = good<JobBody>(to_text(to_json(body)));
  EXPECT_EQ(back.pool, body.pool);
  EXPECT_EQ(back.name, body.name);
  EXPECT_EQ(back.command, body.command);
  EXPECT_EQ(back.environment, body.environment);
  EXPECT_EQ(back.ranks, 3);
}

TEST(JobBody, CheckpointsThereAndBack) {
  JobBody body{PoolId{"demo"}, "", {"/opt/x"}, {}, 1};
  for (const CheckpointPlan& plan :
       {CheckpointPlan{}, CheckpointPlan{CheckpointRule::Every, Seconds{1.5}, 9},
        CheckpointPlan{CheckpointRule::Optimal, Seconds{0}, 1, CheckpointMode::Full, 3,
                       Seconds{86'400}},
        CheckpointPlan{.safe_points = true, .safe_point_wait = Seconds{2.5}},
        CheckpointPlan{.partner = true}}) {
    body.checkpoints = plan;
    const auto back = good<JobBody>(to_text(to_json(body)));
    EXPECT_EQ(back.checkpoints.rule, plan.rule);
    EXPECT_EQ(back.checkpoints.every, plan.every);
    EXPECT_EQ(back.checkpoints.keep, plan.keep);
    EXPECT_EQ(back.checkpoints.safe_points, plan.safe_points);
    EXPECT_EQ(back.checkpoints.safe_point_wait, plan.safe_point_wait);
    EXPECT_EQ(back.checkpoints.mode, plan.mode);
    EXPECT_EQ(back.checkpoints.chain, plan.chain);
    EXPECT_EQ(back.checkpoints.max_age, plan.max_age);
    EXPECT_EQ(back.checkpoints.partner, plan.partner);
  }
  const auto every = good<JobBody>(R"({"pool":"p","command":["a"],"checkpoint_every_s":60})");
  EXPECT_EQ(every.checkpoints.rule, CheckpointRule::Every) << "said by the interval alone";
  EXPECT_EQ(every.checkpoints.keep, kCheckpointsKept);
  EXPECT_EQ(every.checkpoints.mode, CheckpointMode::Incremental);
  EXPECT_EQ(every.checkpoints.chain, kCheckpointChain);
}

TEST(RestartBody, ThereAndBackAndBadInput) {
  const auto back = good<RestartBody>(
      to_text(to_json(RestartBody{CheckpointId{"ck-3"}, {HostId{"h1"}, HostId{"h2"}}})));
  EXPECT_EQ(back.checkpoint, CheckpointId{"ck-3"});
  EXPECT_EQ(back.hosts.size(), 2U);
  EXPECT_FALSE(back.eager);
  EXPECT_FALSE(to_json(RestartBody{}).contains("eager")) << "a server of the version before";
  EXPECT_TRUE(good<RestartBody>(to_text(to_json(RestartBody{{}, {}, true}))).eager);
  EXPECT_FALSE(good<RestartBody>("{}").checkpoint);
  EXPECT_THAT(bad<RestartBody>(R"({"checkpoint":""})"), ElementsAre("/checkpoint"));
  EXPECT_THAT(bad<RestartBody>(R"({"hosts":["h1","h1"]})"), ElementsAre("/hosts"));
  EXPECT_THAT(bad<RestartBody>(R"({"eager":"yes"})"), ElementsAre("/eager"));
}

TEST(JobBody, BadInput) {
  const std::string job = R"({"pool":"p","command":["a"],)";
  EXPECT_THAT(bad<JobBody>(job + R"("checkpoint_rule":"every"})"),
              ElementsAre("/checkpoint_every_s"));
  EXPECT_THAT(bad<JobBody>(job + R"("checkpoint_rule":"never","checkpoint_every_s":9})"),
              ElementsAre("/checkpoint_every_s"));
  EXPECT_THAT(bad<JobBody>(job + R"("checkpoint_rule":"now","checkpoints_kept":101})"),
              ElementsAre("/checkpoints_kept", "/checkpoint_rule"));
  EXPECT_THAT(bad<JobBody>(job + R"("safe_points":1})"), ElementsAre("/safe_points"));
  EXPECT_THAT(bad<JobBody>(job + R"("safe_points":true,"safe_point_wait_s":61})"),
              ElementsAre("/safe_point_wait_s"));
  EXPECT_THAT(bad<JobBody>(job + R"("safe_point_wait_s":2})"), ElementsAre("/safe_point_wait_s"))
      << "nobody waits without safe points";
  EXPECT_THAT(bad<JobBody>(job + R"("checkpoint_mode":"some","checkpoint_chain":0,)"
                                 R"("checkpoints_max_age_s":59})"),
              ElementsAre("/checkpoint_mode", "/checkpoint_chain", "/checkpoints_max_age_s"));
  EXPECT_THAT(bad<JobBody>(job + R"("checkpoint_partner":"h2"})"),
              ElementsAre("/checkpoint_partner"))
      << "which host is not for the user to say";
  for (const char* wrong : {"-0.1", "1.01", "\"loose\""}) {
    EXPECT_THAT(bad<JobBody>(job + R"("tightness":)" + wrong + "}"), ElementsAre("/tightness"));
  }
  EXPECT_THAT(bad<JobBody>("{}"), ElementsAre("/pool", "/command"));
  EXPECT_THAT(bad<JobBody>(R"({"pool":"p","command":[]})"), ElementsAre("/command"));
  EXPECT_THAT(bad<JobBody>(R"({"pool":"p","command":[""]})"), ElementsAre("/command"));
  EXPECT_THAT(bad<JobBody>(R"({"pool":"p","command":"ls -l"})"), ElementsAre("/command"));
  EXPECT_THAT(bad<JobBody>(R"({"pool":"p","command":["a",1]})"), ElementsAre("/command/1"));
  EXPECT_THAT(bad<JobBody>(R"({"pool":"p","command":["a\u0000b"]})"), ElementsAre("/command/0"));
  EXPECT_THAT(bad<JobBody>(R"({"pool":"p","command":["a"],"ranks":0})"), ElementsAre("/ranks"));
  EXPECT_THAT(bad<JobBody>(R"({"pool":"p","command":["a"],"environment":["X","=1","Y=2"]})"),
              ElementsAre("/environment", "/environment"));
}

TEST(VmBodies, RoundTripAndBadInput) {
  EXPECT_EQ(good<VmStartBody>(to_text(to_json(VmStartBody{HostId{"h2"}}))).host, HostId{"h2"});
  EXPECT_FALSE(good<VmStartBody>("{}").host);
  EXPECT_TRUE(good<VmStopBody>(to_text(to_json(VmStopBody{true}))).force);
  EXPECT_THAT(bad<VmStopBody>(R"({"force":1})"), ElementsAre("/force"));
  EXPECT_THAT(bad<VmStartBody>(R"({"host":""})"), ElementsAre("/host"));
  EXPECT_THAT(bad<EmptyBody>(R"({"force":true})"), ElementsAre("/force"));
}

TEST(LayoutBody, RoundTripAndBadInput) {
  LayoutBody body;
  body.hosts = 3;
  body.remaining = Seconds{12.5};
  body.force = true;
  const auto back = good<LayoutBody>(to_text(to_json(body)));
  EXPECT_EQ(back.hosts, 3);
  EXPECT_EQ(back.remaining, Seconds{12.5});
  EXPECT_TRUE(back.force);
  const auto empty = good<LayoutBody>("{}");
  EXPECT_FALSE(empty.hosts);
  EXPECT_FALSE(empty.remaining);
  EXPECT_FALSE(empty.force);
  EXPECT_FALSE(good<LayoutBody>(to_text(to_json(LayoutBody{}))).hosts) << "null says nothing";
  EXPECT_THAT(bad<LayoutBody>(R"({"hosts":0,"remaining_s":-1,"force":1,"host":2})"),
              UnorderedElementsAre("/hosts", "/remaining_s", "/force", "/host"));
}

}  // namespace
}  // namespace mare::wire
