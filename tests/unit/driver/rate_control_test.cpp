#include "hypervisor/rate_control.h"

#include <gtest/gtest.h>

namespace mare {
namespace {

using std::chrono::milliseconds;

constexpr double kMega = 1e6;

Sending knobs(double min, double max, double gain = 1) {
  Sending out;
  out.strategy = Strategy::RateControlled;
  out.rate_min = BytesPerSecond{min};
  out.rate_max = BytesPerSecond{max};
  out.rate_gain = gain;
  return out;
}

TEST(RateController, BeginsSlowAndAddsTheDirtyRateOfEachRound) {
  RateController controller(knobs(10 * kMega, 100 * kMega), milliseconds{1});
  EXPECT_DOUBLE_EQ(controller.rate().value, 10 * kMega);
  // 40 MB in 2 s: 20 MB/s.
  EXPECT_DOUBLE_EQ(controller.next_round(Bytes{40'000'000}, milliseconds{2000}).value, 30 * kMega);
  // 12 MB in 0.5 s: 24 MB/s.
  EXPECT_DOUBLE_EQ(controller.next_round(Bytes{12'000'000}, milliseconds{500}).value, 54 * kMega);
  EXPECT_DOUBLE_EQ(controller.rate().value, 54 * kMega);
}

TEST(RateController, TheGainScalesTheStep) {
  RateController controller(knobs(10 * kMega, 100 * kMega, 0.25), milliseconds{1});
  EXPECT_DOUBLE_EQ(controller.next_round(Bytes{40'000'000}, milliseconds{2000}).value, 15 * kMega);
}

TEST(RateController, NeverLeavesItsLimits) {
  RateController controller(knobs(10 * kMega, 50 * kMega), milliseconds{1});
  for (int round = 0; round < 10; ++round) {
    const double rate = controller.next_round(Bytes{90'000'000}, milliseconds{1000}).value;
    EXPECT_GE(rate, 10 * kMega);
    EXPECT_LE(rate, 50 * kMega);
  }
  EXPECT_DOUBLE_EQ(controller.rate().value, 50 * kMega);
}

TEST(RateController, WhatFitsIntoTheDowntimeIsSentAtFullSpeed) {
  RateController controller(knobs(10 * kMega, 100 * kMega), milliseconds{300});
  // At 100 MB/s, 30 MB take the whole 300 ms.
  EXPECT_LT(controller.next_round(Bytes{30'000'001}, milliseconds{3000}).value, 100 * kMega);
  EXPECT_DOUBLE_EQ(controller.next_round(Bytes{30'000'000}, milliseconds{3000}).value, 100 * kMega);
}

TEST(RateController, ARoundThatTookNoTimeTellsNothing) {
  RateController controller(knobs(10 * kMega, 100 * kMega), milliseconds{1});
  EXPECT_DOUBLE_EQ(controller.next_round(Bytes{40'000'000}, Microseconds{0}).value, 10 * kMega);
}

TEST(RateController, SenselessKnobsAreMadeSense) {
  EXPECT_GT(RateController(knobs(0, 0), milliseconds{300}).rate().value, 0);
  RateController turned(knobs(50 * kMega, 10 * kMega, -3), milliseconds{1});
  EXPECT_DOUBLE_EQ(turned.next_round(Bytes{90'000'000}, milliseconds{1000}).value, 50 * kMega);
}

}  // namespace
}  // namespace mare
