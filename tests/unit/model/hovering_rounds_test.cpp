#include "orchestrator/model/hovering_rounds.h"

#include <gtest/gtest.h>

namespace mare {
namespace {

TEST(HoveringRounds, TheLimitRisesWhereFourThatFitBecomeNoSmaller) {
  HoveringRounds rounds;
  EXPECT_FALSE(rounds.limit_rises(25e6, 2e6));
  EXPECT_FALSE(rounds.limit_rises(1.9e6, 2e6));
  EXPECT_FALSE(rounds.limit_rises(1.5e6, 2e6));
  EXPECT_FALSE(rounds.limit_rises(2e6, 2e6)) << "exactly";
  EXPECT_TRUE(rounds.limit_rises(1.8e6, 2e6)) << "no smaller than the first of them";
}

TEST(HoveringRounds, NotWhileTheyBecomeSmaller) {
  HoveringRounds rounds;
  for (double marked = 1.9e6; marked > 1e5; marked *= 0.95) {
    EXPECT_FALSE(rounds.limit_rises(marked, 2e6)) << marked;
  }
}

TEST(HoveringRounds, NotWhereOneOfThemDidNotFit) {
  HoveringRounds rounds;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(rounds.limit_rises(2.1e6, 2e6));
    for (int fits = 0; fits < 3; ++fits) EXPECT_FALSE(rounds.limit_rises(1.9e6, 2e6));
  }
}

TEST(HoveringRounds, OnesThatHoverItRisesForEachThatFitsAndFallsForOthers) {
  HoveringRounds rounds;
  for (int i = 0; i < 3; ++i) rounds.limit_rises(1.5e6, 2e6);
  ASSERT_TRUE(rounds.limit_rises(1.5e6, 2e6));
  EXPECT_FALSE(rounds.limit_rises(2.4e6, 2e6)) << "it wrote more until it was looked at";
  EXPECT_TRUE(rounds.limit_rises(0.5e6, 2e6));
}

}  // namespace
}  // namespace mare
