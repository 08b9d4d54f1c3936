#include "hypervisor/libvirt/tsc.h"

#include <gtest/gtest.h>

namespace mare::libvirt {
namespace {

TEST(Tsc, ComesOutAlikeAgainAndAgain) {
#ifndef __x86_64__
  GTEST_SKIP() << "no such counter here";
#endif
  SystemClock clock;
  const auto first = static_cast<double>(tsc_khz(clock));
  ASSERT_GT(first, 100e3) << "slower than 100 MHz";
  ASSERT_LT(first, 20e6);
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(static_cast<double>(tsc_khz(clock)), first, 0.005 * first);
}

}  // namespace
}  // namespace mare::libvirt
