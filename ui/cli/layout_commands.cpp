#include "ui/cli/layout_commands.h"

#include <cstdio>

#include "rest/wire/bodies.h"
#include "ui/cli/human.h"
#include "ui/cli/plan_view.h"
#include "ui/cli/terminal.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

struct LayoutOptions {
  std::string job;
  int hosts = 0;
  std::string remaining;
  bool force = false;
  bool dry_run = false;
};

Columns planned_move_columns() {
  return {{"VM", [](const Json& o) { return text(o, "vm"); }},
          {"FROM", [](const Json& o) { return text(o, "from"); }},
          {"TO", [](const Json& o) { return text(o, "to"); }},
          {"BYTES", [](const Json& o) { return human_bytes(number(o, "bytes").value_or(0)); },
           Shown::Always, true},
          {"ADDED JOB TIME",
           [](const Json& o) { return human_ms(number(o, "added_job_time_s").value_or(0) * 1000); },
           Shown::Always, true},
          {"WHY", [](const Json& o) { return text(o, "reason"); }}};
}

int change_layout(Session& session, const std::string& verb, const LayoutOptions& options) {
  wire::LayoutBody body;
  if (options.hosts > 0) body.hosts = options.hosts;
  if (!options.remaining.empty()) body.remaining = duration_of(options.remaining);
  body.force = options.force;
  const std::string path = api({"jobs", options.job}) + ":" + verb;
  auto operation =
      session.post(path + (options.dry_run ? "?dry_run=true" : ""), wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  if (options.dry_run) {
    follow.answer = [](Session&, const Json& done) -> Result<Json> { return done; };
    follow.show = [](Session& shown, const Json& planned) {
      show_planned_moves(shown, planned, planned_move_columns());
    };
  } else {
    follow.on_success = [](Session&, const Json& done) {
      std::printf("%s: %s\n", printable(text(done, "id")).c_str(),
                  printable(text(done, "reason")).c_str());
    };
  }
  return finish(session, *operation, follow);
}

}  // namespace

void add_layout_commands(CLI::App& job, Action& action) {
  auto options = std::make_shared<LayoutOptions>();
  const auto add = [&](const std::string& verb, const char* help, const char* example) {
    CLI::App* command = job.add_subcommand(verb, help);
    command->add_option("job", options->job, "Which; it must be running")
        ->required()
        ->type_name("JOB");
    command->add_option("--hosts", options->hosts, "On how many at most; else as is best")
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("N");
    command
        ->add_option("--remaining", options->remaining,
                     "How long it will still run (20m); else by its earlier runs, or as long again")
        ->check(check_duration)
        ->type_name("TIME");
    command->add_flag("-f,--force", options->force, "Also when the job loses by it");
    command->add_flag("--dry-run", options->dry_run, "Only plan and forecast it; nothing moves");
    command->footer(std::string("Example: ") + example +
                    "\nVMs move only if the job gains more over its remaining time than the moves "
                    "cost it;\nelse it is refused, with the figures.");
    command->callback([&action, options, verb] {
      action = [options, verb](Session& session) { return change_layout(session, verb, *options); };
    });
  };
  add("spread", "Move its VMs to more hosts, while it runs", "mare job spread job-1 --dry-run");
  add("pack", "Move its VMs to fewer hosts, while it runs",
      "mare job pack job-1 --hosts 2 --force");
}

}  // namespace mare::cli
