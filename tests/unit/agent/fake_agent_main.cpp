// The agent's real server over a driver that hangs: fake_agent PORT. Prints "port N", and "entered
// METHOD" for every call. pause(), observe() and save() never return.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "hypervisor/agent/server.h"
#include "tests/unit/agent/fake_driver.h"

namespace {

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

class Hanging final {
 public:
  void operator()(const std::string& method) const {
    say("entered " + method);
    if (method == "pause" || method == "observe" || method == "save") {
      while (true) ::pause();
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  mare::SystemClock clock;
  mare::Log log(clock, mare::LogLevel::Error);
  mare::agent::test::FakeDriver driver;
  driver.hook = Hanging{};
  mare::agent::ServerOptions options;
  options.listen = {"127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[1]))};
  auto server = mare::agent::start_server(options, driver, log);
  if (!server) {
    say("error " + server.error().text());
    return 1;
  }
  say("port " + std::to_string((*server)->port()));
  while (true) ::pause();
}
