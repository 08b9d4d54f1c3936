#include "ui/cli/forecast_commands.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "rest/wire/time.h"
#include "ui/cli/app.h"
#include "ui/cli/forecast_views.h"
#include "ui/cli/terminal.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

/// -o json prints it as it came, -o name its id, else `text`.
int show(Session& session, const Json& object, std::string (*as_text)(const Json&, bool),
         const char* id = "id") {
  if (session.wants(Output::JsonText)) {
    session.print_json(object);
  } else if (session.wants(Output::Name)) {
    std::printf("%s\n", printable(text(object, id)).c_str());
  } else {
    std::fputs(as_text(object, wants_colour(1)).c_str(), stdout);
  }
  return kOk;
}

int get_and_show(Session& session, const std::string& path,
                 std::string (*as_text)(const Json&, bool), const char* id) {
  auto found = session.get(path);
  if (!found) return session.fail(found.error());
  return show(session, *found, as_text, id);
}

/// A migration's has rounds, a drain's has migrations; the id does not tell which it is.
int explain(Session& session, const std::string& id) {
  auto migration = session.get(api({"migrations", id, "explanation"}));
  if (migration) return show(session, *migration, explanation_text, "migration");
  if (migration.error().code != Code::NotFound) return session.fail(migration.error());
  auto drain = session.get(api({"operations", id, "explanation"}));
  if (!drain) return session.fail(drain.error());
  if (session.wants(Output::Wide)) {
    std::fputs(drain_explanation_text(*drain, true, wants_colour(1)).c_str(), stdout);
    return kOk;
  }
  const auto narrow = [](const Json& one, bool colour) {
    return drain_explanation_text(one, false, colour);
  };
  return show(session, *drain, narrow, "operation");
}

int list_forecasts(Session& session, const std::string& vm) {
  auto forecasts = session.list(api({"forecasts"}), query({{"vm", vm}}));
  if (!forecasts) return session.fail(forecasts.error());
  session.print_list(*forecasts, forecast_columns(session.clock().wall_now()));
  return kOk;
}

Result<Json> drain_forecasts(Session& session, const Json& operation) {
  Json forecasts = Json::array();
  // The plan has what the usual table shows.
  const bool whole = session.wants(Output::Wide) || session.wants(Output::JsonText);
  if (!whole && !session.wants(Output::Name)) {
    return Json{{"operation", operation}, {"forecasts", std::move(forecasts)}};
  }
  auto children = session.list(api({"operations"}), query({{"parent", text(operation, "id")}}));
  if (!children) return children.error();
  for (auto child = children->rbegin(); child != children->rend(); ++child) {  // oldest first
    auto forecast = session.get(api({"forecasts", text(*child, "id")}));
    if (!forecast) return forecast.error();
    forecasts.push_back(*std::move(forecast));
  }
  return Json{{"operation", operation}, {"forecasts", std::move(forecasts)}};
}

std::string check_since(const std::string& written) {
  if (wire::parse_duration(written) || wire::parse_rfc3339(written)) return "";
  return "'" + written + "' is no time: write 24h (before now) or 2026-11-21T04:00:00Z";
}

/// What passed the check, as the API takes it; "" is not stated.
std::string since_of(const std::string& written, WallTime now) {
  const auto ago = wire::parse_duration(written);
  return ago ? format_rfc3339(std::max(WallTime{0}, now - WallTime{*ago})) : written;
}

}  // namespace

int finish_forecast(Session& session, const Json& operation) {
  Follow follow;
  follow.answer = [](Session& s, const Json& done) {
    return s.get(api({"forecasts", text(done, "id")}));
  };
  follow.show = [](Session& s, const Json& forecast) { show(s, forecast, forecast_text); };
  return finish(session, operation, follow);
}

int finish_drain_forecast(Session& session, const Json& operation) {
  Follow follow;
  follow.answer = drain_forecasts;
  follow.show = [](Session& s, const Json& all) {
    if (s.wants(Output::JsonText)) return s.print_json(all);
    const Json& forecasts = member(all, "forecasts");
    if (s.wants(Output::Name)) {
      for (const Json& one : forecasts) std::printf("%s\n", printable(text(one, "id")).c_str());
      return;
    }
    const Json& operation_done = member(all, "operation");
    const Json& plan = member(member(operation_done, "request"), "plan");
    std::fputs(drain_text(plan, wants_colour(1)).c_str(), stdout);
    for (const Json& one : forecasts) {
      if (!s.wants(Output::Wide)) break;
      std::printf("\n%s", forecast_text(one, wants_colour(1)).c_str());
    }
    if (s.wants(Output::Wide)) std::printf("\n");
    std::printf("%s\n", printable(text(operation_done, "reason")).c_str());
  };
  return finish(session, operation, follow);
}

void add_forecast_commands(CLI::App& app, Action& action) {
  auto id = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("explain", "A migration or a drain: what was forecast, and what came")
          ->group("Work");
  command->add_option("operation", *id, "Its id")->required()->type_name("ID");
  command->footer(
      "Examples:\n  mare explain op-7\n"
      "  mare explain op-12 -o wide    a drain: all its migrations, with every figure");
  command->callback(
      [&action, id] { action = [id](Session& session) { return explain(session, *id); }; });

  CLI::App* forecast = app.add_subcommand("forecast", "What moves would cost")->group("Work");
  forecast->require_subcommand(1);
  forecast->footer(
      "Examples:\n  mare migrate demo-1 --to h3 --dry-run    makes one\n"
      "  mare forecast list --vm demo-1\n  mare forecast show op-7\n  mare forecast accuracy");
  auto vm = std::make_shared<std::string>();
  CLI::App* list = forecast->add_subcommand("list", "Newest first");
  list->add_option("--vm", *vm, "Of this VM")->type_name("VM");
  list->footer("Example: mare forecast list -o wide");
  list->callback(
      [&action, vm] { action = [vm](Session& session) { return list_forecasts(session, *vm); }; });
  CLI::App* one = forecast->add_subcommand("show", "One, with every strategy");
  one->add_option("forecast", *id, "Its id: of a dry run or of a migration")
      ->required()
      ->type_name("ID");
  one->footer("Example: mare forecast show op-7");
  one->callback([&action, id] {
    action = [id](Session& session) {
      return get_and_show(session, api({"forecasts", *id}), forecast_text, "id");
    };
  });
  auto by = std::make_shared<std::string>();
  auto since = std::make_shared<std::string>();
  CLI::App* accuracy = forecast->add_subcommand("accuracy", "How good they were");
  accuracy->add_option("--by", *by, "Also of each strategy, pair of hosts or program of a job")
      ->check(CLI::IsMember(std::vector<std::string>{"strategy", "pair", "program"}))
      ->type_name("WHAT");
  accuracy
      ->add_option("--since", *since,
                   "Only those made since then: 24h (before now) or 2026-11-21T04:00:00Z")
      ->check(check_since)
      ->type_name("TIME");
  accuracy->footer("Example: mare forecast accuracy --by strategy --since 7d");
  accuracy->callback([&action, by, since] {
    action = [by, since](Session& session) {
      const std::string asked =
          query({{"by", *by}, {"since", since_of(*since, session.clock().wall_now())}});
      return get_and_show(session,
                          api({"forecasts", "accuracy"}) + (asked.empty() ? "" : "?" + asked),
                          accuracy_text, "moves");
    };
  });
}

void add_memory_command(CLI::App& vm, Action& action) {
  auto id = std::make_shared<std::string>();
  CLI::App* memory = vm.add_subcommand("memory", "How a running one writes its memory");
  memory->add_option("vm", *id, "Its name")->required()->type_name("VM");
  memory->footer(
      "Example: mare vm memory demo-0\n"
      "WWS: what it writes over and over. Heat: how much of each part of its memory it wrote "
      "last.\n"
      "The table tells WWS and rate of the newest cycles of its dirty-page log, the strip the WWS "
      "of all.");
  memory->callback([&action, id] {
    action = [id](Session& session) {
      return get_and_show(session, api({"vms", *id, "memory"}), memory_text, "vm");
    };
  });
}

}  // namespace mare::cli
