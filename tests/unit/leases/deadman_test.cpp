// The switch in a QEMU: a program of that name, the library, and a file that says until when. What
// is waited for is the end of a process; what must not end is looked at for a while.
#include "hypervisor/leases/deadman.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "orchestrator/core/boot_clock.h"
#include "tests/unit/leases/scratch.h"

namespace mare::leases {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A copy of sleep(1) under a name of our choice.
class Program {
 public:
  Program(const Scratch& scratch, const std::string& name, const std::string& file) {
    std::string program = scratch.path(name);
    std::filesystem::copy_file("/bin/sleep", program,
                               std::filesystem::copy_options::overwrite_existing);
    std::string preload = "LD_PRELOAD=" MARE_DEADMAN_LIBRARY;
    std::string told = "MARE_DEADMAN=" + file;
    std::string hour = "3600";
    const std::array<char*, 3> environment{preload.data(), told.data(), nullptr};
    const std::array<char*, 3> arguments{program.data(), hour.data(), nullptr};
    if (posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments.data(),
                    environment.data()) != 0) {
      pid_ = -1;
    }
  }
  ~Program() {
    if (pid_ > 0 && !buried_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void stop() const { kill(pid_, SIGSTOP); }
  /// Whether its thread is there: before main() it has been asked once already.
  bool is_guarded() const {
    std::error_code failed;
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task", failed)) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name == "mare-deadman") return true;
    }
    return false;
  }
  bool await_guard(Clock& clock) const {
    for (int i = 0; i < 500 && !is_guarded(); ++i) clock.sleep_for(milliseconds{10});
    return is_guarded();
  }
  bool lives() {
    if (!buried_) buried_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return !buried_;
  }
  bool lives_for(milliseconds time, Clock& clock) {
    const auto until = clock.now() + time;
    while (lives() && clock.now() < until) clock.sleep_for(milliseconds{10});
    return lives();
  }
  int await_signal() {
    if (!buried_) buried_ = waitpid(pid_, &status_, 0) == pid_;
    return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool buried_ = false;
};

class DeadmansSwitch : public ::testing::Test {
 protected:
  Deadman voice(DeadmanVoice whose) {
    auto opened = Deadman::open(file, whose);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().text());
    return std::move(*opened);
  }

  const Scratch scratch;
  const std::string file = scratch.path("run/deadman");
  BootClock clock;
  const Deadman agent = voice(DeadmanVoice::Agent);
  const Deadman watchdog = voice(DeadmanVoice::Watchdog);
};

TEST_F(DeadmansSwitch, FiresWhenNobodyPutsItOff) {
  agent.say(clock.now() + seconds{2});
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  EXPECT_EQ(qemu.await_signal(), SIGKILL);
}

TEST_F(DeadmansSwitch, EitherVoiceIsEnough) {
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  const auto begun = clock.now();
  agent.say(begun + seconds{1});
  while (clock.now() < begun + seconds{2}) {
    watchdog.say(clock.now() + seconds{10});
    ASSERT_TRUE(qemu.lives());
    clock.sleep_for(milliseconds{20});
  }
  watchdog.say({});  // what the agent said last has run out
  EXPECT_EQ(qemu.await_signal(), SIGKILL);
}

TEST_F(DeadmansSwitch, AProcessThatIsStoppedIsEndedAsWell) {
  agent.say(clock.now() + seconds{2});
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  qemu.stop();
  EXPECT_EQ(qemu.await_signal(), SIGKILL);
}

TEST_F(DeadmansSwitch, IsTakenBackWhenTheLeaseIs) {
  agent.say(clock.now() + seconds{4});
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  agent.say({});
  EXPECT_TRUE(qemu.lives_for(milliseconds{5000}, clock));
}

TEST_F(DeadmansSwitch, DoesNothingBeforeAnybodySpoke) {
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  EXPECT_TRUE(qemu.lives_for(milliseconds{300}, clock));
}

TEST_F(DeadmansSwitch, AFileThatIsGoneChangesNothing) {
  agent.say(clock.now() + seconds{2});
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  std::filesystem::remove(file);
  EXPECT_EQ(qemu.await_signal(), SIGKILL);
}

TEST_F(DeadmansSwitch, FindsTheFileThatWasMadeAgain) {
  agent.say(clock.now() + seconds{4});
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  std::filesystem::remove(file);
  const Deadman anew = voice(DeadmanVoice::Agent);
  anew.say({});
  EXPECT_TRUE(qemu.lives_for(milliseconds{5000}, clock));
}

TEST_F(DeadmansSwitch, WhateverElseInheritsItIsLeftAlone) {
  agent.say(clock.now() + milliseconds{100});
  Program helper(scratch, "qemu-bridge-helper", file);
  EXPECT_TRUE(helper.lives_for(seconds{1}, clock));
  EXPECT_FALSE(helper.is_guarded());
}

TEST_F(DeadmansSwitch, WhatWasSaidOutlivesWhoSaidIt) {
  agent.say(clock.now() + seconds{3600});
  { (void)voice(DeadmanVoice::Agent); }
  watchdog.forget(DeadmanVoice::Watchdog);
  Program qemu(scratch, "qemu-system-test", file);
  ASSERT_TRUE(qemu.await_guard(clock));
  EXPECT_TRUE(qemu.lives_for(milliseconds{300}, clock));
}

TEST(Deadman, AFileThatCanNotBeMadeIsToldByName) {
  const auto failed = Deadman::open("/proc/no-such-place/deadman", DeadmanVoice::Agent);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::Unavailable);
  EXPECT_NE(failed.error().message.find("/proc/no-such-place/deadman"), std::string::npos);
  EXPECT_NE(failed.error().remedy.find("--deadman-file"), std::string::npos);
}

}  // namespace
}  // namespace mare::leases
