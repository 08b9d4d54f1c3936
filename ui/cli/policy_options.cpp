#include "ui/cli/policy_options.h"

#include <vector>

#include "ui/cli/app.h"
#include "ui/cli/human.h"

namespace mare::cli {
namespace {

constexpr const char* kNone = "none";

template <typename Check>
auto or_none(Check check) {
  return [check](const std::string& written) {
    return written == kNone ? std::string{} : std::string(check(written));
  };
}

std::vector<std::string> strategies_or_none() {
  std::vector<std::string> out;
  for (int i = 0; i < kStrategies; ++i) {
    out.emplace_back(to_string(static_cast<Strategy>(i)));
  }
  out.emplace_back(kNone);
  return out;
}

/// Not stated, stated to be none, or stated.
template <typename T, typename Parse>
void state(std::optional<std::optional<T>>& field, const std::string& written, Parse parse) {
  if (written.empty()) return;
  field.emplace();
  if (written != kNone) *field = parse(written);
}

void add_knobs(CLI::App& command, PolicyOptions& options) {
  const auto add = [&command](const char* name, auto& value, const char* kind, const char* help) {
    return command.add_option(name, value, help)->group("Knobs of the strategy")->type_name(kind);
  };
  add("--rate-min", options.rate_min, "RATE", "rate-controlled: of the first round (V_min): 10MB/s")
      ->check(checked(parse_rate));
  add("--rate-max", options.rate_max, "RATE", "rate-controlled: of any round (V_max): 80MB/s")
      ->check(checked(parse_rate));
  add("--rate-gain", options.knobs.rate_gain, "K",
      "rate-controlled: each round is faster by so many times the rate at which the guest writes");
  add("--throttle-initial", options.knobs.throttle_initial, "PERCENT",
      "throttled: the guest's first throttle");
  add("--throttle-step", options.knobs.throttle_step, "PERCENT",
      "throttled: and by how much it grows");
  add("--pre-copy-rounds", options.knobs.pre_copy_rounds, "N",
      "hybrid: rounds before the switch to post-copy, 1 to 10");
}

}  // namespace

void add_policy_options(CLI::App& command, PolicyOptions& options) {
  command
      .add_option("--priority", options.priority,
                  "By what the forecast chooses: least-stall (default), least-traffic, by-deadline")
      ->check(
          CLI::IsMember(std::vector<std::string>{"least-stall", "least-traffic", "by-deadline"}))
      ->type_name("NAME");
  command
      .add_option(
          "--strategy", options.strategy,
          "How memory is sent; else, or with 'none', the forecast chooses: " + strategy_names())
      ->check(CLI::IsMember(strategies_or_none()))
      ->type_name("NAME");
  command.add_option("--bandwidth", options.bandwidth, "Send at most so fast: 50MB/s, 1gbit, none")
      ->check(or_none(checked(parse_rate)))
      ->type_name("RATE");
  command
      .add_option("--max-downtime", options.downtime,
                  "Switch when the rest can be sent in this time: 300ms, none")
      ->check(or_none(check_duration))
      ->type_name("TIME");
  command
      .add_option("--time-limit", options.time_limit,
                  "When it has not ended by then, --at-limit; none: no limit")
      ->check(or_none(check_duration))
      ->type_name("TIME");
  command
      .add_option("--at-limit", options.at_limit,
                  "cancel (default), stop-and-copy (pause it for the rest) or post-copy (run it at "
                  "the destination at once)")
      ->check(CLI::IsMember(std::vector<std::string>{"cancel", "stop-and-copy", "post-copy"}))
      ->type_name("ACTION");
  command
      .add_option("--drop-page-cache", options.drop_page_cache,
                  "yes: the guest gives its page cache back before the move (default no)")
      ->check(CLI::IsMember(std::vector<std::string>{"yes", "no"}))
      ->type_name("YES");
  add_knobs(command, options);
}

PolicyChange policy_change(const PolicyOptions& options, PolicyChange base) {
  if (!options.priority.empty()) base.priority = priority_from(options.priority);
  state(base.strategy, options.strategy, strategy_from);
  state(base.bandwidth_limit, options.bandwidth,
        [](const std::string& text) { return *parse_rate(text); });
  state(base.downtime_limit, options.downtime, duration_of);
  state(base.time_limit, options.time_limit,
        [](const std::string& text) { return Seconds{duration_of(text)}; });
  if (!options.drop_page_cache.empty()) base.drop_page_cache = options.drop_page_cache == "yes";
  if (!options.at_limit.empty()) base.at_limit = limit_action_from(options.at_limit);
  Knobs knobs = options.knobs;
  if (!options.rate_min.empty()) knobs.rate_min = parse_rate(options.rate_min)->value;
  if (!options.rate_max.empty()) knobs.rate_max = parse_rate(options.rate_max)->value;
  if (knobs != Knobs{}) base.knobs = knobs;
  return base;
}

}  // namespace mare::cli
