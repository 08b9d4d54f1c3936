#include "orchestrator/policy/memory_history.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/policy/quantities.h"

namespace mare::policy {
namespace {

/// Writes at a steady rate until it has written `most`; looked at for `lasts` seconds.
DirtyCycle cycle(double began_s, double lasts, double rate, double most) {
  DirtyCycle out;
  out.began = WallTime{micro(began_s)};
  for (const double wall : {0.5, 1.0, 2.0, 5.0, 10.0, 20.0}) {
    if (wall > lasts) break;
    const double unique = std::min(most, rate * wall);
    out.points.push_back({micro(wall), micro(wall), Bytes{static_cast<std::uint64_t>(unique)}});
  }
  return out;
}

TEST(MemoryHistory, EachCycleTellsOfItself) {
  MemoryProfile profile;
  profile.total = mebibytes(512);
  profile.cycles = {cycle(100, 20, 8 * kMega, 16 * kMega), cycle(130, 20, 40 * kMega, 80 * kMega),
                    cycle(160, 5, 10 * kMega, 1000 * kMega)};
  const auto history = memory_history(profile);
  ASSERT_EQ(history.size(), 3U);
  EXPECT_EQ(history[0].began, WallTime{micro(100)});
  EXPECT_DOUBLE_EQ(history[0].seen_for.count(), 20);
  EXPECT_NEAR(history[0].wws_bytes, 16 * kMega, 0.5 * kMega);
  EXPECT_TRUE(history[0].flattens);
  EXPECT_NEAR(history[0].dirty_bytes_per_s, 8 * kMega, 0.4 * kMega);
  EXPECT_NEAR(history[1].wws_bytes, 80 * kMega, 2 * kMega) << "not the middle of both";
  EXPECT_NEAR(history[1].dirty_bytes_per_s, 40 * kMega, 2 * kMega);
  EXPECT_FALSE(history[2].flattens);
  EXPECT_NEAR(history[2].wws_bytes, 50 * kMega, kMega) << "what it had written at its end";
}

TEST(MemoryHistory, GlancesAndOneThatHasJustBegunTellNothing) {
  MemoryProfile profile;
  profile.total = mebibytes(512);
  profile.cycles = {cycle(1, 2, kMega, kMega), {}, cycle(2, 5, kMega, kMega)};
  const auto history = memory_history(profile);
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history[0].began, WallTime{micro(2)});
}

}  // namespace
}  // namespace mare::policy
