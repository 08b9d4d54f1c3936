// The command line: which words and options there are. Parsing chooses an action; running it is
// main()'s affair.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ui/cli/session.h"

namespace mare::cli {

/// What stands after "--" on the line; the program of a job may have options that look like ours.
using Trailing = std::vector<std::string>;

// Each adds one noun with its verbs; the chosen verb sets `action`.
void add_host_commands(CLI::App& app, Action& action);
void add_pool_commands(CLI::App& app, Action& action);
void add_project_commands(CLI::App& app, Action& action);
void add_vm_commands(CLI::App& app, Action& action);
void add_job_commands(CLI::App& app, Action& action, const Trailing& trailing);
void add_migration_commands(CLI::App& app, Action& action);
void add_forecast_commands(CLI::App& app, Action& action);
void add_memory_command(CLI::App& vm, Action& action);
void add_operation_commands(CLI::App& app, Action& action);
void add_event_commands(CLI::App& app, Action& action);
void add_rebalance_commands(CLI::App& app, Action& action);
void add_plan_commands(CLI::App& app, Action& action);
void add_program_commands(CLI::App& app, Action& action);

/// The whole line. Answers the exit code.
int run(int argc, char** argv);

/// For options that parse a figure: CLI11 shows what the check returns; "" is fine.
template <typename Parse>
auto checked(Parse parse) {
  return [parse](const std::string& written) -> std::string {
    auto value = parse(written);
    return value ? std::string{} : value.error().text();
  };
}
std::string check_duration(const std::string& written);
Milliseconds duration_of(const std::string& written);  // of one that passed the check

/// Which of `words` the user may have meant, "" if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& words);

}  // namespace mare::cli
