#include "rest/wire/projects.h"
#include "ui/cli/app.h"
#include "ui/cli/human.h"
#include "ui/cli/views.h"

namespace mare::cli {
namespace {

/// "2 of 4", "2" without a limit.
std::string of_limit(const std::string& has, const std::string& most) {
  return most.empty() ? has : has + " of " + most;
}

Columns project_columns() {
  const auto mib = [](const Json& from) {
    const auto value = number(from, "memory_mib");
    return value ? human_bytes(*value * 1024 * 1024) : std::string();
  };
  return {{"ID", [](const Json& o) { return text(o, "id"); }},
          {"POOLS", [](const Json& o) { return joined(o, "pools"); }},
          {"VMS",
           [](const Json& o) { return of_limit(text(o, "vms"), text(member(o, "quota"), "vms")); }},
          {"MEMORY", [mib](const Json& o) { return of_limit(mib(o), mib(member(o, "quota"))); }},
          {"HOSTS", [](const Json& o) {
             return of_limit(std::to_string(member(o, "hosts").size()),
                             text(member(o, "quota"), "hosts"));
           }}};
}

int print_project(Session& session, const Result<Json>& project) {
  if (!project) return session.fail(project.error());
  session.print_object(*project, project_columns());
  return kOk;
}

struct QuotaOptions {
  std::string project;
  std::optional<int> vms;
  std::string memory;
  std::optional<int> hosts;
  bool none = false;
};

int set_quota(Session& session, const QuotaOptions& options) {
  const std::string path = api({"projects", options.project, "quota"});
  if (options.none) return print_project(session, session.remove(path));
  wire::QuotaBody body{options.vms, {}, options.hosts};
  if (!options.memory.empty()) body.memory = *parse_memory(options.memory);
  if (!body.vms && !body.memory && !body.hosts) {
    return print_project(session, session.get(api({"projects", options.project})));
  }
  return print_project(session, session.put(path, wire::to_json(body)));
}

void add_quota(CLI::App& project, Action& action) {
  auto options = std::make_shared<QuotaOptions>();
  CLI::App* quota = project.add_subcommand("quota", "What its pools may have together");
  quota->add_option("project", options->project, "Its name")->required()->type_name("PROJECT");
  quota->add_flag("--none", options->none, "Take its quota away");
  quota->add_option("--vms", options->vms, "VMs, whether they run or not")
      ->check(CLI::Range(0, 1'000'000))
      ->excludes("--none");
  quota->add_option("--memory", options->memory, "Of these VMs: 4GiB, 4096 (MiB)")
      ->check(checked(parse_memory))
      ->type_name("SIZE")
      ->excludes("--none");
  quota->add_option("--hosts", options->hosts, "Hosts on which they are placed at the same time")
      ->check(CLI::Range(0, 1'000'000))
      ->excludes("--none");
  quota->footer(
      "Examples:\n  mare project quota physics --vms 16 --memory 8GiB\n"
      "  mare project quota physics --none\n"
      "It is the whole quota: what is not named is not limited. What there is already stays.");
  quota->callback([&action, options] {
    action = [options](Session& session) { return set_quota(session, *options); };
  });
}

}  // namespace

void add_project_commands(CLI::App& app, Action& action) {
  CLI::App* project = app.add_subcommand("project", "Whose pools are whose")->group("Work");
  project->require_subcommand(1);
  project->footer(
      "Examples:\n  mare pool create demo --project physics\n  mare project list\n"
      "  mare project quota physics --vms 16");
  CLI::App* list = project->add_subcommand("list", "All projects, what they have and may have");
  list->footer("Example: mare project list");
  list->callback([&action] {
    action = [](Session& session) -> int {
      auto projects = session.list(api({"projects"}));
      if (!projects) return session.fail(projects.error());
      session.print_list(*projects, project_columns());
      return kOk;
    };
  });
  auto id = std::make_shared<std::string>();
  CLI::App* show = project->add_subcommand("show", "One project");
  show->add_option("project", *id, "Its name")->required()->type_name("PROJECT");
  show->footer("Example: mare project show physics");
  show->callback([&action, id] {
    action = [id](Session& session) {
      return print_project(session, session.get(api({"projects", *id})));
    };
  });
  add_quota(*project, action);
}

}  // namespace mare::cli
