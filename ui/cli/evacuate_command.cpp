#include "ui/cli/evacuate_command.h"

#include <cstdio>

#include "rest/wire/bodies.h"
#include "ui/cli/human.h"
#include "ui/cli/plan_view.h"
#include "ui/cli/terminal.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

struct EvacuateOptions {
  std::string host;
  std::string within;
  std::string reason;
  bool dry_run = false;
};

Columns evacuation_columns() {
  const auto seconds = [](const char* name) {
    return [name](const Json& o) { return human_ms(number(o, name).value_or(0) * 1000); };
  };
  return {{"VM", [](const Json& o) { return text(o, "vm"); }},
          {"TO", [](const Json& o) { return text(o, "to"); }},
          {"BY", [](const Json& o) { return text(o, "strategy"); }},
          {"BEGINS", seconds("begins_s"), Shown::Always, true},
          {"ENDS AT LATEST", seconds("ends_s"), Shown::Always, true}};
}

Columns fate_columns() {
  return {{"VM", [](const Json& o) { return text(o, "vm"); }},
          {"FATE", [](const Json& o) { return text(o, "fate"); }},
          {"DETAIL", [](const Json& o) { return text(o, "detail"); }}};
}

int evacuate(Session& session, const EvacuateOptions& options) {
  const wire::EvacuationBody body{duration_of(options.within), options.reason};
  const std::string path = api({"hosts", options.host}) + ":evacuate";
  auto operation =
      session.post(path + (options.dry_run ? "?dry_run=true" : ""), wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  if (options.dry_run) {
    follow.answer = [](Session&, const Json& done) -> Result<Json> { return done; };
    follow.show = [](Session& shown, const Json& planned) {
      show_planned_moves(shown, planned, evacuation_columns());
    };
  } else {
    follow.on_success = [](Session&, const Json& done) {
      const Json& fates = member(member(done, "request"), "fates");
      if (!fates.empty()) {
        std::fputs(list_text(fate_columns(), fates, false, wants_colour(1)).c_str(), stdout);
      }
      const std::string host = printable(text(done, "target"));
      std::printf("host %s can fail: %s; none will be placed there until 'mare host activate %s'\n",
                  host.c_str(), printable(text(done, "reason")).c_str(), host.c_str());
    };
  }
  return finish(session, *operation, follow);
}

}  // namespace

void add_evacuate_command(CLI::App& host, Action& action) {
  auto options = std::make_shared<EvacuateOptions>();
  CLI::App* command = host.add_subcommand(
      "evacuate", "It will fail soon: move what can leave in time, save the jobs of the rest");
  command->add_option("host", options->host, "Its name")->required()->type_name("HOST");
  command->add_option("--within", options->within, "How soon (60s, 5m)")
      ->required()
      ->check(check_duration)
      ->type_name("TIME");
  command->add_option("--reason", options->reason, "Who says so; kept with the operation")
      ->type_name("TEXT");
  command->add_flag("--dry-run", options->dry_run, "Only forecast and plan it; nothing moves");
  command->footer(
      "Example: mare host evacuate h2 --within 60s --reason 'DIMM B2 fails'\n"
      "Asked for again while it goes on, the earlier deadline counts.");
  command->callback([&action, options] {
    action = [options](Session& session) { return evacuate(session, *options); };
  });
}

}  // namespace mare::cli
