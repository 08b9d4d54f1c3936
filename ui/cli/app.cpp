#include "ui/cli/app.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>

#include "rest/wire/time.h"

namespace mare::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  mare lab up                                   a cluster on this machine\n"
    "  mare pool create demo --size 3 --memory 192\n"
    "  mare job submit demo -n 3 --follow -- migtest --iterations 100\n"
    "  mare migrate demo-1 --to h3 --dry-run         what it would cost\n"
    "  mare migrate demo-1 --to h3\n"
    "  mare vm list -o wide\n"
    "Address and token: --url or MARE_URL (http://127.0.0.1:7410); --token-file, MARE_TOKEN or\n"
    "  MARE_TOKEN_FILE (the lab's token, else /var/lib/mare/token).\n"
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict or precondition, 5 mared not\n"
    "  reachable, 124 wait timed out, 130 interrupted; 'job submit --wait' and 'job wait' give "
    "the\n"
    "  program's own code, 128+signal when it was killed.\n"
    "More: mare NOUN --help, mare NOUN VERB --help, docs/cli.md.";

const std::map<std::string, Output> kOutputs{{"table", Output::Table},
                                             {"wide", Output::Wide},
                                             {"json", Output::JsonText},
                                             {"name", Output::Name}};

struct Written {  // as on the line, before it is understood
  std::string timeout;
  std::string output;
};

void add_globals(CLI::App& app, Globals& globals, Written& written) {
  const char* group = "Options of all commands";
  app.add_option("--url", globals.url, "mared's address (MARE_URL)")
      ->type_name("URL")
      ->group(group);
  app.add_option("--token-file", globals.token_file, "File with the API token (MARE_TOKEN_FILE)")
      ->type_name("FILE")
      ->group(group);
  app.add_option("-o,--output", written.output, "table, wide, json or name")
      ->check([](const std::string& form) {
        return kOutputs.contains(form) ? std::string{}
                                       : "'" + form + "' is none of table, wide, json, name";
      })
      ->type_name("FORM")
      ->group(group);
  app.add_flag_callback(
         "--wait", [&globals] { globals.wait = true; }, "Wait until it is done, with progress")
      ->group(group);
  app.add_flag_callback(
         "--no-wait", [&globals] { globals.wait = false; },
         "Only start it, and print its operation")
      ->group(group);
  app.add_option("--timeout", written.timeout, "Wait at most so long (30s, 5m), then exit 124")
      ->check(check_duration)
      ->type_name("TIME")
      ->group(group);
  app.add_flag("-q,--quiet", globals.quiet, "No progress, no remarks")->group(group);
}

/// Where "--" ends our part of the line. `mare lab` and `mare image` have their own.
int own_part(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "lab" || word == "image") return argc;
    if (word == "--") return i;
  }
  return argc;
}

/// "mare vms list" and the like: say what exists.
std::string unknown_word_hint(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind('-', 0) == 0) continue;
    const auto found =
        at->get_subcommands([&word](const CLI::App* sub) { return sub->get_name() == word; });
    const CLI::App* next = found.empty() ? nullptr : found.front();
    if (next != nullptr) {
      at = next;
      continue;
    }
    std::vector<std::string> words;
    for (const CLI::App* sub : at->get_subcommands({})) words.push_back(sub->get_name());
    if (words.empty()) return {};
    const std::string meant = nearest(word, words);
    std::string known;
    for (const std::string& one : words) known += (known.empty() ? "" : ", ") + one;
    const std::string where = at == &app ? "mare" : "mare " + at->get_name();
    return "'" + where + "' knows no '" + word + "'" +
           (meant.empty() ? "; it knows: " + known : "; did you mean '" + meant + "'?");
  }
  std::string known;
  for (const CLI::App* sub : at->get_subcommands({})) {
    known += (known.empty() ? "" : ", ") + sub->get_name();
  }
  return known.empty() ? known : "what of it? '" + at->get_name() + "' knows: " + known;
}

/// Options that go anywhere are shown once, by `mare --help`; every other help points there.
void point_to_globals(CLI::App& app) {
  for (CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_fallthrough()) continue;
    sub->footer(sub->get_footer() +
                "\nOptions of all commands (-o, --wait, --timeout, --url...): mare --help");
    point_to_globals(*sub);
  }
}

int usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string message = error.what();
  const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  const auto* missing = dynamic_cast<const CLI::RequiredError*>(&error);
  if (extras != nullptr || missing != nullptr) {
    const std::string hint = unknown_word_hint(app, argc, argv);
    if (!hint.empty()) message = hint;
  }
  const CLI::App* deepest = &app;
  std::string words = "mare";
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    words += " " + deepest->get_name();
  }
  std::fprintf(stderr, "mare: %s\n", message.c_str());
  if (words == "mare job submit" && extras != nullptr) {
    std::fputs("  put '--' before the program: mare job submit POOL -n 2 -- PROGRAM --its-option\n",
               stderr);
  }
  std::fprintf(stderr, "  see '%s --help'\n", words.c_str());
  return kUsage;
}

}  // namespace

std::string check_duration(const std::string& written) {
  const auto duration = wire::parse_duration(written);
  if (duration && duration->count() > 0) return {};
  return "'" + written + "' is not a time; write it like 300ms, 30s or 5m";
}

Milliseconds duration_of(const std::string& written) {
  return wire::parse_duration(written).value_or(Milliseconds{0});
}

std::string nearest(const std::string& word, const std::vector<std::string>& words) {
  std::string best;
  std::size_t best_distance = 3;  // more than two slips is another word
  for (const std::string& candidate : words) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {  // Levenshtein, one row at a time
      std::size_t diagonal = row[0]++;
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t substitution = diagonal + (word[i] == candidate[j] ? 0U : 1U);
        diagonal = row[j + 1];
        row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substitution});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

int run(int argc, char** argv) {
  // `mare vm list | head` is no error worth a message: the default ends us, as everybody expects.
  signal(SIGPIPE, SIG_DFL);
  const int own = own_part(argc, argv);
  const Trailing trailing(argv + std::min(own + 1, argc), argv + argc);

  CLI::App app{"mare: runs MPI jobs in pools of VMs, and moves the VMs while they run.", "mare"};
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("-V,--version", std::string("mare ") + MARE_VERSION);
  Globals globals;
  Written written;
  add_globals(app, globals, written);
  Action action;
  add_host_commands(app, action);
  add_pool_commands(app, action);
  add_project_commands(app, action);
  add_vm_commands(app, action);
  add_job_commands(app, action, trailing);
  add_migration_commands(app, action);
  add_forecast_commands(app, action);
  add_operation_commands(app, action);
  add_event_commands(app, action);
  add_rebalance_commands(app, action);
  add_plan_commands(app, action);
  add_program_commands(app, action);
  point_to_globals(app);
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& error) {  // CLI11 reports by exceptions, help included
    if (error.get_exit_code() == 0) return app.exit(error);
    if (argc == 1) {
      std::fputs(app.help().c_str(), stderr);
      return kUsage;
    }
    return usage_error(app, error, own, argv);
  }
  if (!written.output.empty()) globals.output = kOutputs.at(written.output);
  if (!written.timeout.empty()) globals.timeout = duration_of(written.timeout);

  SystemClock clock;
  Interrupt interrupt;
  Session session{std::move(globals), clock, interrupt};
  const int code = action(session);
  if (std::fflush(stdout) != 0) {
    std::fputs("mare: could not write all of the output: is the disk full?\n", stderr);
    return code == kOk ? kFailed : code;
  }
  return code;
}

}  // namespace mare::cli
