#include "orchestrator/daemon/failpoints.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <map>
#include <utility>

namespace mare::daemon {
namespace {

struct Action {
  bool kill = false;
  Milliseconds hold{0};
};

Result<std::pair<std::string, Action>> parse_one(const std::string& item) {
  const Error bad = field_error("MARE_FAILPOINTS", "'" + item + "' is not a failpoint",
                                "write it as vm.migrate:PreCopying=kill or ...=hold:3000");
  const auto equals = item.find('=');
  if (equals == std::string::npos || item.find(':') > equals) return bad;
  const std::string what = item.substr(equals + 1);
  Action action;
  if (what == "kill") {
    action.kill = true;
  } else if (what.starts_with("hold:")) {
    long ms = 0;
    const char* begin = what.data() + 5;
    const char* end = what.data() + what.size();
    const auto parsed = std::from_chars(begin, end, ms);
    if (parsed.ec != std::errc{} || parsed.ptr != end || ms < 0 || ms > 600'000) return bad;
    action.hold = Milliseconds{ms};
  } else {
    return bad;
  }
  return std::pair{item.substr(0, equals), action};
}

}  // namespace

Result<std::function<void(const Operation&)>> parse_failpoints(const std::string& text,
                                                               const std::string& state_directory,
                                                               std::shared_ptr<Clock> clock) {
  if (text.empty()) return std::function<void(const Operation&)>{};
  auto actions = std::make_shared<std::map<std::string, Action>>();
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const auto comma = std::min(text.find(',', begin), text.size());
    auto one = parse_one(text.substr(begin, comma - begin));
    if (!one) return one.error();
    actions->insert(std::move(*one));
    begin = comma + 1;
  }
  return std::function<void(const Operation&)>(
      [actions, state_directory, clock](const Operation& operation) {
        const std::string here = std::string(to_string(operation.kind)) + ":" + operation.state;
        const auto found = actions->find(here);
        if (found == actions->end()) return;
        const Action action = found->second;
        actions->erase(found);
        std::ofstream(state_directory + "/failpoint." + std::string(to_string(operation.kind)) +
                      "." + operation.state)
            << operation.id.value << "\n";
        if (action.kill) ::kill(getpid(), SIGKILL);
        clock->sleep_for(action.hold);
      });
}

}  // namespace mare::daemon
