#include <cstdio>

#include "rest/wire/rebalancing.h"
#include "ui/cli/app.h"
#include "ui/cli/human.h"
#include "ui/cli/plan_view.h"
#include "ui/cli/terminal.h"
#include "ui/cli/views.h"
#include "ui/cli/waiting.h"

namespace mare::cli {
namespace {

const std::vector<std::string> kModes{"manual", "partial", "automatic"};

struct SetOptions {
  std::string mode;
  std::optional<double> threshold;
  std::string hold;
  std::optional<double> margin;
  std::string cooldown;
  std::optional<int> max_moves;
  std::string rest;
  std::vector<std::string> pools;  // NAME=MODE
};

/// 0 is one as well: no hold time, no cooldown.
std::string check_span(const std::string& written) {
  return written == "0" ? std::string() : check_duration(written);
}
Seconds span_of(const std::string& written) {
  return written == "0" ? Seconds{0} : Seconds{duration_of(written)};
}

std::string check_pool_mode(const std::string& written) {
  const auto equals = written.find('=');
  const std::string mode = equals == std::string::npos ? "" : written.substr(equals + 1);
  if (equals > 0 && (mode == "none" || rebalance_mode_from(mode))) return {};
  return "'" + written + "' is not POOL=MODE; write it like demo=manual, or demo=none";
}

Columns rebalance_columns() {
  const auto plain = [](const char* name) {
    return [name](const Json& o) { return text(o, name); };
  };
  return {{"VM", plain("vm")},
          {"FROM", plain("from")},
          {"TO", plain("to")},
          {"BYTES",
           [](const Json& o) {
             const auto bytes = number(o, "bytes");
             return bytes ? human_bytes(*bytes) : std::string();
           },
           Shown::Always, true},
          {"ADDED JOB TIME",
           [](const Json& o) {
             const auto added = number(o, "added_job_time_s");
             return added ? human_ms(*added * 1000) : std::string();
           },
           Shown::Always, true},
          {"WHY", plain("reason")}};
}

std::string seconds_words(const Json& from, const char* name) {
  return human_ms(number(from, name).value_or(0) * 1000);
}

std::string pools_words(const Json& from) {
  std::string out;
  for (const auto& [pool, mode] : member(from, "pools").items()) {
    out += (out.empty() ? "" : ", ") + pool + " " + mode.get<std::string>();
  }
  return out;
}

Columns rebalancing_columns() {
  const auto plain = [](const char* name) {
    return [name](const Json& o) { return text(o, name); };
  };
  const auto time = [](const char* name) {
    return [name](const Json& o) { return short_time(text(o, name)); };
  };
  const auto seconds = [](const char* name) {
    return [name](const Json& o) { return seconds_words(o, name); };
  };
  return {{"MODE", plain("mode")},
          {"SCORE", plain("score"), Shown::Always, true},
          {"THRESHOLD", plain("threshold"), Shown::Always, true},
          {"BROKEN RULES", plain("broken_rules"), Shown::Always, true},
          {"SINCE", time("above_since"), Shown::Alone},
          {"HOLD", seconds("hold_s"), Shown::Alone},
          {"MARGIN", plain("margin"), Shown::Alone},
          {"COOLDOWN", seconds("cooldown_s"), Shown::Alone},
          {"MAX MOVES", plain("max_moves"), Shown::Alone},
          {"REST", seconds("rest_s"), Shown::Alone},
          {"POOLS", pools_words, Shown::Alone},
          {"ROUNDS", plain("rounds"), Shown::Alone},
          {"MOVES", plain("moves"), Shown::Alone},
          {"REFUSALS", plain("refusals"), Shown::Alone},
          {"OPERATION", plain("operation"), Shown::Alone},
          {"REASON", plain("reason")}};
}

int print_rebalancing(Session& session, const Result<Json>& found) {
  if (!found) return session.fail(found.error());
  if (session.wants(Output::JsonText)) {
    session.print_json(*found);
    return kOk;
  }
  Json shown = *found;
  shown["id"] = member(shown, "mode");
  session.print_object(shown, rebalancing_columns());
  const Json& proposal = member(*found, "proposal");
  if (session.wants(Output::Name) || !proposal.is_object()) return kOk;
  std::printf("\nproposed %s: %s\n", short_time(text(proposal, "made")).c_str(),
              printable(text(proposal, "reason")).c_str());
  print_moves(member(proposal, "moves"), rebalance_columns());
  return kOk;
}

/// What is not said stays as it is.
int set(Session& session, const SetOptions& options) {
  const std::string path = api({"rebalancing"});
  auto before = session.get(path);
  if (!before) return session.fail(before.error());
  Json body = Json::object();
  for (const char* name :
       {"mode", "threshold", "hold_s", "margin", "cooldown_s", "max_moves", "rest_s", "pools"}) {
    body[name] = member(*before, name);
  }
  if (!options.mode.empty()) body["mode"] = options.mode;
  if (options.threshold) body["threshold"] = *options.threshold;
  if (options.margin) body["margin"] = *options.margin;
  if (options.max_moves) body["max_moves"] = *options.max_moves;
  if (!options.hold.empty()) body["hold_s"] = span_of(options.hold).count();
  if (!options.cooldown.empty()) body["cooldown_s"] = span_of(options.cooldown).count();
  if (!options.rest.empty()) body["rest_s"] = span_of(options.rest).count();
  for (const auto& written : options.pools) {
    const auto equals = written.find('=');
    const std::string pool = written.substr(0, equals);
    const std::string mode = written.substr(equals + 1);
    body["pools"][pool] = mode;
    if (mode == "none") body["pools"].erase(pool);
  }
  return print_rebalancing(session, session.put(path, body));
}

int run_round(Session& session, bool dry_run) {
  const std::string path = api({"rebalancing"}) + ":run" + (dry_run ? "?dry_run=true" : "");
  auto operation = session.post(path, Json::object());
  if (!operation) return session.fail(operation.error());
  Follow follow;
  if (dry_run) {
    follow.answer = [](Session&, const Json& done) -> Result<Json> { return done; };
    follow.show = [](Session& shown, const Json& planned) {
      show_planned_moves(shown, planned, rebalance_columns());
    };
  } else {
    follow.on_success = [](Session&, const Json& done) {
      std::printf("%s: %s\n", printable(text(done, "id")).c_str(),
                  printable(text(done, "reason")).c_str());
    };
  }
  return finish(session, *operation, follow);
}

void add_set(CLI::App& rebalance, Action& action) {
  auto options = std::make_shared<SetOptions>();
  CLI::App* set_command =
      rebalance.add_subcommand("set", "How it is done; what is not said stays as it is");
  set_command
      ->add_option("--mode", options->mode,
                   "manual: proposes; partial: what hard rules need; automatic: also evens out")
      ->check(CLI::IsMember(kModes))
      ->type_name("MODE");
  set_command->add_option("--threshold", options->threshold, "Score below which nothing is done")
      ->check(CLI::Range(0.0, 1000.0))
      ->type_name("X");
  const auto time = [&](const char* name, std::string& value, const char* help) {
    set_command->add_option(name, value, help)->check(check_span)->type_name("TIME");
  };
  time("--hold", options->hold, "So long it must not be below");
  set_command
      ->add_option("--margin", options->margin, "Share of the score that a plan must take away")
      ->check(CLI::Range(0.0, 0.99))
      ->type_name("X");
  time("--cooldown", options->cooldown, "After a round none by itself for so long");
  set_command->add_option("--max-moves", options->max_moves, "Of one round; 0: any number")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  time("--rest", options->rest, "A VM that has moved is left for so long");
  set_command
      ->add_option("--pool", options->pools,
                   "Hold a pool back: demo=manual, demo=partial; demo=none: as all others")
      ->check(check_pool_mode)
      ->type_name("POOL=MODE");
  set_command->footer(
      "Example: mare rebalance set --mode automatic --threshold 0.2 --hold 60s --cooldown 300s");
  set_command->callback([&action, options] {
    action = [options](Session& session) { return set(session, *options); };
  });
}

}  // namespace

void add_rebalance_commands(CLI::App& app, Action& action) {
  auto dry_run = std::make_shared<bool>(false);
  CLI::App* rebalance =
      app.add_subcommand("rebalance", "Move running VMs to where the cluster is better for it")
          ->group("Work");
  rebalance->require_subcommand(0, 1);
  rebalance->add_flag("--dry-run", *dry_run, "Only plan and forecast it; nothing moves");
  rebalance->footer(
      "Examples:\n  mare rebalance --dry-run      which moves, and what they would cost\n"
      "  mare rebalance                one round now\n"
      "  mare rebalance set --mode automatic --threshold 0.2\n"
      "  mare rebalance show           the setting, the score, the last proposal\n"
      "docs/placement.md tells more.");
  CLI::App* show = rebalance->add_subcommand("show", "Setting, score, last proposal");
  show->footer("Example: mare rebalance show");
  show->callback([&action] {
    action = [](Session& session) {
      return print_rebalancing(session, session.get(api({"rebalancing"})));
    };
  });
  add_set(*rebalance, action);
  rebalance->callback([&action, dry_run, rebalance] {
    if (!rebalance->get_subcommands().empty()) return;
    action = [dry_run](Session& session) { return run_round(session, *dry_run); };
  });
}

}  // namespace mare::cli
