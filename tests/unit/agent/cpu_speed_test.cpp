#include "hypervisor/agent/cpu_speed.h"

#include <gtest/gtest.h>

namespace mare::agent {
namespace {

TEST(CpuSpeed, IsTheSameNowAndAgain) {
  const double first = measure_cpu_speed();
  const double second = measure_cpu_speed();
  // From a small board to a server, and under a sanitizer.
  EXPECT_GT(first, 1);
  EXPECT_LT(first, 1e5);
  // Tests run beside it: it is within some percent where nothing does.
  EXPECT_GT(second, first / 2);
  EXPECT_LT(second, first * 2);
}

}  // namespace
}  // namespace mare::agent
