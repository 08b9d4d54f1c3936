// The client against the real guest daemon, which runs unprivileged on loopback.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "orchestrator/guestlink/guestlink.h"

namespace mare::guestlink {
namespace {

constexpr char kToken[] = "test-token-0123456789";

class GuestdTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "mare-guestlink-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::ofstream(folder_ / "token") << kToken << "\n";
    start(0);
    guest_ = {own_name(), Ipv4Address{INADDR_LOOPBACK}, kToken};
    link_ = make_guest_port(clock_, log_, {.port = port_});
  }
  void TearDown() override {
    end(SIGTERM);
    std::filesystem::remove_all(folder_);
  }

  /// Starts the daemon and reads its port from its first line.
  void start(int wanted) {
    std::array<int, 2> channel{};
    ASSERT_EQ(pipe(channel.data()), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, channel[1], 2);
    posix_spawn_file_actions_addclose(&actions, channel[0]);
    const std::string token = (folder_ / "token").string();
    const std::string port = std::to_string(wanted);
    const std::array<const char*, 8> words{MARE_GUESTD, "--token-file", token.c_str(), "--listen",
                                           "127.0.0.1", "--port",       port.c_str(),  nullptr};
    ASSERT_EQ(posix_spawn(&daemon_, MARE_GUESTD, &actions, nullptr,
                          const_cast<char* const*>(words.data()), environ),
              0);
    posix_spawn_file_actions_destroy(&actions);
    close(channel[1]);
    std::string line;
    char byte = 0;
    while (read(channel[0], &byte, 1) == 1 && byte != '\n') line.push_back(byte);
    stderr_ = channel[0];
    const auto at = line.rfind("port ");
    ASSERT_NE(at, std::string::npos) << line;
    port_ = static_cast<std::uint16_t>(std::stoi(line.substr(at + 5)));
  }
  void end(int signal) {
    if (daemon_ <= 0) return;
    kill(daemon_, signal);
    waitpid(daemon_, nullptr, 0);
    close(stderr_);
    daemon_ = -1;
  }
  static VmId own_name() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return VmId{name.data()};
  }
  GuestRun shell(const std::string& id, const std::string& script) const {
    return {JobId{id}, (folder_ / id).string(), {"/bin/sh", "-c", script}, {"GREETING=a b%c"}};
  }
  RunStatus wait_for_end(const GuestRun& run) {
    const MonotonicTime deadline = clock_.now() + std::chrono::seconds{60};
    while (clock_.now() < deadline) {
      const auto status = link_->run_status(guest_, run);
      if (!status) {
        ADD_FAILURE() << status.error().text();
        return {};
      }
      if (status->phase != RunPhase::Running) return *status;
      clock_.sleep_for(Milliseconds{10});
    }
    ADD_FAILURE() << run.id.value << " has not ended within 60 s";
    return {};
  }

  SystemClock clock_;
  Log log_{clock_, LogLevel::Error};
  std::filesystem::path folder_;
  pid_t daemon_ = -1;
  int stderr_ = -1;
  std::uint16_t port_ = 0;
  GuestAddress guest_;
  std::unique_ptr<GuestPort> link_;
};

TEST_F(GuestdTest, HelloTellsAboutThisMachine) {
  const auto hello = link_->hello(guest_);
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_EQ(hello->boot_id.size(), 36U);
  EXPECT_GT(hello->memory_total, mebibytes(64));
  EXPECT_GT(hello->memory_available.count, 0U);
  EXPECT_LT(hello->memory_available, hello->memory_total);
  EXPECT_GT(hello->uptime.count(), 0);
}

TEST_F(GuestdTest, AWrongTokenIsUnauthenticated) {
  GuestAddress stranger = guest_;
  stranger.token = "not-the-right-token";
  const auto hello = link_->hello(stranger);
  ASSERT_FALSE(hello);
  EXPECT_EQ(hello.error().code, Code::Unauthenticated);
  EXPECT_TRUE(link_->hello(guest_)) << "the refused connection must not be kept";
}

TEST_F(GuestdTest, AProgramRunsOnceAndLeavesItsOutputAndExitCode) {
  const auto run = shell("job-1", "echo \"$GREETING\"; exit 7");
  EXPECT_EQ(link_->run_status(guest_, run)->phase, RunPhase::Unknown);
  EXPECT_EQ(*link_->output(guest_, run, 0, 100), "");
  ASSERT_TRUE(link_->run(guest_, run));
  const auto ended = wait_for_end(run);
  EXPECT_EQ(ended.phase, RunPhase::Exited);
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_EQ(ended.output_bytes, 6U);
  const auto again = link_->run(guest_, run);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->phase, RunPhase::Exited) << "it was started a second time";
  EXPECT_EQ(*link_->output(guest_, run, 0, 100), "a b%c\n");
  EXPECT_EQ(*link_->output(guest_, run, 2, 3), "b%c");
  EXPECT_EQ(*link_->output(guest_, run, 6, 100), "");
}

TEST_F(GuestdTest, AnotherIdInTheSameDirectoryIsAConflict) {
  auto run = shell("job-1", "exit 0");
  ASSERT_TRUE(link_->run(guest_, run));
  run.id = JobId{"job-2"};
  const auto other = link_->run(guest_, run);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::Conflict);
  run.id = JobId{"job-1"};
  EXPECT_EQ(wait_for_end(run).exit_code, 0);
}

TEST_F(GuestdTest, ASignalEndsTheProgramAndOneToNobodyIsFine) {
  const auto run = shell("job-1", "exec sleep 600");
  ASSERT_TRUE(link_->run(guest_, run));
  // "busy" until the runner has started the program.
  const MonotonicTime deadline = clock_.now() + std::chrono::seconds{30};
  Status sent = link_->signal(guest_, run, SIGTERM);
  while (!sent && sent.error().code == Code::Unavailable && clock_.now() < deadline) {
    clock_.sleep_for(Milliseconds{10});
    sent = link_->signal(guest_, run, SIGTERM);
  }
  ASSERT_TRUE(sent) << sent.error().text();
  EXPECT_EQ(wait_for_end(run).exit_code, 128 + SIGTERM);
  EXPECT_TRUE(link_->signal(guest_, run, SIGTERM));
}

TEST_F(GuestdTest, AProgramThatIsNotThereEndsAsInAShell) {
  const GuestRun run{JobId{"job-1"}, (folder_ / "job-1").string(), {"/no/such/program"}, {}};
  ASSERT_TRUE(link_->run(guest_, run));
  EXPECT_EQ(wait_for_end(run).exit_code, 127);
}

TEST_F(GuestdTest, TheClockOfAnOrdinaryMachineIsLeftAlone) {
  const auto set = link_->set_clock(guest_, clock_.wall_now());
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, Code::Unauthenticated);
  EXPECT_FALSE(link_->power_off(guest_));
  EXPECT_EQ(link_->drop_cache(guest_).error().code, Code::Unauthenticated);
}

TEST_F(GuestdTest, AJobWithoutPagesAnnouncesNothing) {
  const auto none = link_->safe_points(guest_, JobId{"job-1"});
  ASSERT_TRUE(none) << none.error().text();
  EXPECT_EQ(none->ranks, 0);
  EXPECT_EQ(link_->safe_points(guest_, JobId{"../job"}).error().code, Code::Unsupported);
}

TEST_F(GuestdTest, ARestartedDaemonIsFoundAgainByTheSameLink) {
  ASSERT_TRUE(link_->hello(guest_));
  const int port = port_;
  end(SIGKILL);
  start(port);
  const auto hello = link_->hello(guest_);
  ASSERT_TRUE(hello) << hello.error().text();
}

TEST_F(GuestdTest, TheProbeSeesAStopAsSilence) {
  auto probe = link_->start_probe(guest_, Microseconds{2'000});
  ASSERT_TRUE(probe) << probe.error().text();
  // As near a switch: else it would be asked too seldom to be seen silent.
  (*probe)->watch_closely(true);
  const auto answered = [&] { return (*probe)->report(false).answered; };
  const auto wait_for_answers = [&](int count) {
    const MonotonicTime deadline = clock_.now() + std::chrono::seconds{60};
    while (answered() < count && clock_.now() < deadline) clock_.sleep_for(Milliseconds{2});
    ASSERT_GE(answered(), count);
  };
  wait_for_answers(50);
  kill(daemon_, SIGSTOP);
  int before = answered();
  const int sent = (*probe)->report(false).sent;
  clock_.sleep_for(Milliseconds{300});
  // It finds all of that when it goes on: few, not one for each period.
  EXPECT_LE((*probe)->report(false).sent - sent, 40);
  // What was on its way when it stopped may still have come.
  EXPECT_LE(answered(), before + 5);
  kill(daemon_, SIGCONT);
  wait_for_answers(before + 50);
  const auto report = (*probe)->report(true);
  EXPECT_GE(report.longest_silence, Milliseconds{290});
  EXPECT_GT(report.silence_began.count(), 0);
  ASSERT_TRUE(report.clock_lost);
  // The process was stopped, not its clock, which is this machine's.
  EXPECT_LT(*report.clock_lost, Milliseconds{100});
}

}  // namespace
}  // namespace mare::guestlink
