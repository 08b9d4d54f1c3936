#include "rest/wire/bodies.h"
#include "ui/cli/app.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

struct VmFilter {
  std::string pool;
  std::string host;
};

int list_vms(Session& session, const VmFilter& filter) {
  auto vms = session.list(api({"vms"}), query({{"pool", filter.pool}, {"host", filter.host}}));
  if (!vms) return session.fail(vms.error());
  session.print_list(*vms, vm_columns(session.clock().wall_now()));
  return kOk;
}

int show_vm(Session& session, const std::string& id) {
  auto vm = session.get(api({"vms", id}));
  if (!vm) return session.fail(vm.error());
  session.print_object(*vm, vm_columns(session.clock().wall_now()));
  return kOk;
}

int start_vm(Session& session, const std::string& id, const std::string& host) {
  wire::VmStartBody body;
  if (!host.empty()) body.host = HostId{host};
  auto operation = session.post(api({"vms", id}) + ":start", wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.done = "VM " + id + " runs";
  return finish(session, *operation, follow);
}

int stop_vm(Session& session, const std::string& id, bool force) {
  auto operation = session.post(api({"vms", id}) + ":stop", wire::to_json(wire::VmStopBody{force}));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.done = "VM " + id + " is stopped";
  return finish(session, *operation, follow);
}

}  // namespace

void add_vm_commands(CLI::App& app, Action& action) {
  CLI::App* vm = app.add_subcommand("vm", "Single VMs; each runs one rank of a job")->group("Work");
  vm->require_subcommand(1);
  vm->footer("Examples:\n  mare vm list --host h1\n  mare vm show demo-0\n  mare vm stop demo-0");

  auto filter = std::make_shared<VmFilter>();
  CLI::App* list = vm->add_subcommand("list", "All VMs, or some");
  list->add_option("--pool", filter->pool, "Of this pool")->type_name("POOL");
  list->add_option("--host", filter->host, "On this host")->type_name("HOST");
  list->footer("Example: mare vm list --pool demo -o wide");
  list->callback([&action, filter] {
    action = [filter](Session& session) { return list_vms(session, *filter); };
  });

  auto id = std::make_shared<std::string>();
  auto host = std::make_shared<std::string>();
  auto force = std::make_shared<bool>(false);
  CLI::App* show = vm->add_subcommand("show", "One VM");
  show->add_option("vm", *id, "Its name")->required()->type_name("VM");
  show->footer("Example: mare vm show demo-0");
  show->callback(
      [&action, id] { action = [id](Session& session) { return show_vm(session, *id); }; });

  add_memory_command(*vm, action);

  CLI::App* start = vm->add_subcommand("start", "Start a stopped one");
  start->add_option("vm", *id, "Its name")->required()->type_name("VM");
  start->add_option("--host", *host, "There; else Maré chooses")->type_name("HOST");
  start->footer("Example: mare vm start demo-0 --host h2");
  start->callback([&action, id, host] {
    action = [id, host](Session& session) { return start_vm(session, *id, *host); };
  });

  CLI::App* stop = vm->add_subcommand("stop", "Shut one down");
  stop->add_option("vm", *id, "Its name")->required()->type_name("VM");
  stop->add_flag("-f,--force", *force, "Do not ask the guest first, also while a job runs on it");
  stop->footer("Example: mare vm stop demo-0");
  stop->callback([&action, id, force] {
    action = [id, force](Session& session) { return stop_vm(session, *id, *force); };
  });
}

}  // namespace mare::cli
