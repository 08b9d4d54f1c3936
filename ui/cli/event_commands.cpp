#include <cstdio>
#include <deque>

#include "ui/cli/app.h"
#include "ui/cli/human.h"
#include "ui/cli/terminal.h"
#include "ui/cli/views.h"

namespace mare::cli {
namespace {

struct EventOptions {
  bool follow = false;
  std::string topics;
  std::string after;
  std::size_t limit = 100;
};

void print_event(const Session& session, const Json& event) {
  if (session.wants(Output::JsonText)) {
    std::printf("%s\n", wire::to_text(event).c_str());  // a line each, for jq and the like
  } else {
    std::printf("%s  %-18s  %-12s  %s\n", short_time(text(event, "at")).c_str(),
                printable(text(event, "type")).c_str(), printable(text(event, "subject")).c_str(),
                printable(text(event, "data")).c_str());
  }
  std::fflush(stdout);
}

int follow_events(Session& session, const EventOptions& options) {
  auto client = session.client();
  if (!client) return session.fail(client.error());
  const std::string filter = query({{"topics", options.topics}});
  const std::string path = api({"events"}) + (filter.empty() ? "" : "?" + filter);
  std::string last = options.after;
  constexpr int kMostFailures = 30;  // with a second between: mared is gone, not restarting
  for (int failures = 0;;) {
    const Status ended = (*client)->follow(path, last, [&](const rest::ServerEvent& raw) {
      failures = 0;
      if (!raw.id.empty()) last = raw.id;
      const Json event = Json::parse(raw.data, nullptr, false);
      if (event.is_object()) print_event(session, event);
      return true;
    });
    if (ended.ok() || ended.error().code == Code::Cancelled) return kOk;
    if (ended.error().code != Code::Unavailable || ++failures > kMostFailures) {
      return session.fail(ended.error());
    }
    if (failures == 1) session.say("mare: the stream broke; following again");
    if (!session.interrupt().wait(Milliseconds{1000})) return kOk;
  }
}

/// The newest `limit` ones. The server begins with the oldest, so all pages are read.
int list_events(Session& session, const EventOptions& options) {
  std::deque<Json> kept;
  std::string after = options.after.empty() ? "0" : options.after;
  for (;;) {
    auto page =
        session.get(api({"events"}) + "?" +
                    query({{"topics", options.topics}, {"after", after}, {"limit", "1000"}}));
    if (!page) return session.fail(page.error());
    for (const Json& event : member(*page, "items")) {
      kept.push_back(event);
      if (kept.size() > options.limit) kept.pop_front();
    }
    const std::string next = text(*page, "next_after");
    if (member(*page, "items").empty() || next.empty() || next == after) break;
    after = next;
  }
  Json items = Json::array();
  for (Json& event : kept) items.push_back(std::move(event));
  session.print_list(items, event_columns());
  return kOk;
}

}  // namespace

void add_event_commands(CLI::App& app, Action& action) {
  auto options = std::make_shared<EventOptions>();
  CLI::App* events =
      app.add_subcommand("events", "What happened, and what happens")->group("Cluster");
  events->add_flag("-f,--follow", options->follow, "Go on with new ones until Ctrl-C");
  events
      ->add_option("--topics", options->topics, "Only host,pool,vm,job,operation,migration,cluster")
      ->type_name("TOPICS");
  events->add_option("--after", options->after, "After this number")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SEQ");
  events->add_option("--limit", options->limit, "The newest ones, without -f")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  events->footer(
      "Examples:\n  mare events -f --topics vm,migration\n"
      "  mare events -f -o json | jq -c 'select(.type==\"vm.state\")'");
  events->callback([&action, options] {
    action = [options](Session& session) {
      return options->follow ? follow_events(session, *options) : list_events(session, *options);
    };
  });
}

}  // namespace mare::cli
