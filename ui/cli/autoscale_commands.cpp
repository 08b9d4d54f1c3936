#include "ui/cli/autoscale_commands.h"

#include "rest/wire/autoscale.h"
#include "ui/cli/human.h"
#include "ui/cli/views.h"

namespace mare::cli {
namespace {

struct PaceOptions {
  std::string window;
  std::string cooldown;
  std::optional<int> step;
};

struct AutoscaleOptions {
  std::string pool;
  bool off = false;
  AutoscaleSetting setting;
  bool has_target = false;
  std::string source;
  std::string stale_after;
  std::string query_timeout;
  PaceOptions up;
  PaceOptions down;
};

std::string pace_words(const Json& rule, const char* direction) {
  const Json& pace = member(rule, direction);
  std::string out = "window " + human_ms(number(pace, "stabilisation_s").value_or(0) * 1000) +
                    ", cooldown " + human_ms(number(pace, "cooldown_s").value_or(0) * 1000);
  if (number(pace, "step").value_or(0) > 0) out += ", " + text(pace, "step") + " at once";
  return out;
}

std::string figure_words(const Json& rule) {
  const std::string source = text(rule, "source");
  if (source == "queue") return "ranks of its jobs";
  if (source == "prometheus") {
    return text(rule, "query") + (text(rule, "total") == "true" ? ", of the pool" : ", of each VM");
  }
  return text(rule, "total") == "true" ? "posted, of the pool" : "posted, of each VM";
}

Columns autoscale_columns() {
  const auto plain = [](const char* name) {
    return [name](const Json& o) { return text(o, name); };
  };
  return {{"POOL", plain("pool")},
          {"FIGURE", figure_words},
          {"TARGET", plain("target"), Shown::Always, true},
          {"MIN", plain("min"), Shown::Always, true},
          {"MAX", plain("max"), Shown::Always, true},
          {"UP", [](const Json& o) { return pace_words(o, "up"); }, Shown::Alone},
          {"DOWN", [](const Json& o) { return pace_words(o, "down"); }, Shown::Alone},
          {"TOLERANCE", plain("tolerance"), Shown::Alone},
          {"POSTED", plain("posted"), Shown::Alone},
          {"PROMETHEUS", plain("url"), Shown::Alone},
          {"METRIC", plain("metric"), Shown::Always, true},
          {"DESIRED", plain("desired"), Shown::Always, true},
          {"OPERATION", plain("operation"), Shown::Alone},
          {"REASON", plain("reason")}};
}

int print_rule(Session& session, const Result<Json>& rule) {
  if (!rule) return session.fail(rule.error());
  Json shown = *rule;
  if (!session.wants(Output::JsonText)) shown["id"] = member(shown, "pool");
  session.print_object(shown, autoscale_columns());
  return kOk;
}

void take(const PaceOptions& options, ScalePace& pace) {
  if (!options.window.empty()) pace.stabilisation = duration_of(options.window);
  if (!options.cooldown.empty()) pace.cooldown = duration_of(options.cooldown);
  pace.step = options.step.value_or(pace.step);
}

/// What is asked of Prometheus goes with that source, and the source with it.
std::optional<Error> prometheus_fault(const AutoscaleSetting& setting,
                                      const AutoscaleOptions& options) {
  const PrometheusQuery& asked = setting.prometheus;
  if (setting.source == MetricSource::Prometheus) {
    if (!asked.url.empty() && !asked.query.empty()) return std::nullopt;
    return field_error(asked.url.empty() ? "prometheus-url" : "query",
                       "the source prometheus needs a server and a query",
                       "give --prometheus-url http://HOST:9090 and --query PROMQL");
  }
  if (asked.url.empty() && asked.query.empty() && options.query_timeout.empty()) {
    return std::nullopt;
  }
  return field_error("source", "a server and a query are for the source prometheus only",
                     "add --source prometheus, or leave them out");
}

int autoscale(Session& session, const AutoscaleOptions& options) {
  const std::string path = api({"pools", options.pool, "autoscale"});
  if (options.off) {
    auto pool = session.remove(path);
    if (!pool) return session.fail(pool.error());
    session.say("pool " + options.pool + " stays at " + text(*pool, "size") + " VMs");
    return kOk;
  }
  if (!options.has_target) return print_rule(session, session.get(path));
  wire::AutoscaleBody body{options.setting};
  if (!options.source.empty()) body.setting.source = *metric_source_from(options.source);
  if (!options.stale_after.empty()) body.setting.stale_after = duration_of(options.stale_after);
  if (!options.query_timeout.empty()) {
    body.setting.prometheus.timeout = duration_of(options.query_timeout);
  }
  const auto fault = prometheus_fault(body.setting, options);
  if (fault) return session.fail(*fault);
  take(options.up, body.setting.rule.up);
  take(options.down, body.setting.rule.down);
  return print_rule(session, session.put(path, wire::to_json(body)));
}

void add_pace(CLI::App& command, const std::string& direction, PaceOptions& options) {
  command
      .add_option("--" + direction + "-window", options.window,
                  "The mildest wish of so long counts (" +
                      std::string(direction == "up" ? "0" : "300s") + ")")
      ->check(check_duration)
      ->type_name("TIME");
  command
      .add_option("--" + direction + "-cooldown", options.cooldown,
                  "After a change in this direction none for so long")
      ->check(check_duration)
      ->type_name("TIME");
  command.add_option("--" + direction + "-step", options.step, "At most so many VMs at once")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
}

void add_rule_options(CLI::App& command, AutoscaleOptions& options) {
  AutoscaleRule& rule = options.setting.rule;
  auto* target = command.add_option_function<double>(
      "--target",
      [&options](double value) {
        options.setting.rule.target = value;
        options.has_target = true;
      },
      "Of the figure, for each VM");
  target->check(CLI::PositiveNumber)->type_name("X");
  auto* max = command.add_option("--max", rule.max, "Never more VMs")->check(CLI::Range(1, 1024));
  command.add_option("--min", rule.min, "Never fewer VMs")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--source", options.source,
                  "posted (default): by 'mare pool metric'; queue: ranks of its unfinished jobs; "
                  "prometheus: what --query says")
      ->check(CLI::IsMember(std::vector<std::string>{"posted", "queue", "prometheus"}))
      ->type_name("NAME");
  PrometheusQuery& asked = options.setting.prometheus;
  command.add_option("--prometheus-url", asked.url, "The server, like http://prometheus:9090")
      ->type_name("URL");
  command.add_option("--query", asked.query, "PromQL with one sample as its answer")
      ->type_name("PROMQL");
  command.add_option("--query-timeout", options.query_timeout, "How long it may take (2s)")
      ->check(check_duration)
      ->type_name("TIME");
  command.add_flag("--total", options.setting.total,
                   "The figure is of the whole pool, not of each VM; a queue always is");
  command.add_option("--tolerance", rule.tolerance, "So near to the target nothing changes")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  command
      .add_option("--stale-after", options.stale_after,
                  "A posted figure older than that is none (60s)")
      ->check(check_duration)
      ->type_name("TIME");
  add_pace(command, "up", options.up);
  add_pace(command, "down", options.down);
  // Without a target it is a question, and nothing that would be changed may be left unsaid.
  for (CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    if (option != target && !names.empty() && names.front() != "help") option->needs(target);
  }
  target->needs(max);
}

struct MetricOptions {
  std::string pool;
  double value = 0;
};

void add_metric(CLI::App& pool, Action& action) {
  auto options = std::make_shared<MetricOptions>();
  CLI::App* metric = pool.add_subcommand("metric", "Post the figure that its rule follows");
  metric->add_option("pool", options->pool, "Its name")->required()->type_name("POOL");
  metric->add_option("value", options->value, "The figure")
      ->required()
      ->check(CLI::NonNegativeNumber)
      ->type_name("X");
  metric->footer("Example: mare pool metric demo 42");
  metric->callback([&action, options] {
    action = [options](Session& session) {
      return print_rule(session, session.post(api({"pools", options->pool, "metrics"}),
                                              wire::to_json(wire::MetricBody{options->value})));
    };
  });
}

}  // namespace

void add_autoscale_commands(CLI::App& pool, Action& action) {
  auto options = std::make_shared<AutoscaleOptions>();
  CLI::App* command = pool.add_subcommand("autoscale", "Let its size follow a figure");
  command->add_option("pool", options->pool, "Its name")->required()->type_name("POOL");
  add_rule_options(*command, *options);
  command->add_flag("--off", options->off, "Take the rule away; the pool stays as it is")
      ->excludes("--target");
  command->footer(
      "Examples:\n  mare pool autoscale demo --target 15 --total --max 8 --up-cooldown 180s\n"
      "  mare pool autoscale demo --source queue --target 1 --max 16\n"
      "  mare pool autoscale demo --source prometheus --prometheus-url http://prometheus:9090 \\\n"
      "      --query 'sum(http_requests_waiting)' --total --target 15 --max 8\n"
      "  mare pool autoscale demo              # the rule, and what it says now\n"
      "  mare pool autoscale demo --off\n"
      "desired = ceil(VMs * figure / target). docs/elastic-pools.md tells more.");
  command->callback([&action, options] {
    action = [options](Session& session) { return autoscale(session, *options); };
  });
  add_metric(pool, action);
}

}  // namespace mare::cli
