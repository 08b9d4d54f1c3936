#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "rest/wire/bodies.h"
#include "ui/cli/app.h"
#include "ui/cli/forecast_commands.h"
#include "ui/cli/forecast_views.h"
#include "ui/cli/human.h"
#include "ui/cli/policy_options.h"
#include "ui/cli/terminal.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

struct MigrateOptions {
  std::string vm;
  std::string destination;
  PolicyOptions policy;
  std::string timeout;
  std::string moment;
  std::string within;
  bool dry_run = false;
  bool force = false;
};

int migrate(Session& session, const MigrateOptions& options) {
  wire::MigrationBody body;
  if (!options.destination.empty()) body.destination = HostId{options.destination};
  body.policy = policy_change(options.policy);
  if (!options.timeout.empty()) body.timeout = duration_of(options.timeout);
  if (!options.moment.empty()) body.timing.moment = *moment_from(options.moment);
  body.timing.within = options.within.empty() ? usual_wait(body.timing.moment)
                                              : Seconds{duration_of(options.within)};
  body.force = options.force;
  const std::string path = api({"vms", options.vm, "migrations"});
  auto operation =
      session.post(path + (options.dry_run ? "?dry_run=true" : ""), wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  if (options.dry_run) return finish_forecast(session, *operation);
  Follow follow;
  follow.look = look_at_migration;
  follow.on_success = [](Session& s, const Json& done) {
    auto migration = s.get(api({"migrations", text(done, "id")}));
    if (!migration) return;
    std::printf("%s: %s\n", text(done, "id").c_str(), migration_summary(*migration).c_str());
  };
  return finish(session, *operation, follow);
}

int list_migrations(Session& session, const std::string& vm) {
  auto migrations = session.list(api({"migrations"}), query({{"vm", vm}}));
  if (!migrations) return session.fail(migrations.error());
  session.print_list(*migrations, migration_columns(session.clock().wall_now()));
  return kOk;
}

int show_migration(Session& session, const std::string& id) {
  auto migration = session.get(api({"migrations", id}));
  if (!migration) return session.fail(migration.error());
  session.print_object(*migration, migration_columns(session.clock().wall_now()));
  const Json& rounds = member(*migration, "rounds");
  if (session.wants(Output::JsonText) || session.wants(Output::Name) || rounds.empty()) return kOk;
  std::printf("\n%s", list_text(round_columns(), rounds, false, wants_colour(1)).c_str());
  return kOk;
}

int cancel_migration(Session& session, const std::string& id) {
  auto operation = session.post(api({"migrations", id}) + ":cancel");
  if (!operation) return session.fail(operation.error());
  session.say("asked " + id + " to stop; the VM stays at its source");
  if (session.wants(Output::JsonText)) session.print_json(*operation);
  return kOk;
}

/// Seconds as a client's stopwatch tells them, also negative: a job may have run faster.
std::string check_added_time(const std::string& written) {
  double value = 0;
  const auto* end = written.data() + written.size();
  const auto parsed = std::from_chars(written.data(), end, value);
  if (parsed.ec == std::errc{} && parsed.ptr == end && std::isfinite(value)) return "";
  return "'" + written + "' is no number of seconds: write 0.4, say";
}

int report_migration(Session& session, const std::string& id, double added_s) {
  auto forecast =
      session.post(api({"migrations", id}) + ":report", wire::to_json(wire::ReportBody{added_s}));
  if (!forecast) return session.fail(forecast.error());
  if (session.wants(Output::JsonText)) {
    session.print_json(*forecast);
  } else if (session.wants(Output::Name)) {
    std::printf("%s\n", printable(text(*forecast, "id")).c_str());
  } else {
    std::fputs(report_text(*forecast).c_str(), stdout);
  }
  return kOk;
}

}  // namespace

void add_migration_commands(CLI::App& app, Action& action) {
  auto options = std::make_shared<MigrateOptions>();
  CLI::App* move =
      app.add_subcommand("migrate", "Move a running VM to another host")->group("Work");
  move->add_option("vm", options->vm, "Which")->required()->type_name("VM");
  move->add_option("--to", options->destination, "Where to; else Maré chooses")->type_name("HOST");
  add_policy_options(*move, options->policy);
  move->add_option("--timeout", options->timeout,
                   "mared cancels it then, and the VM stays where it was (default 10m)")
      ->check(check_duration)
      ->type_name("TIME");
  CLI::Option* moment =
      move->add_option(
              "--moment", options->moment,
              "now (default), trough: when it is going to write least, or safe-point: when "
              "its ranks are in an MPI collective (of a job with --safe-points)")
          ->check(CLI::IsMember(std::vector<std::string>{"now", "trough", "safe-point"}))
          ->type_name("WHEN");
  move->add_option("--within", options->within,
                   "Wait for that moment no longer than this (10m; for a safe point 5s)")
      ->check(check_duration)
      ->needs(moment)
      ->type_name("TIME");
  move->add_flag("--dry-run", options->dry_run,
                 "Only forecast what every strategy would cost; nothing moves");
  move->add_flag("-f,--force", options->force,
                 "Also when the forecast says that it had better not");
  move->footer(
      "Examples:\n  mare migrate demo-1 --to h3 --dry-run\n  mare migrate demo-1 --to h3\n"
      "  mare migrate demo-1 --to h3 --strategy compressed\n"
      "  mare migrate demo-1 --to h3 --time-limit 60s --at-limit post-copy\n"
      "  mare migrate demo-1 --to h3 --bandwidth 50MB/s --max-downtime 300ms\n"
      "What is not stated is as the pool has it: 'mare pool show'.\n"
      "Ctrl-C ends the waiting only; 'mare migration cancel ID' ends the migration.");
  move->callback([&action, options] {
    action = [options](Session& session) { return migrate(session, *options); };
  });

  CLI::App* migration =
      app.add_subcommand("migration", "Migrations, running and past")->group("Work");
  migration->require_subcommand(1);
  migration->footer("Examples:\n  mare migration list --vm demo-1\n  mare migration show op-7");
  auto vm = std::make_shared<std::string>();
  CLI::App* list = migration->add_subcommand("list", "Newest first");
  list->add_option("--vm", *vm, "Of this VM")->type_name("VM");
  list->footer("Example: mare migration list -o wide");
  list->callback(
      [&action, vm] { action = [vm](Session& session) { return list_migrations(session, *vm); }; });

  auto id = std::make_shared<std::string>();
  CLI::App* show = migration->add_subcommand("show", "One, with its rounds");
  show->add_option("migration", *id, "Its id")->required()->type_name("ID");
  show->footer("Example: mare migration show op-7");
  show->callback(
      [&action, id] { action = [id](Session& session) { return show_migration(session, *id); }; });

  CLI::App* cancel = migration->add_subcommand("cancel", "Stop one that has not switched yet");
  cancel->add_option("migration", *id, "Its id")->required()->type_name("ID");
  cancel->footer("Example: mare migration cancel op-7");
  cancel->callback([&action, id] {
    action = [id](Session& session) { return cancel_migration(session, *id); };
  });

  auto added = std::make_shared<std::string>();
  CLI::App* report = migration->add_subcommand(
      "report", "Tell what one cost its job, for forecasts to learn from");
  report->add_option("migration", *id, "Its id")->required()->type_name("ID");
  report
      ->add_option("--added-job-time", *added,
                   "How much longer the job ran because of it, in seconds: 0.4")
      ->required()
      ->check(check_added_time)
      ->type_name("SECONDS");
  report->footer(
      "Example: mare migration report op-7 --added-job-time 0.4\n"
      "A later report takes the place of an earlier one; 'mare explain op-7' shows it beside the "
      "forecast.");
  report->callback([&action, id, added] {
    action = [id, added](Session& session) {
      return report_migration(session, *id, std::strtod(added->c_str(), nullptr));
    };
  });
}

}  // namespace mare::cli
