// The options that state a policy of moves, the same for a migration and for a pool.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "orchestrator/model/forecast.h"

namespace mare::cli {

/// As written; "" is not stated.
struct PolicyOptions {
  std::string priority;
  std::string strategy;
  std::string bandwidth;
  std::string downtime;
  std::string time_limit;
  std::string at_limit;
  std::string drop_page_cache;
  std::string rate_min;
  std::string rate_max;
  Knobs knobs;  // but for the two rates
};

/// `options` must live as long as the command.
void add_policy_options(CLI::App& command, PolicyOptions& options);
/// Of options that passed their checks, on top of `base`.
PolicyChange policy_change(const PolicyOptions& options, PolicyChange base = {});

}  // namespace mare::cli
