// What needs no libvirtd; making and using one is the contract's.
#include "hypervisor/libvirt/templates.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hypervisor/libvirt/capabilities.h"
#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

TEST(Templates, BelongToTheUserThatQemuRunsAs) {
  constexpr const char* kDac =
      "<secmodel><model>apparmor</model></secmodel><secmodel><model>dac</model><doi>0</doi>"
      "<baselabel type='kvm'>+64055:+994</baselabel><baselabel type='qemu'>+64055:+994</baselabel>";
  const Owner owner = qemu_owner(kDac);
  EXPECT_EQ(owner.user, 64055U);
  EXPECT_EQ(owner.group, 994U);
  EXPECT_EQ(qemu_owner("<model>none</model>").user, 0U);
  EXPECT_EQ(qemu_owner("").group, 0U);
}

TEST(Templates, FitOnlyWhatTheyAreOf) {
  const TestDirectory directory;
  const std::string kernel = directory.path() + "/vmlinuz";
  std::ofstream(kernel) << "one";
  const TemplateSpec what{kernel, kernel, "console=ttyS0 mare.template", mebibytes(192), 1};
  const std::string name = describe(what, "qemu 10.0.2 (tcg)");
  EXPECT_EQ(describe(what, "qemu 10.0.2 (tcg)"), name);
  EXPECT_EQ(key_of(name).size(), 16U);
  EXPECT_NE(describe(what, "qemu 10.0.3 (tcg)"), name);
  for (int i = 0; i < 3; ++i) {
    TemplateSpec other = what;
    if (i == 0) other.memory = mebibytes(256);
    if (i == 1) other.vcpus = 2;
    if (i == 2) other.kernel_args += " quiet";
    EXPECT_NE(describe(other, "qemu 10.0.2 (tcg)"), name) << i;
    EXPECT_NE(key_of(describe(other, "qemu 10.0.2 (tcg)")), key_of(name)) << i;
  }
  std::ofstream(kernel, std::ios::app) << "another";
  EXPECT_NE(describe(what, "qemu 10.0.2 (tcg)"), name);
}

TEST(Templates, NeedAQemuThatMigratesToAFile) {
  EXPECT_EQ(why_no_cloning(10'000'002), "");
  EXPECT_EQ(why_no_cloning(8'002'000), "");
  EXPECT_NE(why_no_cloning(7'002'022).find("7.2.22"), std::string::npos);
}

}  // namespace
}  // namespace mare::libvirt
