#include "hypervisor/libvirt/capabilities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/unit/libvirt/directory.h"

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

bool offers(const Machinery& machinery, Strategy strategy) {
  const auto all = strategies_of(machinery);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  return std::find(all.begin(), all.end(), strategy) != all.end();
}

TEST(Capabilities, OnlyWhatTheHostReallyHasIsOffered) {
  const Machinery all{false, 10'000'002, 11'003'000, true, true};
  for (int i = 0; i < kStrategies; ++i) {
    const auto strategy = static_cast<Strategy>(i);
    EXPECT_EQ(offers(all, strategy), strategy != Strategy::CheckpointRestart)
        << to_string(strategy);
  }
  Machinery less = all;
  less.zstd = false;
  EXPECT_FALSE(offers(less, Strategy::Compressed));
  EXPECT_TRUE(offers(less, Strategy::PostCopy));
  less = all;
  less.libvirt = 9'000'000;
  EXPECT_FALSE(offers(less, Strategy::Compressed));
  less = all;
  less.userfaultfd = false;
  EXPECT_FALSE(offers(less, Strategy::PostCopy));
  EXPECT_FALSE(offers(less, Strategy::Hybrid));
  EXPECT_TRUE(offers(less, Strategy::Throttled));
}

TEST(Capabilities, AStrategyThatIsNotOfferedIsRefusedWithItsReason) {
  HostFacts facts;
  facts.hypervisor = "qemu 8.0.0 (tcg)";
  facts.live_migration_why = "too old";
  facts.strategies = {Strategy::StopAndCopy};
  Sending sending;
  sending.strategy = Strategy::PreCopy;
  const Status refused = check_offered(facts, "h1", sending);
  EXPECT_EQ(refused.error().code, Code::Unsupported);
  EXPECT_EQ(refused.error().message,
            "host 'h1' (qemu 8.0.0 (tcg)) does not offer pre-copy: too old");
  sending.strategy = Strategy::StopAndCopy;
  EXPECT_TRUE(check_offered(facts, "h1", sending).ok());
  sending.allow_post_copy = true;
  EXPECT_EQ(check_offered(facts, "h1", sending).error().code, Code::Unsupported);
}

TEST(Capabilities, OldQemuMovesEmulatedGuestsOnlyWhileTheyStandStill) {
  const Machinery old{false, 7'002'022, 11'003'000, true, true};
  EXPECT_EQ(strategies_of(old), std::vector<Strategy>{Strategy::StopAndCopy});
  const Machinery with_kvm{true, 7'002'022, 11'003'000, true, true};
  EXPECT_TRUE(offers(with_kvm, Strategy::PreCopy));
}

TEST(Capabilities, TheLastRoundsRateCanBeToldToNewerOnes) {
  EXPECT_TRUE(takes_switchover_bandwidth(8'002'000, 11'001'000));
  EXPECT_FALSE(takes_switchover_bandwidth(8'001'005, 11'003'000));
  EXPECT_FALSE(takes_switchover_bandwidth(10'000'002, 11'000'000));
}

TEST(Capabilities, APostCopyIsMendedOnlyWhereThatWasSeenToHold) {
  EXPECT_EQ(why_no_mending(true, 10'000'000), "");
  EXPECT_NE(why_no_mending(true, 11'003'000).find("11.3.0"), std::string::npos);
  EXPECT_NE(why_no_mending(false, 10'000'000), "");
}

constexpr const char* kCapabilities =
    R"(<capabilities><host><secmodel><model>none</model></secmodel>
<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+64055:+994</baselabel>
<baselabel type='qemu'>+0:+0</baselabel></secmodel></host>
<guest><arch name='i686'><emulator>/usr/bin/qemu-system-i386</emulator></arch></guest>
<guest><arch name='x86_64'><wordsize>64</wordsize><emulator>/usr/bin/qemu-system-x86_64</emulator>
</arch></guest></capabilities>)";

TEST(Capabilities, LibvirtTellsOfTheEmulatorAndItsUser) {
  EXPECT_EQ(emulator_in(kCapabilities), "/usr/bin/qemu-system-x86_64");
  EXPECT_EQ(emulator_in("<capabilities/>"), "");
  EXPECT_TRUE(runs_qemu_as_root(kCapabilities));
  std::string other = kCapabilities;
  other.replace(other.find("+0:+0"), 5, "+64055:+994");
  EXPECT_FALSE(runs_qemu_as_root(other));
  EXPECT_FALSE(runs_qemu_as_root("<capabilities/>"));
}

TEST(Capabilities, ALibraryIsFoundInAProgramAlsoAcrossBlocks) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/program";
  EXPECT_FALSE(is_linked_with(path, "libzstd.so"));
  for (const std::size_t before : {0U, 65530U, 65536U, 200000U}) {
    std::ofstream(path, std::ios::binary) << std::string(before, '\0') << "libzstd.so.1" << '\0';
    EXPECT_TRUE(is_linked_with(path, "libzstd.so")) << before;
  }
  std::ofstream(path, std::ios::binary) << std::string(70000, 'x');
  EXPECT_FALSE(is_linked_with(path, "libzstd.so"));
}

TEST(Capabilities, VersionsAreUnpacked) {
  EXPECT_EQ(version_text(10'000'002), "10.0.2");
  EXPECT_EQ(version_text(7'002'022), "7.2.22");
}

}  // namespace
}  // namespace mare::libvirt
