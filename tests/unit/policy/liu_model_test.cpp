#include "orchestrator/policy/liu_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace mare::policy::liu {
namespace {

Input usual() {
  Input out;
  out.memory_bytes = 1000;
  out.rate = 100;
  out.dirty_rate = 50;
  out.wws_bytes = 1000;
  out.stop_bytes = 100;
  out.resume_s = 0;
  return out;
}

TEST(Liu, HalvesTheRestEachRound) {
  // 1000, 500, 250, 125, 62.5 (stopped).
  const Output out = forecast(usual());
  EXPECT_TRUE(out.converges);
  EXPECT_EQ(out.rounds, 4);
  EXPECT_DOUBLE_EQ(out.sent_bytes, 1937.5);
  EXPECT_DOUBLE_EQ(out.total_time_s, 19.375);
  EXPECT_DOUBLE_EQ(out.downtime_s, 0.625);
}

TEST(Liu, TheWwsBoundsTheFirstRound) {
  Input in = usual();
  in.wws_bytes = 200;
  // 1000, 200, 100 (stopped).
  const Output out = forecast(in);
  EXPECT_EQ(out.rounds, 2);
  EXPECT_NEAR(out.sent_bytes, 1300, 1e-9);
  EXPECT_NEAR(out.downtime_s, 1, 1e-9);
}

TEST(Liu, AnIdleGuestTakesOneRound) {
  Input in = usual();
  in.dirty_rate = 0;
  in.resume_s = 0.02;
  const Output out = forecast(in);
  EXPECT_TRUE(out.converges);
  EXPECT_DOUBLE_EQ(out.sent_bytes, 1000);
  EXPECT_DOUBLE_EQ(out.downtime_s, 0.02);
}

TEST(Liu, FasterThanTheLinkNeverConverges) {
  Input in = usual();
  in.dirty_rate = 200;
  in.wws_bytes = 400;
  in.most_rounds = 5;
  const Output out = forecast(in);
  EXPECT_FALSE(out.converges);
  EXPECT_DOUBLE_EQ(out.sent_bytes, 1000 + 5 * 400);
  EXPECT_DOUBLE_EQ(out.downtime_s, 4);
  in.dirty_rate = 100;  // lambda is 1
  EXPECT_DOUBLE_EQ(forecast(in).sent_bytes, 1000 + 5 * 400);
}

RC_GTEST_PROP(Liu, NeverBelowTheWireAndMonotone, ()) {
  Input in = usual();
  in.memory_bytes = *rc::gen::inRange(100, 100'000);
  in.rate = *rc::gen::inRange(1, 1'000);
  in.dirty_rate = *rc::gen::inRange(0, 1'500);
  in.wws_bytes = *rc::gen::inRange(0, 100'000);
  const Output out = forecast(in);
  RC_ASSERT(out.total_time_s >= in.memory_bytes / in.rate);
  RC_ASSERT(out.downtime_s <= out.total_time_s);
  Input more = in;
  more.wws_bytes *= 1.5;
  RC_ASSERT(forecast(more).sent_bytes >= out.sent_bytes * (1 - 1e-9));
}

}  // namespace
}  // namespace mare::policy::liu
