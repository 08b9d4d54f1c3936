// The fence command with real programs: small scripts in a directory of the test's own.
#include "orchestrator/daemon/fence_command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "orchestrator/core/fd.h"
#include "orchestrator/daemon/options.h"

namespace mare::daemon {
namespace {

using testing::HasSubstr;
constexpr Milliseconds kLong{60'000};
constexpr Milliseconds kShort{300};
constexpr Milliseconds kEnoughToBegin{3000};  // on a busy machine

class FenceCommandTest : public testing::Test {
 protected:
  FenceCommandTest() {
    std::string pattern = testing::TempDir() + "mare-fence-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~FenceCommandTest() override { std::filesystem::remove_all(path_); }

  std::string script(const std::string& text, const std::string& interpreter = "/bin/sh") const {
    const std::string name = path_ + "/fence";
    std::ofstream(name) << "#!" << interpreter << "\n" << text << "\n";
    EXPECT_EQ(::chmod(name.c_str(), 0700), 0);
    return name;
  }
  Result<std::string> run(const std::string& program, Milliseconds timeout = kLong) {
    ProgramFenceCommand command(program, timeout, clock_);
    return command.turn_off({HostId{"h1"}, "10.77.0.11:7412", 3});
  }
  std::string text_of(const std::string& name) const {
    std::ifstream in(path_ + "/" + name);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  SystemClock clock_;
  std::string path_;
};

ParsedOptions mared_with(std::vector<std::string> words) {
  words.insert(words.begin(), "mared");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

TEST_F(FenceCommandTest, Status0IsAHostThatIsOff) {
  const auto said = run(script("echo 'Chassis Power Control:'; echo ' Down/Off ' >&2"));
  ASSERT_TRUE(said) << said.error().text();
  EXPECT_EQ(*said, "Chassis Power Control: Down/Off");
}

TEST_F(FenceCommandTest, NeedNotSayAnything) {
  const auto said = run(script("exit 0"));
  ASSERT_TRUE(said) << said.error().text();
  EXPECT_EQ(*said, "");
}

TEST_F(FenceCommandTest, LearnsWhichHostAndNothingElseOfMared) {
  ASSERT_EQ(setenv("MARE_HOST", "another", 1), 0);
  const Fd lock{::open((path_ + "/lock").c_str(), O_CREAT | O_RDWR, 0600)};
  ASSERT_TRUE(lock);
  const auto said =
      run(script("cd '" + path_ +
                 "'\n"
                 "echo \"$# $1 $MARE_HOST $MARE_HOST_ADDRESS $MARE_FENCE_NUMBER\" > words\n"
                 "cat > input\n"
                 "ls -l /proc/self/fd > fds"));
  unsetenv("MARE_HOST");
  ASSERT_TRUE(said) << said.error().text();
  EXPECT_EQ(text_of("words"), "1 h1 h1 10.77.0.11:7412 3\n");
  EXPECT_EQ(text_of("input"), "");
  EXPECT_THAT(text_of("fds"), testing::Not(HasSubstr("/lock")))
      << "it would hold a lock for a mared that is gone";
}

TEST_F(FenceCommandTest, IsNoShellForANameOfAHost) {
  ProgramFenceCommand command(script("printf '%s' \"$1\" > '" + path_ + "/words'"), kLong, clock_);
  ASSERT_TRUE(command.turn_off({HostId{"a; touch b $(id)"}, "", 1}));
  EXPECT_EQ(text_of("words"), "a; touch b $(id)");
}

TEST_F(FenceCommandTest, AnyOtherStatusIsAFailureWithItsLastWords) {
  const auto said = run(script("echo 'Unable to establish IPMI v2 session' >&2; exit 7"));
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().code, Code::Unavailable);
  EXPECT_THAT(said.error().message, HasSubstr("status 7"));
  EXPECT_THAT(said.error().message, HasSubstr("Unable to establish IPMI v2 session"));
}

TEST_F(FenceCommandTest, OfManyWordsTheLastAreKept) {
  const auto said = run(
      script("i=0; while [ $i -lt 5000 ]; do echo \"line $i of a long report\"; i=$((i+1)); done\n"
             "printf 'the \\033[1mend\\303\\251'; exit 1"));
  ASSERT_FALSE(said);
  EXPECT_LT(said.error().message.size(), 500U);
  EXPECT_THAT(said.error().message, HasSubstr("line 4999 of a long report the [1mend??"));
}

TEST_F(FenceCommandTest, ASignalIsAFailure) {
  const auto said = run(script("kill -SEGV $$"));
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("signal 11"));
}

TEST_F(FenceCommandTest, GetsTheSignalsThatMaredBlocks) {
  sigset_t ends;
  sigset_t before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &ends, &before), 0);
  const auto said = run(script("kill -TERM $$; exit 0"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("signal 15"));
}

TEST_F(FenceCommandTest, WhatTakesTooLongIsKilledWithAllThatItBegan) {
  const auto began = clock_.now();
  const auto said = run(script("sleep 1000 & echo $! > '" + path_ + "/child'; echo waiting; wait"),
                        kEnoughToBegin);
  ASSERT_FALSE(said);
  EXPECT_LT(clock_.now() - began, kLong);
  EXPECT_EQ(said.error().code, Code::Unavailable);
  EXPECT_THAT(said.error().message, HasSubstr("3000 ms"));
  EXPECT_THAT(said.error().message, HasSubstr("waiting"));
  const int child = std::stoi(text_of("child"));
  // Gone, or a zombie that its new parent has not waited for yet: both end the descriptor's wait.
  const Fd process{static_cast<int>(::syscall(SYS_pidfd_open, child, 0))};
  if (process) {
    pollfd gone{process.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&gone, 1, static_cast<int>(kLong.count())), 1) << "the child runs on";
  }
}

TEST_F(FenceCommandTest, AChildThatIsLeftBehindHoldsNothingUp) {
  const auto said =
      run(script("sleep 1000 & echo $! > '" + path_ + "/child'; echo off; exit 0"), kLong);
  ASSERT_TRUE(said) << said.error().text();
  EXPECT_EQ(*said, "off");
  EXPECT_EQ(::kill(std::stoi(text_of("child")), SIGKILL), 0);
}

TEST_F(FenceCommandTest, OneThatIsMissingOrNoProgramIsNamed) {
  const auto missing = run(path_ + "/none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::Unavailable);
  EXPECT_THAT(missing.error().message, HasSubstr(path_ + "/none"));
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  EXPECT_FALSE(run(script("exit 0", path_ + "/no-shell")));
}

/// docs/examples/fence-ipmi.sh with an ipmitool of the test's, which keeps the power in a file.
class IpmiExample : public FenceCommandTest {
 protected:
  IpmiExample() : path_before_(getenv("PATH")) {
    std::ofstream(path_ + "/bmc") << "h10 192.0.2.10 other\nh1 192.0.2.1 mare\n";
    std::ofstream(path_ + "/power") << "on";
    setenv("PATH", (path_ + ":" + path_before_).c_str(), 1);
    setenv("MARE_BMC_DIRECTORY", path_.c_str(), 1);
  }
  ~IpmiExample() override {
    setenv("PATH", path_before_.c_str(), 1);
    unsetenv("MARE_BMC_DIRECTORY");
  }
  void ipmitool(const std::string& text) const {
    const std::string name = path_ + "/ipmitool";
    std::ofstream(name) << "#!/bin/sh\ncd '" << path_ << "'\necho \"$*\" >> calls\n" << text;
    EXPECT_EQ(::chmod(name.c_str(), 0700), 0);
  }
  const std::string program_ = std::string(MARE_EXAMPLES) + "/fence-ipmi.sh";

 private:
  std::string path_before_;
};

TEST_F(IpmiExample, SaysThatTheHostIsOffWhenItsBmcDoes) {
  ipmitool("case $* in *off) printf off > power;; esac\necho \"Chassis Power is $(cat power)\"\n");
  for (int again = 0; again < 2; ++again) {
    const auto said = run(program_);
    ASSERT_TRUE(said) << said.error().text();
    EXPECT_THAT(*said, HasSubstr("Chassis Power is off"));
  }
  EXPECT_THAT(text_of("calls"), HasSubstr("-I lanplus -H 192.0.2.1 -U mare -f " + path_ +
                                          "/bmc-password chassis power off\n"));
}

TEST_F(IpmiExample, TakesNoRefusalForAHostThatIsOff) {
  ipmitool("echo 'Error: Unable to establish IPMI v2 / RMCP+ session' >&2; exit 1\n");
  const auto said = run(program_);
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("RMCP+ session"));
}

TEST_F(IpmiExample, WaitsWhileTheHostIsStillOn) {
  ipmitool("echo 'Chassis Power is on'\n");
  const auto said = run(program_, kShort);
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("was killed"));
}

TEST_F(IpmiExample, NamesAHostWithoutABmc) {
  std::ofstream(path_ + "/bmc") << "h10 192.0.2.10 other\n";
  ipmitool("echo 'Chassis Power is off'\n");
  const auto said = run(program_);
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("no BMC of host h1"));
}

TEST_F(FenceCommandTest, TheCommandLineTakesOnlyWhatCanBeRun) {
  const std::string good = script("exit 0");
  const auto usual = mared_with({"--fence-command", good});
  ASSERT_FALSE(usual.exit_code);
  EXPECT_EQ(usual.options.fence_command, good);
  EXPECT_EQ(usual.options.fence_command_timeout, Milliseconds{10'000});
  EXPECT_EQ(mared_with({}).options.fence_command, "");

  EXPECT_THAT(check_fence_command(path_ + "/none"), HasSubstr("does not exist"));
  EXPECT_THAT(check_fence_command(path_), HasSubstr("is no file"));
  std::ofstream(path_ + "/plain") << "text";
  EXPECT_THAT(check_fence_command(path_ + "/plain"), HasSubstr("chmod +x"));
  EXPECT_EQ(mared_with({"--fence-command", path_ + "/none"}).exit_code, 2);
  EXPECT_EQ(mared_with({"--fence-command", path_}).exit_code, 2);
  EXPECT_EQ(mared_with({"--fence-command", path_ + "/plain"}).exit_code, 2);
}

TEST_F(FenceCommandTest, TheCommandLineTakesTimesWithUnits) {
  const std::string good = script("exit 0");
  const auto timeout = [&](const std::string& text) {
    return mared_with({"--fence-command", good, "--fence-command-timeout", text});
  };
  EXPECT_EQ(timeout("20s").options.fence_command_timeout, Milliseconds{20'000});
  EXPECT_EQ(timeout("500ms").options.fence_command_timeout, Milliseconds{500});
  EXPECT_EQ(timeout("2m").options.fence_command_timeout, Milliseconds{120'000});
  EXPECT_EQ(timeout("7").options.fence_command_timeout, Milliseconds{7000});
  for (const char* text : {"0", "-1s", "6m", "soon", "10h"}) {
    EXPECT_EQ(timeout(text).exit_code, 2) << text;
  }
  EXPECT_EQ(mared_with({"--fence-command-timeout", "5s"}).exit_code, 2) << "of which command?";
}

}  // namespace
}  // namespace mare::daemon
