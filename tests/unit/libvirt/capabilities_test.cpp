#include "hypervisor/libvirt/capabilities.h"

#include <gtest/gtest.h>

namespace mare::libvirt {
namespace {

TEST(Capabilities, VirtualisationIsAFlagAndAWholeWord) {
  EXPECT_TRUE(has_virtualisation_flag("processor\t: 0\nflags\t\t: fpu vme vmx sse\n"));
  EXPECT_TRUE(has_virtualisation_flag("flags\t\t: fpu svm\n"));
  EXPECT_FALSE(has_virtualisation_flag("flags\t\t: fpu vmxoff svm_lock sse\n"));
  EXPECT_FALSE(has_virtualisation_flag("vmx flags\t: vnmi ept\nmodel name\t: vmx svm\n"));
  EXPECT_FALSE(has_virtualisation_flag(""));
}

TEST(Capabilities, OldQemuMayNotMoveEmulatedGuests) {
  EXPECT_EQ(why_no_live_migration(false, 9'000'000), "");
  EXPECT_EQ(why_no_live_migration(false, 10'000'002), "");
  EXPECT_EQ(why_no_live_migration(true, 7'002'022), "");
  const std::string why = why_no_live_migration(false, 8'002'002);
  EXPECT_NE(why.find("8.2.2"), std::string::npos);
  EXPECT_NE(why.find("9.0"), std::string::npos) << "the remedy";
}

TEST(Capabilities, VersionsAreUnpacked) {
  EXPECT_EQ(version_text(10'000'002), "10.0.2");
  EXPECT_EQ(version_text(7'002'022), "7.2.22");
}

}  // namespace
}  // namespace mare::libvirt
