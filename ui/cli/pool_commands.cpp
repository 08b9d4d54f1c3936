#include "rest/wire/bodies.h"
#include "ui/cli/app.h"
#include "ui/cli/autoscale_commands.h"
#include "ui/cli/human.h"
#include "ui/cli/policy_options.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

Result<Json> vms_of(Session& session, const std::string& pool) {
  return session.list(api({"vms"}), query({{"pool", pool}}));
}

int list_pools(Session& session) {
  auto pools = session.list(api({"pools"}));
  if (!pools) return session.fail(pools.error());
  session.print_list(*pools, pool_columns(session.clock().wall_now()));
  return kOk;
}

int show_pool(Session& session, const std::string& id) {
  auto pool = session.get(api({"pools", id}));
  if (!pool) return session.fail(pool.error());
  const WallTime now = session.clock().wall_now();
  session.print_object(*pool, pool_columns(now));
  if (session.wants(Output::JsonText) || session.wants(Output::Name)) return kOk;
  auto vms = vms_of(session, id);
  if (!vms) return session.fail(vms.error());
  std::fputs("\n", stdout);
  session.print_list(*vms, vm_columns(now));
  return kOk;
}

int create_pool(Session& session, const wire::PoolBody& body) {
  auto operation = session.post(api({"pools"}), wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.look = look_at_pool;
  follow.done = "pool " + body.id.value + " is ready";
  follow.on_success = [pool = body.id.value](Session& s, const Json&) {
    if (auto vms = vms_of(s, pool)) s.print_list(*vms, vm_columns(s.clock().wall_now()));
  };
  return finish(session, *operation, follow);
}

int delete_pool(Session& session, const std::string& id, bool force) {
  auto operation = session.remove(api({"pools", id}) + (force ? "?force=true" : ""));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.done = "pool " + id + " is gone";
  return finish(session, *operation, follow);
}

struct CreateOptions {
  wire::PoolBody body;
  std::string memory;
  std::vector<std::string> hosts;
  PolicyOptions policy;
};

void add_create(CLI::App& pool, Action& action) {
  auto options = std::make_shared<CreateOptions>();
  CLI::App* create = pool.add_subcommand("create", "Start VMs that jobs can run on");
  create->add_option("pool", options->body.id.value, "A name for it")
      ->required()
      ->type_name("POOL");
  create->add_option("-n,--size", options->body.size, "How many VMs")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  create->add_option("-m,--memory", options->memory, "Of each VM: 192 (MiB), 1GiB; default 192")
      ->check(checked(parse_memory))
      ->type_name("SIZE");
  create->add_option("--vcpus", options->body.vcpus, "Of each VM")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  create->add_option("--image", options->body.image, "What they boot; see 'mare image list'")
      ->capture_default_str();
  create->add_option("--hosts", options->hosts, "Only on these: h1,h2")
      ->delimiter(',')
      ->type_name("HOSTS");
  create->add_option("--project", options->body.project.value, "Whose quota it counts against")
      ->capture_default_str()
      ->type_name("PROJECT");
  add_policy_options(*create, options->policy);
  create->footer(
      "Examples:\n  mare pool create demo --size 4\n"
      "  mare pool create demo -n 2 -m 512MiB --hosts h1,h2 --no-wait");
  create->callback([&action, options] {
    action = [options](Session& session) {
      wire::PoolBody body = options->body;
      for (const std::string& host : options->hosts) body.hosts.emplace_back(host);
      if (!options->memory.empty()) body.memory = *parse_memory(options->memory);
      body.move_policy = policy_change(options->policy);
      return create_pool(session, body);
    };
  });
}

struct ScaleOptions {
  std::string pool;
  int size = 1;
  bool best_effort = false;
};

int scale_pool(Session& session, const ScaleOptions& options) {
  wire::PoolPatchBody body;
  body.size = options.size;
  body.best_effort = options.best_effort;
  auto operation = session.patch(api({"pools", options.pool}), wire::to_json(body));
  if (!operation) return session.fail(operation.error());
  Follow follow;
  follow.look = look_at_pool;
  follow.on_success = [pool = options.pool](Session& s, const Json& ended) {
    s.say(text(ended, "reason"));
    if (auto vms = vms_of(s, pool)) s.print_list(*vms, vm_columns(s.clock().wall_now()));
  };
  return finish(session, *operation, follow);
}

void add_scale(CLI::App& pool, Action& action) {
  auto options = std::make_shared<ScaleOptions>();
  CLI::App* scale = pool.add_subcommand("scale", "Make it larger or smaller");
  scale->add_option("pool", options->pool, "Its name")->required()->type_name("POOL");
  scale->add_option("size", options->size, "How many VMs it is to have")
      ->required()
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  scale->add_flag("--best-effort", options->best_effort,
                  "Keep what could be reached; otherwise all or nothing");
  scale->footer(
      "Examples:\n  mare pool scale demo 8\n  mare pool scale demo 8 --best-effort\n"
      "VMs that run ranks are never taken; of the others those with the highest numbers go first.\n"
      "Exit code 1 tells that the size was not reached; what was reached is said, and 'mare pool\n"
      "show' has it.");
  scale->callback([&action, options] {
    action = [options](Session& session) { return scale_pool(session, *options); };
  });
}

int set_policy(Session& session, const std::string& id, const wire::PoolPatchBody& body) {
  auto pool = session.patch(api({"pools", id}), wire::to_json(body));
  if (!pool) return session.fail(pool.error());
  session.print_object(*pool, pool_columns(session.clock().wall_now()));
  return kOk;
}

struct SetPolicyOptions {
  std::string pool;
  bool reset = false;
  PolicyOptions policy;
};

void add_set_policy(CLI::App& pool, Action& action) {
  auto options = std::make_shared<SetPolicyOptions>();
  CLI::App* set = pool.add_subcommand("set-policy", "How its VMs move, unless a migration differs");
  set->add_option("pool", options->pool, "Its name")->required()->type_name("POOL");
  add_policy_options(*set, options->policy);
  set->add_flag("--reset", options->reset, "First forget what was set before");
  set->footer(
      "Examples:\n  mare pool set-policy demo --priority least-traffic --bandwidth 50MB/s\n"
      "  mare pool set-policy demo --bandwidth none\n  mare pool set-policy demo --reset\n"
      "Holds for moves that are asked for from now on, drains included.");
  set->callback([&action, options] {
    action = [options](Session& session) {
      const PolicyChange base = options->reset ? default_policy() : PolicyChange{};
      return set_policy(session, options->pool, {policy_change(options->policy, base)});
    };
  });
}

}  // namespace

void add_pool_commands(CLI::App& app, Action& action) {
  CLI::App* pool = app.add_subcommand("pool", "Groups of equal VMs")->group("Work");
  pool->require_subcommand(1);
  pool->footer(
      "Examples:\n  mare pool create demo --size 3\n  mare pool scale demo 5\n  mare pool show "
      "demo\n"
      "  mare pool delete demo");
  CLI::App* list = pool->add_subcommand("list", "All pools");
  list->footer("Example: mare pool list");
  list->callback([&action] { action = list_pools; });

  auto id = std::make_shared<std::string>();
  CLI::App* show = pool->add_subcommand("show", "One pool and its VMs");
  show->add_option("pool", *id, "Its name")->required()->type_name("POOL");
  show->footer("Example: mare pool show demo");
  show->callback(
      [&action, id] { action = [id](Session& session) { return show_pool(session, *id); }; });

  add_create(*pool, action);
  add_scale(*pool, action);
  add_autoscale_commands(*pool, action);
  add_set_policy(*pool, action);

  auto force = std::make_shared<bool>(false);
  CLI::App* remove = pool->add_subcommand("delete", "End its VMs and forget it");
  remove->add_option("pool", *id, "Its name")->required()->type_name("POOL");
  remove->add_flag("-f,--force", *force, "Cancel its jobs first");
  remove->footer("Example: mare pool delete demo --force");
  remove->callback([&action, id, force] {
    action = [id, force](Session& session) { return delete_pool(session, *id, *force); };
  });
}

}  // namespace mare::cli
