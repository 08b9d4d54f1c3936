#include "orchestrator/engine/silences.h"

#include <gtest/gtest.h>

namespace mare::engine {
namespace {

TEST(Silences, AreCountedByLengthEachBoundWithAllBeforeIt) {
  Silences silences;
  for (const double seconds : {0.1, 0.5, 0.52, 4.0, 11.0}) silences.note(Seconds{seconds});
  const auto counts = silences.counts();
  const decltype(counts.at_most) wanted{1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4};
  EXPECT_EQ(counts.at_most, wanted);
  EXPECT_EQ(counts.all, 5u);
  EXPECT_DOUBLE_EQ(counts.sum.count(), 16.12);
  EXPECT_EQ(counts.longest, Seconds{11.0});
}

}  // namespace
}  // namespace mare::engine
