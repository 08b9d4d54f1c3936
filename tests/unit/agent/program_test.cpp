// mare-agent itself: starts, serves, ends, and says what is wrong with its command line.
#include <gtest/gtest.h>
#include <signal.h>

#include "hypervisor/remote/remote_driver.h"
#include "tests/unit/agent/pki.h"
#include "tests/unit/agent/process.h"
#include "tests/unit/agent/samples.h"

namespace mare::agent::test {
namespace {

std::vector<std::string> command(const std::string& listen, const TlsPaths& tls) {
  return {MARE_AGENT,      "--name", "h1",           "--listen", listen,
          "--driver",      "sim",    "--memory-mib", "1024",     "--cert",
          tls.certificate, "--key",  tls.key,        "--ca",     tls.ca};
}

/// From the log's "listening on 127.0.0.1:PORT".
std::string port_of(const std::string& line) {
  const std::string words = "listening on 127.0.0.1:";
  const auto at = line.find(words);
  if (at == std::string::npos) return "";
  const auto begin = at + words.size();
  return line.substr(begin, line.find_first_not_of("0123456789", begin) - begin);
}

TEST(Program, ServesASimulatedHostUntilSigterm) {
  Process agent(command("127.0.0.1:0", pki().issue("h1")));
  const std::string port = port_of(agent.wait_for_line("listening on"));
  ASSERT_NE(port, "");
  SystemClock clock;
  Log log(clock, LogLevel::Error);
  const auto tls = pki().issue("controller");
  remote::RemoteOptions options;
  options.name = "h1";
  options.address = "127.0.0.1:" + port;
  options.ca = tls.ca;
  options.certificate = tls.certificate;
  options.key = tls.key;
  auto driver = remote::make_remote_driver(options, clock, log);
  ASSERT_TRUE(driver.ok()) << driver.error().text();
  auto facts = (*driver)->facts();
  ASSERT_TRUE(facts.ok()) << facts.error().text();
  EXPECT_EQ(facts->memory, mebibytes(1024));

  VmSpec vm = full_spec();
  vm.memory = mebibytes(64);
  ASSERT_TRUE((*driver)->start(vm).ok());
  auto seen = (*driver)->observe(vm.key());
  ASSERT_TRUE(seen.ok()) << seen.error().text();
  EXPECT_NE(seen->copy, Copy::Absent);
  vm.memory = mebibytes(4096);
  vm.id = VmId{"demo-8"};
  vm.uuid = "5e0c1b0e-51cc-4f3c-8f4b-7f3fdfb0a111";
  EXPECT_EQ((*driver)->start(vm).error().code, Code::ResourceExhausted);

  Process second(command("127.0.0.1:" + port, pki().issue("h1")));
  EXPECT_NE(second.wait_for_line("port " + port + " is taken"), "");
  EXPECT_EQ(second.wait_exit(), 1);

  agent.signal(SIGTERM);
  EXPECT_EQ(agent.wait_exit(), 0);
}

/// Its exit code and whatever it wrote.
std::pair<int, std::string> run(const std::vector<std::string>& argv) {
  Process agent(argv);
  std::string text = agent.read_all();
  return {agent.wait_exit(), std::move(text)};
}

TEST(Program, WrongFilesAreNamed) {
  auto tls = pki().issue("h2");
  auto [code, text] = run(command("127.0.0.1:0", tls));
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find(tls.certificate), std::string::npos) << text;
  EXPECT_NE(text.find("'h1'"), std::string::npos) << text;
  tls.key = "/nowhere/key";
  std::tie(code, text) = run(command("127.0.0.1:0", tls));
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("/nowhere/key"), std::string::npos) << text;
}

TEST(Program, WrongUsage) {
  const auto tls = pki().issue("h1");
  auto [code, text] = run({MARE_AGENT, "--help"});
  EXPECT_EQ(code, 0);
  EXPECT_NE(text.find("--migration-address"), std::string::npos);
  EXPECT_NE(text.find("--migration-tls"), std::string::npos);
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{MARE_AGENT}, "--name"},
      {{MARE_AGENT, "--name", "h1", "--listen", "127.0.0.1", "--memory-mib", "512"}, "--listen"},
      {{MARE_AGENT, "--name", "h1", "--listen", "127.0.0.1:0", "--memory-mib", "512"}, "--cert"},
      {{MARE_AGENT, "--name", "h1", "--listen", "0.0.0.0:0", "--memory-mib", "512", "--driver",
        "sim", "--insecure"},
       "loopback"},
      {{MARE_AGENT, "--name", "h1", "--listen", "127.0.0.1:0", "--memory-mib", "512", "--driver",
        "vmware"},
       "--driver"},
  };
  for (const auto& [argv, words] : wrong) {
    std::tie(code, text) = run(argv);
    EXPECT_EQ(code, 2) << words;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace mare::agent::test
