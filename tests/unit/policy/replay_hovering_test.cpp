// Rounds that hover above the downtime limit (docs/adr/0018).
#include <gtest/gtest.h>

#include "tests/unit/policy/replay_input.h"

namespace mare::policy {
namespace {

/// A guest that writes 1.5 MB in no time, other ones each time: what is left is never among them.
/// And 0.5 MB more a second.
struct Restless {
  Restless() { costs.written_again = 0; }
  DirtyCurve curve{{{0, 0}, {0.015, 1.5 * kMega}, {50, 26.5 * kMega}}, 1, 200 * kMega};
  HypervisorCosts costs;
  ReplayInput in = input(curve);
};

TEST(ReplayOfHoveringRounds, ALongerLimitThatIsToldEndsWhatHoversAboveAShorterOne) {
  Restless guest;
  guest.in.downtime_limit_s = 0.1;
  EXPECT_FALSE(replay(guest.in, guest.costs).converges) << "2 MB at least, where 1 would do";
  guest.in.later_downtime_limit_s = 0.3;
  EXPECT_FALSE(replay(guest.in, guest.costs).converges) << "one that rises by rounds is late";
  guest.in.sending.limit_rises_early = true;
  const auto early = replay(guest.in, guest.costs);
  EXPECT_TRUE(early.converges);
  EXPECT_LT(early.rounds.size(), 10U);
  EXPECT_LE(early.downtime_s, 0.3 + 0.07 + 1e-9);
  // The stop is the last; the one that QEMU took the limit up in is before it.
  EXPECT_NEAR(early.rounds[early.rounds.size() - 2].duration_s, guest.costs.limit_told_s, 1e-9);
}

TEST(ReplayOfHoveringRounds, WhoHasTheLongerLimitAllAlongHoversAboveThat) {
  Restless guest;
  guest.in.downtime_limit_s = 0.3;
  EXPECT_FALSE(replay(guest.in, guest.costs).converges) << "4 MB at least, where 3 would do";
}

TEST(ReplayOfHoveringRounds, ItGoesOnWhereNotEvenTheLongerOneFits) {
  Restless guest;
  guest.in.downtime_limit_s = 0.1;
  guest.in.later_downtime_limit_s = 0.2;
  guest.in.sending.limit_rises_early = true;
  EXPECT_FALSE(replay(guest.in, guest.costs).converges);
}

TEST(ReplayOfHoveringRounds, WhatEndsByItselfIsLeftAlone) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  ReplayInput in = input(idle);
  in.downtime_limit_s = 0.1;
  in.later_downtime_limit_s = 0.3;
  const Replay by_itself = replay(in);
  in.sending.limit_rises_early = true;
  EXPECT_DOUBLE_EQ(replay(in).total_time_s, by_itself.total_time_s);
  EXPECT_DOUBLE_EQ(replay(in).downtime_s, by_itself.downtime_s);
}

}  // namespace
}  // namespace mare::policy
