// With scripts for emulators; a real one is timed in the lab.
#include "hypervisor/libvirt/emulator_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>

#include "orchestrator/core/clock.h"
#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

using testing::HasSubstr;

class EmulatorStartTest : public testing::Test {
 protected:
  /// A program that does that; its arguments are in DIRECTORY/words before.
  std::string emulator(const std::string& does) {
    const std::string file = directory_.path() + "/emulator";
    std::ofstream(file) << "#!/bin/sh\necho \"$$ $@\" >>" << directory_.path() << "/words\n"
                        << does << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  std::string words() const {
    std::ifstream in(directory_.path() + "/words");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TestDirectory directory_;
  SystemClock clock_;
};

constexpr const char* kEnds = R"(read order; [ "$order" = quit ] || exit 3)";

TEST_F(EmulatorStartTest, IsTimedUntilItHasEndedAsItWasTold) {
  const auto took = time_start(emulator(kEnds), false, clock_);
  ASSERT_TRUE(took) << took.error().text();
  EXPECT_GT(took->count(), 0);
  EXPECT_THAT(words(), HasSubstr("-machine q35,accel=tcg -nodefaults -display none -S"));
  ASSERT_TRUE(time_start(emulator(kEnds), true, clock_));
  EXPECT_THAT(words(), HasSubstr("accel=kvm"));
}

TEST_F(EmulatorStartTest, OneThatFailsIsNotTimed) {
  const std::string fails = emulator("exit 3");
  const auto failed = time_start(fails, false, clock_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::Unavailable);
  EXPECT_THAT(failed.error().text(), HasSubstr(fails + ": exit status 3"));
  EXPECT_THAT(time_start("/nowhere/qemu", false, clock_).error().text(), HasSubstr("No such file"));
}

TEST_F(EmulatorStartTest, OneThatStaysIsEnded) {
  const auto stays =
      time_start(emulator("exec tail -f /dev/null"), false, clock_, Milliseconds{300});
  ASSERT_FALSE(stays);
  EXPECT_THAT(stays.error().text(), HasSubstr("did not end in 300 ms"));
  EXPECT_EQ(::kill(std::stoi(words()), 0), -1) << "it is still there";
}

TEST_F(EmulatorStartTest, TheQuickestOfSomeIsKept) {
  Log log(clock_, LogLevel::Error);
  ManualClock timed;
  EmulatorStart start;
  EXPECT_EQ(start.quickest().count(), 0);
  // Each one stays until it may go.
  const std::string may_go = directory_.path() + "/go";
  start.begin(emulator("n=$(wc -l <" + directory_.path() + "/words)\nwhile [ ! -e " + may_go +
                       "$n ]; do :; done\n" + kEnds),
              false, timed, log, [] { return true; });
  std::ptrdiff_t starts = 0;
  for (const int took_ms : {300, 100, 200, 90, 400}) {
    ++starts;
    for (int i = 0; i < 500 && std::ranges::count(words(), '\n') < starts; ++i) {
      clock_.sleep_for(Milliseconds{20});
    }
    timed.advance(Milliseconds{took_ms});
    std::ofstream(may_go + std::to_string(starts)) << "now";
  }
  for (int i = 0; i < 500 && start.quickest() > Milliseconds{90}; ++i) {
    clock_.sleep_for(Milliseconds{20});
  }
  EXPECT_EQ(start.quickest(), Milliseconds{90});
}

TEST_F(EmulatorStartTest, OthersFollowWhileNothingMoves) {
  Log log(clock_, LogLevel::Error);
  std::atomic<bool> still = true;
  EmulatorStart start({Milliseconds{1}, Milliseconds{1}});
  start.begin(emulator(kEnds), false, clock_, log, [&] { return still.load(); });
  const auto starts = [this] { return std::ranges::count(words(), '\n'); };
  // More than at once, and more than soon after.
  for (int i = 0; i < 500 && starts() < 25; ++i) clock_.sleep_for(Milliseconds{20});
  EXPECT_GE(starts(), 25);
  still = false;
  clock_.sleep_for(Milliseconds{300});  // one may be under way
  const auto before = starts();
  clock_.sleep_for(Milliseconds{300});
  EXPECT_EQ(starts(), before);
}

TEST_F(EmulatorStartTest, AHostWithoutOneSaysSoOnceAndKnowsNothing) {
  std::mutex mutex;
  std::string said;
  {
    Log log(clock_, LogLevel::Warning, [&](std::string_view line) {
      const std::lock_guard lock(mutex);
      said += line;
    });
    EmulatorStart start;
    start.begin(emulator("exit 3"), false, clock_, log, [] { return true; });
    const auto silent = [&] {
      const std::lock_guard lock(mutex);
      return said.empty();
    };
    for (int i = 0; i < 500 && silent(); ++i) clock_.sleep_for(Milliseconds{20});
    EmulatorStart none;
    none.begin("", false, clock_, log, [] { return true; });
    EXPECT_EQ(none.quickest().count(), 0);
  }
  EXPECT_THAT(said, HasSubstr("exit status 3; forecasts go by what is known, or usual"));
  EXPECT_EQ(std::ranges::count(words(), '\n'), 1);
}

}  // namespace
}  // namespace mare::libvirt
