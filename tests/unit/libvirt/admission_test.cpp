#include "hypervisor/libvirt/admission.h"

#include <gtest/gtest.h>

namespace mare::libvirt {
namespace {

TEST(Admission, TheLaterOfTwoSeesTheEarlier) {
  ManualClock clock;
  Admission admission(clock);
  EXPECT_TRUE(admission.claim("a", mebibytes(1)).empty());
  const auto seen = admission.claim("b", mebibytes(2));
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen.at("a"), mebibytes(1));
}

TEST(Admission, AClaimIsCountedOnceAndNeverAgainstItself) {
  ManualClock clock;
  Admission admission(clock);
  (void)admission.claim("a", mebibytes(1));
  EXPECT_TRUE(admission.claim("a", mebibytes(3)).empty());
  EXPECT_EQ(admission.claim("b", mebibytes(1)).at("a"), mebibytes(3));
}

TEST(Admission, ReleasedClaimsAreGone) {
  ManualClock clock;
  Admission admission(clock);
  (void)admission.claim("a", mebibytes(1));
  admission.release("a");
  admission.release("never was");
  EXPECT_TRUE(admission.claim("b", mebibytes(1)).empty());
}

TEST(Admission, ASenderThatNeverComesLosesItsClaim) {
  ManualClock clock;
  Admission admission(clock);
  (void)admission.claim("a", mebibytes(1));
  clock.advance(std::chrono::minutes{9});
  EXPECT_EQ(admission.claim("b", mebibytes(1)).size(), 1U);
  clock.advance(std::chrono::minutes{2});
  EXPECT_EQ(admission.claim("c", mebibytes(1)).count("a"), 0U);
}

}  // namespace
}  // namespace mare::libvirt
