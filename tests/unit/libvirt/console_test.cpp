#include "hypervisor/libvirt/console.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

class ConsoleTest : public testing::Test {
 protected:
  ConsoleTest() : consoles_(directory_.path(), clock_) {}
  void say(const std::string& text) {
    std::ofstream(consoles_.path(vm_.id), std::ios::app | std::ios::binary) << text;
  }
  static std::string all_of(const std::string& path) {
    const std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  TestDirectory directory_;
  ManualClock clock_;
  Consoles consoles_;
  const VmKey vm_{VmId{"demo-0"}, "6f0d3c1e-2a5b-4c7d-8e9f-001122334455"};
};

TEST_F(ConsoleTest, FaultsAreWhatSickKernelsSay) {
  EXPECT_TRUE(is_fault("[    1.0] BUG: unable to handle page fault"));
  EXPECT_TRUE(is_fault("Kernel panic - not syncing: Fatal exception"));
  EXPECT_TRUE(is_fault("[   12.1] Call Trace:"));
  EXPECT_TRUE(is_fault("traps: a.out[77] general protection fault ip:0"));
  EXPECT_TRUE(is_fault("WARNING: CPU: 0 PID: 1 at kernel/x.c:1"));
  EXPECT_FALSE(is_fault("mare: guest demo-0 ready"));
  EXPECT_FALSE(is_fault("DEBUG: nothing; Warning: a user's"));
}

TEST_F(ConsoleTest, OnlyWholeLinesCountAndEachOnce) {
  ASSERT_TRUE(consoles_.begin(vm_).ok());
  EXPECT_EQ(consoles_.scan(vm_).count, 0);
  say("booting\r\n[ 1.0] BUG: unable to handle\r\n[ 1.1] Oo");
  auto seen = consoles_.scan(vm_);
  EXPECT_EQ(seen.count, 1);
  EXPECT_EQ(seen.first, "[ 1.0] BUG: unable to handle");
  EXPECT_EQ(consoles_.scan(vm_).count, 1);
  say("ps: 0002\r\nfine\r\n");
  seen = consoles_.scan(vm_);
  EXPECT_EQ(seen.count, 2);
  EXPECT_EQ(seen.first, "[ 1.0] BUG: unable to handle");
}

TEST_F(ConsoleTest, ANewCopyBeginsCleanAndTheLastIsPutAside) {
  ASSERT_TRUE(consoles_.begin(vm_).ok());
  say("Kernel panic - not syncing\n");
  EXPECT_EQ(consoles_.scan(vm_).count, 1);
  ASSERT_TRUE(consoles_.begin(vm_).ok());
  EXPECT_EQ(consoles_.scan(vm_).count, 0);
  EXPECT_NE(all_of(consoles_.path(vm_.id) + ".1").find("Kernel panic"), std::string::npos);
}

TEST_F(ConsoleTest, AnAgentThatWasRestartedReadsFromTheCopysStart) {
  ASSERT_TRUE(consoles_.begin(vm_).ok());
  say("BUG: one\n");
  Consoles next(directory_.path(), clock_);
  EXPECT_EQ(next.scan(vm_).count, 1);
}

TEST_F(ConsoleTest, AnotherIncarnationsFileTellsNothing) {
  ASSERT_TRUE(consoles_.begin(vm_).ok());
  say("BUG: one\n");
  const VmKey other{vm_.id, "00000000-2a5b-4c7d-8e9f-001122334455"};
  EXPECT_EQ(consoles_.scan(other).count, 0);
  EXPECT_EQ(consoles_.scan(vm_).count, 1);
  EXPECT_EQ(consoles_.scan(VmKey{VmId{"none"}, vm_.uuid}).count, 0);
}

TEST_F(ConsoleTest, AFileThatWasRotatedIsReadFromItsStart) {
  ASSERT_TRUE(consoles_.begin(vm_).ok());
  say(std::string(3000, 'x') + "\n");
  EXPECT_EQ(consoles_.scan(vm_).count, 0);
  std::ofstream(consoles_.path(vm_.id), std::ios::trunc) << "BUG: after\n";
  EXPECT_EQ(consoles_.scan(vm_).count, 1);
}

TEST_F(ConsoleTest, AnEndlessLineTakesNoEndlessMemory) {
  ASSERT_TRUE(consoles_.begin(vm_).ok());
  say(std::string(1'000'000, 'x') + "\nBUG: after\n");
  const auto seen = consoles_.scan(vm_);
  EXPECT_EQ(seen.count, 1);
  EXPECT_LT(seen.first.size(), 300U);
}

TEST_F(ConsoleTest, ADirectoryThatIsGoneIsAnError) {
  Consoles nowhere(directory_.path() + "/none", clock_);
  auto begun = nowhere.begin(vm_);
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.error().message.find("/none/demo-0.log"), std::string::npos);
}

}  // namespace
}  // namespace mare::libvirt
