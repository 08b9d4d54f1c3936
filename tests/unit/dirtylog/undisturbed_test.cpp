#include "hypervisor/dirtylog/undisturbed.h"

#include <gtest/gtest.h>

namespace mare::dirtylog {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kDear{15'000};

DirtyPoint at(int wall_ms, int progress_ms, std::uint64_t pages) {
  return {Microseconds{wall_ms * 1000}, Microseconds{progress_ms * 1000}, Bytes{pages * 4096}};
}

TEST(WithoutFaults, AGuestThatComputesAllTheTimeWouldHaveDoneTheSameEarlier) {
  // Half of each second went to faults.
  const auto points = without_faults({at(500, 500, 16'667), at(1000, 1000, 33'333)}, kDear, 1, 1);
  EXPECT_NEAR(static_cast<double>(points[0].wall.count()), 250'000, 10);
  EXPECT_NEAR(static_cast<double>(points[0].progress.count()), 250'000, 10);
  EXPECT_NEAR(static_cast<double>(points[1].wall.count()), 500'000, 10);
  EXPECT_NEAR(static_cast<double>(points[1].progress.count()), 500'000, 10);
  EXPECT_EQ(points[1].unique.count, 33'333U * 4096);
}

TEST(WithoutFaults, AGuestThatWaitsForItsClockWouldHaveWaitedLonger) {
  const auto points = without_faults({at(1000, 400, 10'000)}, kDear, 1, 1);
  EXPECT_EQ(points[0].wall.count(), 1'000'000);
  EXPECT_EQ(points[0].progress.count(), 250'000);
}

TEST(WithoutFaults, OneThatHadLittleToSpareLosesTheRest) {
  // 100 ms to spare, 300 of faults.
  const auto points = without_faults({at(1000, 900, 20'000)}, kDear, 1, 1);
  EXPECT_EQ(points[0].wall.count(), 800'000);
  EXPECT_EQ(points[0].progress.count(), 600'000);
}

TEST(WithoutFaults, WhatAQuotaKeepsFromItIsNotToSpare) {
  const auto points = without_faults({at(1000, 500, 20'000)}, kDear, 0.5, 1);
  EXPECT_EQ(points[0].wall.count(), 700'000);
  EXPECT_EQ(points[0].progress.count(), 200'000);
}

TEST(WithoutFaults, SeveralVcpusShareThem) {
  const auto points = without_faults({at(1000, 2000, 20'000)}, kDear, 1, 2);
  EXPECT_EQ(points[0].wall.count(), 850'000);
  EXPECT_EQ(points[0].progress.count(), 1'700'000);
}

TEST(WithoutFaults, TakesNoMoreThanThereIsAndKeepsTheOrder) {
  const auto points = without_faults(
      {at(100, 100, 10'000), at(101, 101, 10'100), at(200, 100, 10'100)}, kDear, 1, 1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_GT(points[i].progress.count(), 0);
    const DirtyPoint before = i == 0 ? DirtyPoint{} : points[i - 1];
    EXPECT_GT(points[i].wall, before.wall);
    EXPECT_GE(points[i].progress, before.progress);
  }
}

TEST(WithoutFaults, OfAGuestThatWroteNothingNothing) {
  const auto points = without_faults({at(1000, 0, 0)}, kDear, 1, 1);
  EXPECT_EQ(points[0].wall.count(), 1'000'000);
  EXPECT_EQ(points[0].progress.count(), 0);
}

}  // namespace
}  // namespace mare::dirtylog
