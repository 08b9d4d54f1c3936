// How fast a guest sweeps while it is sent, from where it was seen.
#include "hypervisor/libvirt/sweep_pace.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mare::libvirt {
namespace {

using std::chrono::milliseconds;

const SweepSwitch kTold{{false, Microseconds{2'000'000}},
                        {Milliseconds{0}, Milliseconds{600}},
                        0.25,
                        Milliseconds{300}};

/// Seen each 100 ms, from `begin` on, by a guest that takes `period` for all of it.
SweepPace seen_for(milliseconds span, milliseconds period, const Sweep& sweep, double begin = 0.9) {
  SweepPace out;
  for (milliseconds at{0}; at <= span; at += milliseconds{100}) {
    const double gone = std::chrono::duration<double>(at) / std::chrono::duration<double>(period);
    const double place = sweep.descending ? begin - gone : begin + gone;
    out.saw({place - std::floor(place), milliseconds{5000} + at}, sweep);
  }
  return out;
}

TEST(SweepPace, IsAsToldBeforeItWasSeen) {
  EXPECT_EQ(SweepPace{}.seen(kTold), kTold);
  EXPECT_EQ(seen_for(milliseconds{200}, milliseconds{2000}, kTold.sweep).seen(kTold), kTold);
}

TEST(SweepPace, WaitsTakeItJustAsFar) {
  const auto slower = seen_for(milliseconds{900}, milliseconds{3000}, kTold.sweep).seen(kTold);
  EXPECT_NEAR(static_cast<double>(slower.sweep.period.count()), 3e6, 10);
  EXPECT_EQ(slower.waits, (std::vector{Milliseconds{0}, Milliseconds{900}}));
  EXPECT_EQ(slower.best_place, kTold.best_place);
  EXPECT_EQ(slower.longest_hold, kTold.longest_hold) << "it is worth that many seconds";
  SweepSwitch down = kTold;
  down.sweep.descending = true;
  const auto quicker = seen_for(milliseconds{900}, milliseconds{1600}, down.sweep, 0.1).seen(down);
  EXPECT_NEAR(static_cast<double>(quicker.sweep.period.count()), 1.6e6, 10);
}

TEST(SweepPace, TimesThroughThatNobodySawCount) {
  SweepPace pace;
  pace.saw({0.5, milliseconds{0}}, kTold.sweep);
  pace.saw({0.75, milliseconds{5000}}, kTold.sweep);  // 2.25 times through in 5 s
  EXPECT_NEAR(static_cast<double>(pace.seen(kTold).sweep.period.count()), 5e6 / 2.25, 10);
}

TEST(SweepPace, ALookThatSeemsToBeBehindTheLastIsNoWholeTimeThrough) {
  SweepPace pace;
  pace.saw({0.5, milliseconds{0}}, kTold.sweep);
  pace.saw({0.49, milliseconds{100}}, kTold.sweep);
  pace.saw({0.8, milliseconds{600}}, kTold.sweep);
  EXPECT_NEAR(static_cast<double>(pace.seen(kTold).sweep.period.count()), 2e6, 10);
}

TEST(SweepPace, NonsenseIsKeptWithinBounds) {
  SweepPace pace;
  pace.saw({0.0, milliseconds{0}}, kTold.sweep);
  pace.saw({0.4, milliseconds{10'000}}, kTold.sweep);
  pace.saw({0.2, milliseconds{10'001}}, kTold.sweep);
  EXPECT_LE(pace.seen(kTold).sweep.period, Microseconds{5'000'000});
  EXPECT_GE(pace.seen(kTold).sweep.period, Microseconds{1'200'000});
}

}  // namespace
}  // namespace mare::libvirt
