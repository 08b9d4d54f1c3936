#include "rest/wire/bodies.h"
#include "ui/cli/app.h"
#include "ui/cli/evacuate_command.h"
#include "ui/cli/forecast_commands.h"
#include "ui/cli/policy_options.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

int list_hosts(Session& session) {
  auto hosts = session.list(api({"hosts"}));
  if (!hosts) return session.fail(hosts.error());
  session.print_list(*hosts, host_columns(session.clock().wall_now()));
  return kOk;
}

int show_host(Session& session, const std::string& id) {
  auto host = session.get(api({"hosts", id}));
  if (!host) return session.fail(host.error());
  session.print_object(*host, host_columns(session.clock().wall_now()));
  return kOk;
}

int add_host(Session& session, const wire::HostBody& body) {
  auto operation = session.post(api({"hosts"}), wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.done = "host " + body.id.value + " is in use";
  return finish(session, *operation, follow);
}

int remove_host(Session& session, const std::string& id) {
  auto operation = session.remove(api({"hosts", id}));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.done = "host " + id + " is removed";
  return finish(session, *operation, follow);
}

struct DrainOptions {
  std::string host;
  PolicyOptions policy;
  bool dry_run = false;
};

int drain_host(Session& session, const DrainOptions& options) {
  const std::string& id = options.host;
  const wire::DrainBody body{policy_change(options.policy)};
  auto operation =
      session.post(api({"hosts", id}) + ":drain" + (options.dry_run ? "?dry_run=true" : ""),
                   wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  if (options.dry_run) return finish_drain_forecast(session, *operation);
  Follow follow;
  follow.done = "host " + id +
                " is drained: no VM runs there, and none will be placed there until "
                "'mare host activate " +
                id + "'; what came of its forecast: 'mare explain " + text(*operation, "id") + "'";
  return finish(session, *operation, follow);
}

int activate_host(Session& session, const std::string& id) {
  auto host = session.post(api({"hosts", id}) + ":activate");
  if (!host) return session.fail(host.error());
  session.print_object(*host, host_columns(session.clock().wall_now()));
  return kOk;
}

}  // namespace

void add_host_commands(CLI::App& app, Action& action) {
  CLI::App* host = app.add_subcommand("host", "Machines that run VMs")->group("Cluster");
  host->require_subcommand(1);
  host->footer(
      "Examples:\n  mare host list\n  mare host add h4 --address 10.77.0.14:7412\n"
      "  mare host drain h2    move its VMs away, e.g. before maintenance\n"
      "  mare host evacuate h2 --within 60s    it will fail: save what can be saved");

  CLI::App* list = host->add_subcommand("list", "All hosts");
  list->footer("Example: mare host list -o wide");
  list->callback([&action] { action = list_hosts; });

  auto id = std::make_shared<std::string>();
  const auto named = [&](const char* verb, const char* help, const char* example, auto act) {
    CLI::App* command = host->add_subcommand(verb, help);
    command->add_option("host", *id, "Its name")->required()->type_name("HOST");
    command->footer(std::string("Example: ") + example);
    command->callback(
        [&action, id, act] { action = [id, act](Session& session) { return act(session, *id); }; });
  };
  named("show", "One host", "mare host show h1", show_host);

  auto body = std::make_shared<wire::HostBody>();
  CLI::App* add = host->add_subcommand("add", "Take a host into use");
  add->add_option("host", body->id.value, "A name for it")->required()->type_name("HOST");
  add->add_option("--address", body->address, "Of its agent: HOST:PORT")
      ->required()
      ->type_name("ADDRESS");
  add->footer(
      "Example: mare host add h4 --address 10.77.0.14:7412\n"
      "On the host runs mare-agent; its certificate must be of the same CA as mared's.");
  add->callback(
      [&action, body] { action = [body](Session& session) { return add_host(session, *body); }; });

  named("remove", "Forget a host that runs no VMs", "mare host drain h2 && mare host remove h2",
        remove_host);
  auto options = std::make_shared<DrainOptions>();
  CLI::App* drain = host->add_subcommand("drain", "Move its VMs to other hosts, place no new ones");
  drain->add_option("host", options->host, "Its name")->required()->type_name("HOST");
  add_policy_options(*drain, options->policy);
  drain->add_flag("--dry-run", options->dry_run, "Only forecast what it would cost; nothing moves");
  drain->footer(
      "Examples:\n  mare host drain h2 --dry-run\n"
      "  mare host drain h2 --dry-run -o wide    with every strategy for each VM\n"
      "  mare host drain h2 --priority least-traffic --bandwidth 50MB/s\n"
      "What is not stated is as each VM's pool has it. Afterwards: 'mare explain ID'.");
  drain->callback([&action, options] {
    action = [options](Session& session) { return drain_host(session, *options); };
  });
  add_evacuate_command(*host, action);
  named("activate", "Use a drained or evacuated host again", "mare host activate h2",
        activate_host);
}

}  // namespace mare::cli
