#include <gtest/gtest.h>

#include "orchestrator/engine/safe_point_search.h"

namespace mare::engine {
namespace {

using std::chrono_literals::operator""ms;
constexpr Milliseconds kWindow{100};

SafePointView view(int ranks, int inside, Milliseconds outside = 0ms, Milliseconds age = 0ms) {
  SafePointStatus status;
  status.ranks = ranks;
  status.inside = inside;
  status.outside = outside;
  return {status, age};
}
SafePointView error(Code code) {
  return {make_error(code, "no"), 0ms};
}

TEST(SafePoint, AllRanksAreInACollectiveOrJustPastOne) {
  EXPECT_EQ(judge({view(1, 1), view(1, 1)}, kWindow), SafePoint::Hit);
  EXPECT_EQ(judge({view(1, 1), view(1, 0, 100ms)}, kWindow), SafePoint::Hit);
  EXPECT_EQ(judge({view(2, 1, 30ms), view(1, 0, 0ms)}, kWindow), SafePoint::Hit);
  EXPECT_EQ(judge({view(1, 1), view(1, 0, 101ms)}, kWindow), SafePoint::Missed);
  EXPECT_EQ(judge({view(2, 1, 200ms), view(1, 1)}, kWindow), SafePoint::Missed)
      << "one of two in a guest";
}

TEST(SafePoint, AnAnswerIsAsOldAsItsQuestion) {
  EXPECT_EQ(judge({view(1, 0, 60ms, 40ms)}, kWindow), SafePoint::Hit);
  EXPECT_EQ(judge({view(1, 0, 60ms, 41ms)}, kWindow), SafePoint::Missed);
  EXPECT_EQ(judge({view(1, 1, 0ms, 101ms)}, kWindow), SafePoint::Missed)
      << "it may have left long ago";
}

TEST(SafePoint, WhatIsNotAnnouncedIsNotWaitedFor) {
  EXPECT_EQ(judge({view(0, 0), view(0, 0)}, kWindow), SafePoint::Absent);
  EXPECT_EQ(judge({view(1, 1), error(Code::Unsupported)}, kWindow), SafePoint::Absent);
  EXPECT_EQ(judge({view(1, 1), view(0, 0)}, kWindow), SafePoint::Missed)
      << "its rank may be about to begin";
}

TEST(SafePoint, SilenceIsNoSafePoint) {
  EXPECT_EQ(judge({view(1, 1), error(Code::Unavailable)}, kWindow), SafePoint::Missed);
  EXPECT_EQ(judge({error(Code::Unavailable), view(0, 0)}, kWindow), SafePoint::Missed);
  EXPECT_EQ(judge({error(Code::Unauthenticated)}, kWindow), SafePoint::Missed);
}

}  // namespace
}  // namespace mare::engine
