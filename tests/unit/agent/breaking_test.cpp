// What a caller is told when the agent's process is killed, stopped or not there.
#include <gtest/gtest.h>
#include <signal.h>

#include <future>

#include "hypervisor/remote/remote_driver.h"
#include "tests/unit/agent/process.h"
#include "tests/unit/agent/samples.h"

namespace mare::agent::test {
namespace {

class Breaking : public ::testing::Test {
 protected:
  std::unique_ptr<Process> start_agent(int port = 0) {
    auto agent =
        std::make_unique<Process>(std::vector<std::string>{FAKE_AGENT, std::to_string(port)});
    const std::string line = agent->wait_for_line("port ");
    EXPECT_NE(line, "") << "the agent did not start";
    if (!line.empty()) port_ = std::stoi(line.substr(5));
    return agent;
  }

  std::unique_ptr<Driver> connect(Milliseconds deadline = Milliseconds{60'000}) {
    remote::RemoteOptions options;
    options.name = "h1";
    options.address = "127.0.0.1:" + std::to_string(port_);
    options.insecure = true;
    options.read_deadline = options.change_deadline = options.save_deadline = deadline;
    options.connect_deadline = Milliseconds{1'000};
    auto driver = remote::make_remote_driver(options, clock_, log_);
    EXPECT_TRUE(driver.ok());
    return std::move(*driver);
  }

  /// A restarted agent is found again soon, but not always by the very next call.
  static ::testing::AssertionResult works_again(Driver& driver, Clock& clock) {
    const MonotonicTime begin = clock.now();
    int calls = 0;
    std::string last;
    while (clock.now() - begin < std::chrono::seconds(20)) {
      const auto done = driver.resume(full_key());
      if (done.ok()) return ::testing::AssertionSuccess();
      last = done.error().text();
      ++calls;
      clock.sleep_for(Milliseconds{20});
    }
    return ::testing::AssertionFailure() << calls << " calls failed, the last with: " << last;
  }

  SystemClock clock_;
  Log log_{clock_, LogLevel::Error};
  int port_ = 0;
};

TEST_F(Breaking, KilledInTheMiddleOfACall) {
  auto agent = start_agent();
  auto driver = connect();
  auto changing = std::async(std::launch::async, [&] { return driver->pause(full_key()); });
  auto saving = std::async(std::launch::async, [&] { return driver->save(full_key(), "/x"); });
  auto reading = std::async(std::launch::async, [&] { return driver->observe(full_key()); });
  for (int i = 0; i < 3; ++i) ASSERT_NE(agent->wait_for_line("entered"), "");
  agent->signal(SIGKILL);
  const auto changed = changing.get();
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, Code::OutcomeUnknown) << changed.error().text();
  EXPECT_NE(changed.error().message.find("h1"), std::string::npos);
  const auto saved = saving.get();
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, Code::OutcomeUnknown) << saved.error().text();
  const auto seen = reading.get();
  ASSERT_FALSE(seen.ok());
  EXPECT_EQ(seen.error().code, Code::Unavailable) << seen.error().text();
}

TEST_F(Breaking, GoneThenBackOnTheSamePort) {
  auto agent = start_agent();
  auto driver = connect();
  ASSERT_TRUE(driver->resume(full_key()).ok());
  agent->signal(SIGKILL);
  EXPECT_EQ(agent->wait_exit(), 128 + SIGKILL);
  // gRPC may not have seen yet that the connection ended; what it then sends has an unknown
  // outcome.
  const auto first = driver->resume(full_key());
  ASSERT_FALSE(first.ok());
  EXPECT_TRUE(first.error().code == Code::Unavailable || first.error().code == Code::OutcomeUnknown)
      << first.error().text();
  // From then on none of these leaves.
  for (int i = 0; i < 3; ++i) {
    const auto changed = driver->resume(full_key());
    ASSERT_FALSE(changed.ok());
    EXPECT_EQ(changed.error().code, Code::Unavailable) << changed.error().text();
    EXPECT_NE(changed.error().message.find("127.0.0.1:" + std::to_string(port_)),
              std::string::npos);
    EXPECT_FALSE(changed.error().remedy.empty());
  }
  agent = start_agent(port_);
  EXPECT_TRUE(works_again(*driver, clock_));
}

/// gRPC's own poller looks every 5 s; a restart must be seen sooner, however rarely one calls.
TEST_F(Breaking, RestartIsSeenAtOnce) {
  auto agent = start_agent();
  auto driver = connect();
  ASSERT_TRUE(driver->resume(full_key()).ok());
  for (int i = 0; i < 3; ++i) {
    agent->signal(SIGKILL);
    agent->wait_exit();
    EXPECT_FALSE(driver->resume(full_key()).ok());
    agent = start_agent(port_);
    const MonotonicTime back = clock_.now();
    ASSERT_TRUE(works_again(*driver, clock_));
    // Half a second on an idle machine.
    EXPECT_LT(clock_.now() - back, Milliseconds{2'500});
  }
}

TEST_F(Breaking, NeverThere) {
  auto agent = start_agent();
  agent->signal(SIGKILL);
  agent->wait_exit();
  auto driver = connect();
  EXPECT_EQ(driver->facts().error().code, Code::Unavailable);
  EXPECT_EQ(driver->start(full_spec()).error().code, Code::Unavailable);
}

TEST_F(Breaking, DeadlinePasses) {
  auto agent = start_agent();
  auto driver = connect(Milliseconds{200});
  EXPECT_EQ(driver->pause(full_key()).error().code, Code::OutcomeUnknown);
  EXPECT_EQ(driver->observe(full_key()).error().code, Code::Unavailable);
}

TEST_F(Breaking, StoppedAgentAcceptsNoConnection) {
  auto agent = start_agent();
  agent->stop();
  auto driver = connect();
  // The kernel takes the connection, nobody answers on it: the request never left.
  const auto changed = driver->pause(full_key());
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, Code::Unavailable) << changed.error().text();
  agent->signal(SIGCONT);
  EXPECT_TRUE(works_again(*driver, clock_));
}

TEST_F(Breaking, NameThatDoesNotResolve) {
  remote::RemoteOptions options;
  options.name = "h1";
  options.address = "no-such-host.invalid:7412";
  options.insecure = true;
  auto driver = remote::make_remote_driver(options, clock_, log_);
  ASSERT_TRUE(driver.ok());
  EXPECT_EQ((*driver)->pause(full_key()).error().code, Code::Unavailable);
}

}  // namespace
}  // namespace mare::agent::test
