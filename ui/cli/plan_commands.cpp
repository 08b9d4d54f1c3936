#include <fstream>
#include <iterator>

#include "orchestrator/policy/job_layout.h"
#include "orchestrator/policy/planner.h"
#include "ui/cli/app.h"
#include "ui/cli/human.h"
#include "ui/cli/plan_file.h"

namespace mare::cli {
namespace {

struct PlanOptions {
  std::string from;
  bool rebalance = false;
  bool place = false;
  bool best_effort = false;
  std::string drain;
  std::string spread;
  std::string pack;
  std::optional<bool> n_plus_one;
  std::optional<int> max_moves;
  int hosts = 0;
};

Result<PlanFile> load(const PlanOptions& options) {
  std::ifstream file(options.from, std::ios::binary);
  if (!file) {
    return make_error(Code::NotFound, "can't read '" + options.from + "'",
                      "docs/placement.md describes the file");
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto plan = read_plan(text, options.from);
  if (!plan) return plan.error();
  if (options.n_plus_one) plan->policy.n_plus_one = *options.n_plus_one;
  if (options.max_moves) plan->policy.max_moves = *options.max_moves;
  return plan;
}

Json moves_json(const std::vector<policy::Relocation>& moves) {
  Json out = Json::array();
  for (const auto& move : moves) {
    out.push_back(Json{{"step", move.step},
                       {"vm", move.vm.value},
                       {"from", move.from.value},
                       {"to", move.to.value},
                       {"score_after", move.score_after},
                       {"added_job_time_s", move.cost.added_job_time_s},
                       {"bytes", move.cost.bytes},
                       {"reason", move.reason}});
  }
  return out;
}

Json refused_json(const std::vector<policy::Refusal>& refused) {
  Json out = Json::array();
  for (const auto& one : refused) out.push_back(Json{{"vm", one.vm.value}, {"reason", one.reason}});
  return out;
}

std::string score_words(const Json& item) {
  const auto score = number(item, "score_after");
  if (!score) return {};
  std::string text = std::to_string(*score);
  return text.substr(0, text.find('.') + 5);
}

Columns step_columns() {
  return {
      {"STEP", [](const Json& item) { return text(item, "step"); }, Shown::Always, true},
      {"VM", [](const Json& item) { return text(item, "vm"); }},
      {"FROM", [](const Json& item) { return text(item, "from"); }},
      {"TO", [](const Json& item) { return text(item, "to"); }},
      {"ADDED",
       [](const Json& item) {
         return human_ms(number(item, "added_job_time_s").value_or(0) * 1000);
       },
       Shown::Always, true},
      {"SCORE", score_words, Shown::Always, true},
      {"WHY", [](const Json& item) { return text(item, "reason"); }},
  };
}

Columns placed_columns() {
  return {{"VM", [](const Json& item) { return text(item, "vm"); }},
          {"HOST", [](const Json& item) { return text(item, "host"); }}};
}

/// The list on stdout, the sentence and what was refused beside it.
int show(Session& session, const Json& plan, const char* list, const Columns& columns,
         bool possible) {
  if (session.wants(Output::JsonText)) {
    session.print_json(plan);
  } else {
    Json items = member(plan, list);
    for (Json& item : items) item["id"] = member(item, "vm");
    if (!items.empty()) session.print_list(items, columns);
    session.say(text(plan, "reason"));
    for (const Json& one : member(plan, "refused")) {
      session.say("  '" + text(one, "vm") + "': " + text(one, "reason"));
    }
  }
  return possible ? kOk : kConflict;
}

int plan_rebalance(Session& session, const PlanFile& file) {
  const auto plan = policy::rebalance(file.cluster, file.policy);
  return show(session,
              Json{{"kind", "rebalance"},
                   {"moves", moves_json(plan.moves)},
                   {"score_before", plan.score_before},
                   {"score_after", plan.score_after},
                   {"exposed_hosts_before", plan.exposed_before},
                   {"exposed_hosts_after", plan.exposed_after},
                   {"added_job_time_s", plan.cost.added_job_time_s},
                   {"bytes", plan.cost.bytes},
                   {"refused", Json::array()},
                   {"reason", plan.reason}},
              "moves", step_columns(), true);
}

int plan_drain(Session& session, const PlanFile& file, const std::string& host) {
  const auto plan = policy::drain(file.cluster, file.policy, HostId{host});
  if (!plan) return session.fail(plan.error());
  return show(session,
              Json{{"kind", "drain"},
                   {"host", host},
                   {"moves", moves_json(plan->moves)},
                   {"empties", plan->empties()},
                   {"added_job_time_s", plan->cost.added_job_time_s},
                   {"bytes", plan->cost.bytes},
                   {"refused", refused_json(plan->refused)},
                   {"reason", plan->reason}},
              "moves", step_columns(), plan->empties());
}

int plan_place(Session& session, const PlanFile& file, bool best_effort) {
  const auto wish = best_effort ? policy::Wish::BestEffort : policy::Wish::AllOrNothing;
  const auto plan = policy::place_new(file.cluster, file.policy, wish);
  Json placed = Json::array();
  for (const auto& one : plan.placed) {
    placed.push_back(Json{{"vm", one.vm.value}, {"host", one.host.value}});
  }
  return show(session,
              Json{{"kind", "place"},
                   {"placed", std::move(placed)},
                   {"refused", refused_json(plan.refused)},
                   {"score_before", plan.score_before},
                   {"score_after", plan.score_after},
                   {"reason", plan.reason}},
              "placed", placed_columns(), plan.refused.empty());
}

int plan_layout(Session& session, const PlanFile& file, const std::string& job,
                policy::Layout layout, int hosts) {
  const auto remaining = file.remaining_s.find(job);
  if (remaining == file.remaining_s.end()) {
    return session.fail(make_error(Code::NotFound, "no job '" + job + "' in the file's \"jobs\"",
                                   "say there how many seconds of it remain"));
  }
  policy::LayoutRequest request{JobId{job}, layout, hosts, remaining->second, file.link};
  const auto plan = policy::lay_out(file.cluster, file.policy, request);
  if (!plan) return session.fail(plan.error());
  return show(session,
              Json{{"kind", layout == policy::Layout::Spread ? "spread" : "pack"},
                   {"job", job},
                   {"moves", moves_json(plan->moves)},
                   {"worth", plan->worth},
                   {"hosts_before", plan->hosts_before},
                   {"hosts_after", plan->hosts_after},
                   {"slowdown_before", plan->slowdown_before},
                   {"slowdown_after", plan->slowdown_after},
                   {"gain_s", plan->gain_s},
                   {"added_job_time_s", plan->cost_s},
                   {"refused", Json::array()},
                   {"reason", plan->reason}},
              "moves", step_columns(), true);
}

int plan(Session& session, const PlanOptions& options) {
  const auto file = load(options);
  if (!file) return session.fail(file.error());
  if (!options.drain.empty()) return plan_drain(session, *file, options.drain);
  if (options.place) return plan_place(session, *file, options.best_effort);
  if (!options.spread.empty()) {
    return plan_layout(session, *file, options.spread, policy::Layout::Spread, options.hosts);
  }
  if (!options.pack.empty()) {
    return plan_layout(session, *file, options.pack, policy::Layout::Pack, options.hosts);
  }
  return plan_rebalance(session, *file);
}

void add_kinds(CLI::App& command, PlanOptions& options) {
  CLI::Option_group* kinds = command.add_option_group("What to plan");
  kinds->add_flag("--rebalance", options.rebalance, "Moves that make it better (the default)");
  kinds->add_flag("--place", options.place, "Hosts for the VMs that have none");
  kinds->add_option("--drain", options.drain, "How a host is emptied")->type_name("HOST");
  kinds->add_option("--spread", options.spread, "A job's VMs over more hosts")->type_name("JOB");
  kinds->add_option("--pack", options.pack, "A job's VMs on fewer hosts")->type_name("JOB");
  kinds->require_option(0, 1);
}

}  // namespace

void add_plan_commands(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("plan", "What if: plans for a cluster in a file; mared is not asked")
          ->group("This machine");
  auto options = std::make_shared<PlanOptions>();
  command->add_option("--from", options->from, "JSON file with hosts and VMs")
      ->required()
      ->type_name("FILE");
  add_kinds(*command, *options);
  command->add_flag("--best-effort", options->best_effort,
                    "With --place: place what fits, also when not all does");
  command->add_option("--hosts", options->hosts, "With --spread, --pack: on so many at most")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  command->add_flag_callback(
      "--n-plus-one", [options] { options->n_plus_one = true; },
      "Any one host may fail and its VMs fit on the others (the default)");
  command->add_flag_callback(
      "--no-n-plus-one", [options] { options->n_plus_one = false; }, "Without that");
  command->add_option("--max-moves", options->max_moves, "Plan no more moves than that")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  command->footer(
      "Examples:\n  mare plan --from docs/examples/cluster.json\n"
      "  mare plan --from docs/examples/cluster.json --drain h2\n"
      "  mare -o json plan --from cluster.json --no-n-plus-one --max-moves 10\n"
      "Exit code 4: a VM has no place. docs/placement.md describes the file.");
  command->callback([&action, options] {
    action = [options](Session& session) { return plan(session, *options); };
  });
}

}  // namespace mare::cli
