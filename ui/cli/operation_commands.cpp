#include <cstdio>

#include "ui/cli/app.h"
#include "ui/cli/terminal.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

struct OperationListFilter {
  std::string target;
  std::string kind;
  bool unfinished = false;
  std::size_t limit = 30;
};

int list_operations(Session& session, const OperationListFilter& filter) {
  auto operations = session.list(api({"operations"}),
                                 query({{"target", filter.target},
                                        {"kind", filter.kind},
                                        {"outcome", filter.unfinished ? "pending" : ""}}),
                                 filter.limit);
  if (!operations) return session.fail(operations.error());
  session.print_list(*operations, operation_columns(session.clock().wall_now()));
  return kOk;
}

int show_operation(Session& session, const std::string& id) {
  auto operation = session.get(api({"operations", id}));
  if (!operation) return session.fail(operation.error());
  session.print_object(*operation, operation_columns(session.clock().wall_now()));
  if (session.wants(Output::JsonText) || session.wants(Output::Name)) return kOk;
  auto history = session.get(api({"operations", id, "events"}));
  if (!history) return session.fail(history.error());
  std::printf(
      "\n%s",
      list_text(history_columns(), member(*history, "items"), false, wants_colour(1)).c_str());
  return kOk;
}

int cancel_operation(Session& session, const std::string& id) {
  auto operation = session.post(api({"operations", id}) + ":cancel");
  if (!operation) return session.fail(operation.error());
  session.say("asked " + id + " (" + text(*operation, "kind") + " " + text(*operation, "target") +
              ") to stop");
  if (session.wants(Output::JsonText)) session.print_json(*operation);
  return kOk;
}

int wait_operation(Session& session, const std::string& id) {
  auto operation = session.get(api({"operations", id}));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  const std::string kind = text(*operation, "kind");
  if (kind == "vm.migrate") follow.look = look_at_migration;
  if (kind == "pool.create") follow.look = look_at_pool;
  follow.done = kind + " " + text(*operation, "target") + " succeeded";
  return finish(session, *operation, follow);
}

}  // namespace

void add_operation_commands(CLI::App& app, Action& action) {
  CLI::App* operation =
      app.add_subcommand("operation", "What mared was asked to do, and how far it is")
          ->group("Cluster");
  operation->require_subcommand(1);
  operation->footer("Examples:\n  mare operation list --unfinished\n  mare operation show op-3");

  auto filter = std::make_shared<OperationListFilter>();
  CLI::App* list = operation->add_subcommand("list", "Newest first");
  list->add_option("--target", filter->target, "On this host, pool, VM or job")->type_name("ID");
  list->add_option("--kind", filter->kind, "Of this kind: vm.migrate, pool.create...")
      ->type_name("KIND");
  list->add_flag("--unfinished", filter->unfinished, "Only those still going on");
  list->add_option("--limit", filter->limit, "At most so many")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  list->footer("Example: mare operation list --target demo-1");
  list->callback([&action, filter] {
    action = [filter](Session& session) { return list_operations(session, *filter); };
  });

  auto id = std::make_shared<std::string>();
  const auto named = [&](const char* verb, const char* help, const char* example, auto act) {
    CLI::App* command = operation->add_subcommand(verb, help);
    command->add_option("operation", *id, "Its id")->required()->type_name("ID");
    command->footer(std::string("Example: ") + example);
    command->callback(
        [&action, id, act] { action = [id, act](Session& session) { return act(session, *id); }; });
  };
  named("show", "One, with its history", "mare operation show op-3", show_operation);
  named("cancel", "Ask one to stop", "mare operation cancel op-3", cancel_operation);
  named("wait", "Wait for its end", "mare operation wait op-3 --timeout 60s", wait_operation);
}

}  // namespace mare::cli
