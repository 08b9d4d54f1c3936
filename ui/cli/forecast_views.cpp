#include "ui/cli/forecast_views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "rest/wire/time.h"
#include "ui/cli/human.h"
#include "ui/cli/terminal.h"
#include "ui/cli/views.h"

namespace mare::cli {
namespace {

using Say = std::string (*)(double);

std::string seconds(double value) {
  return human_ms(value * 1000);
}
std::string bytes(double value) {
  return human_bytes(std::max(0.0, value));
}
std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f%%", share * 100);
  return text.data();
}

/// "1.5 of 2 busy"; "" if nobody knows.
std::string busy_of(const Json& memory) {
  const Json& profile = member(memory, "profile");
  const double all = number(profile, "host_cpus").value_or(0);
  if (all <= 0) return "";
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.1f of %.0f busy",
                number(profile, "busy_cpus").value_or(0), all);
  return text.data();
}

/// A rate of the memory's profile; "" while it is not known.
auto rate_of(const char* name) {
  return [name](const Json& memory) {
    const double rate = number(member(memory, "profile"), name).value_or(0);
    return rate > 0 ? human_rate(rate) : std::string{};
  };
}

/// "0.5 CPUs, by periods of 100 ms"; "" without one.
std::string quota_of(const Json& memory) {
  const Json& profile = member(memory, "profile");
  const double cpus = number(profile, "cpu_quota").value_or(0);
  if (cpus <= 0) return "";
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.2g CPUs, by periods of ", cpus);
  return text.data() + human_ms(number(profile, "cpu_quota_period_us").value_or(0) / 1000);
}

/// Without a guest, and on a host that does nothing else; "" where nobody knows.
std::string start_of(const Json& memory) {
  const double us = number(member(memory, "profile"), "emulator_start_us").value_or(0);
  return us > 0 ? human_ms(us / 1000) : std::string{};
}

/// "upwards, 2.10 s for one time through"; "" of a guest that does not.
std::string sweep_of(const Json& memory) {
  const Json& sweep = member(member(memory, "profile"), "sweep");
  const auto period = number(sweep, "period_ms");
  if (!period) return "";
  return std::string(flag(sweep, "descending") ? "downwards, " : "upwards, ") + human_ms(*period) +
         " for one time through";
}

/// "2.1 s (1.9 s to 2.4 s)"
std::string estimate(const Json& of, const char* name, Say say) {
  const Json& found = member(of, name);
  const auto value = number(found, "value");
  if (!value) return {};
  return say(*value) + " (" + say(number(found, "low").value_or(*value)) + " to " +
         say(number(found, "high").value_or(*value)) + ")";
}

/// What speaks against a strategy.
std::string remark(const Json& strategy) {
  std::string why_not = text(strategy, "why_not");
  if (!why_not.empty()) return why_not;
  const bool converges = flag(strategy, "converges");
  if (flag(strategy, "end_unsure")) {
    return converges ? "may not end by itself" : "may end by itself, or not";
  }
  return converges ? "" : "would not end by itself";
}

Columns strategy_columns() {
  // A strategy that can't be had has no figures worth reading.
  const auto if_offered = [](const char* name, Say say) {
    return [name, say](const Json& o) {
      return flag(o, "offered") ? estimate(o, name, say) : std::string{};
    };
  };
  return {{"", [](const Json& o) { return std::string(flag(o, "chosen") ? "*" : " "); }},
          {"STRATEGY", [](const Json& o) { return text(o, "strategy"); }},
          {"TIME", if_offered("total_time_s", seconds), Shown::Always, true},
          {"BYTES", if_offered("sent_bytes", bytes), Shown::Always, true},
          {"DOWNTIME", if_offered("downtime_s", seconds), Shown::Always, true},
          {"ADDED JOB TIME", if_offered("added_job_time_s", seconds), Shown::Always, true},
          {"REMARK", remark}};
}

/// The forecast of the chosen strategy; null without one.
const Json& chosen(const Json& forecast) {
  static const Json kNull;
  const std::string choice = text(forecast, "choice");
  for (const Json& one : member(forecast, "strategies")) {
    if (!choice.empty() && text(one, "strategy") == choice) return one;
  }
  return kNull;
}

std::function<std::string(const Json&)> of_choice(const char* name, Say say) {
  return [name, say](const Json& o) { return estimate(chosen(o), name, say); };
}

std::string choice_text(const Json& forecast) {
  const std::string choice = text(forecast, "choice");
  return choice.empty() ? "do not move" : choice;
}

Say say_of(const std::string& quantity) {
  return quantity == "sent_bytes" ? bytes : seconds;
}

std::string name_of(const std::string& quantity) {
  if (quantity == "total_time_s") return "total time";
  if (quantity == "sent_bytes") return "bytes";
  if (quantity == "downtime_s") return "downtime";
  return quantity == "added_job_time_s" ? "added job time" : quantity;
}

Columns figure_columns() {
  const auto value = [](const char* name) {
    return [name](const Json& o) {
      const auto found = number(o, name);
      return found ? say_of(text(o, "name"))(*found) : std::string{};
    };
  };
  return {{"FIGURE", [](const Json& o) { return name_of(text(o, "name")); }},
          {"FORECAST", value("forecast"), Shown::Always, true},
          {"LOW", value("low"), Shown::Always, true},
          {"HIGH", value("high"), Shown::Always, true},
          {"ACTUAL", value("actual"), Shown::Always, true},
          {"ERROR",
           [](const Json& o) {
             const auto error = number(o, "error");
             return error ? percent(*error) : std::string{};
           },
           Shown::Always, true},
          {"HELD", [](const Json& o) {
             if (!member(o, "held").is_boolean()) return std::string{};
             return std::string(flag(o, "held") ? "yes" : "no");
           }}};
}

/// "compressed wrongly, pre-copy rightly"; "" where nothing was to be told.
std::string verdicts_text(const Json& forecast) {
  std::string out;
  for (const Json& one : member(forecast, "verdicts")) {
    const std::string score = text(one, "score");
    out += (out.empty() ? "" : ", ") + text(one, "strategy") + " " +
           (score == "open"    ? "neither way"
            : score == "right" ? "rightly"
                               : "wrongly");
  }
  return out;
}

/// "by pre-copy", "from h1 to h3", "of heat".
std::string group_name(const Json& group, const std::string& by) {
  if (by == "strategy") return "by " + text(group, "strategy");
  if (by == "pair") return "from " + text(group, "source") + " to " + text(group, "destination");
  const std::string program = text(group, "program");
  return program.empty() ? "of VMs without a job" : "of " + program;
}

Columns compared_rounds() {
  const auto of = [](const char* side, const char* name, bool is_time) {
    return [side, name, is_time](const Json& o) {
      const auto found = number(member(o, side), name);
      if (!found) return std::string{};
      return is_time ? human_ms(*found) : human_bytes(*found);
    };
  };
  return {{"ROUND", [](const Json& o) { return text(o, "index"); }, Shown::Always, true},
          {"FORECAST", of("forecast", "duration_ms", true), Shown::Always, true},
          {"ACTUAL", of("actual", "duration_ms", true), Shown::Always, true},
          {"FORECAST SENT", of("forecast", "sent_bytes", false), Shown::Always, true},
          {"SENT", of("actual", "sent_bytes", false), Shown::Always, true}};
}

}  // namespace

Columns forecast_columns(WallTime now) {
  return {
      {"ID", [](const Json& o) { return text(o, "id"); }},
      {"VM", [](const Json& o) { return text(o, "vm"); }},
      {"FROM", [](const Json& o) { return text(o, "source"); }},
      {"TO", [](const Json& o) { return text(o, "destination"); }},
      {"CHOICE", choice_text},
      {"TIME", of_choice("total_time_s", seconds), Shown::Always, true},
      {"BYTES", of_choice("sent_bytes", bytes), Shown::Wide, true},
      {"DOWNTIME", of_choice("downtime_s", seconds), Shown::Wide, true},
      {"ADDED JOB TIME", of_choice("added_job_time_s", seconds), Shown::Always, true},
      {"ANSWERED",
       [](const Json& o) { return std::string(member(o, "outcome").is_object() ? "yes" : "no"); }},
      {"AGE", [now](const Json& o) {
         return human_age(wire::parse_rfc3339(text(o, "made")).value_or(WallTime{0}), now);
       }}};
}

std::string forecast_text(const Json& forecast, bool colour) {
  Json rows = Json::array();
  const std::string choice = text(forecast, "choice");
  for (Json row : member(forecast, "strategies")) {
    row["chosen"] = !choice.empty() && text(row, "strategy") == choice;
    rows.push_back(std::move(row));
  }
  const auto link = number(member(forecast, "link"), "goodput_bytes_per_s");
  std::string head = text(forecast, "vm") + " from " + text(forecast, "source") + " to " +
                     text(forecast, "destination");
  if (link) head += ", a link of " + human_rate(*link);
  return printable(head) + "\n" + list_text(strategy_columns(), rows, false, colour) +
         printable(text(forecast, "reason")) + "\n";
}

std::string drain_text(const Json& plan, bool colour) {
  const auto figure = [](const char* name, Say say) {
    return [name, say](const Json& o) { return estimate(o, name, say); };
  };
  const Columns columns{
      {"VM", [](const Json& o) { return text(o, "vm"); }},
      {"WAVE", [](const Json& o) { return text(o, "wave"); }, Shown::Always, true},
      {"TO", [](const Json& o) { return text(o, "to"); }},
      {"CHOICE", [](const Json& o) { return text(o, "strategy"); }},
      {"TIME", figure("total_time_s", seconds), Shown::Always, true},
      {"BYTES", figure("sent_bytes", bytes), Shown::Always, true},
      {"DOWNTIME", figure("downtime_s", seconds), Shown::Always, true},
      {"ADDED JOB TIME", figure("added_job_time_s", seconds), Shown::Always, true},
      {"REMARK", [](const Json& o) { return text(o, "reason"); }}};
  Json rows = member(plan, "moves");
  if (!rows.is_array()) rows = Json::array();
  const std::size_t moves = rows.size();
  for (Json one : member(plan, "stay")) {
    one["strategy"] = "do not move";
    rows.push_back(std::move(one));
  }
  if (moves > 0) {
    Json all = member(plan, "total");
    all["vm"] = "in all";
    rows.push_back(std::move(all));
  }
  return rows.empty() ? std::string{} : list_text(columns, rows, false, colour);
}

std::string explanation_text(const Json& explanation, bool colour) {
  std::string out = text(explanation, "migration") + ": " + text(explanation, "vm") + " from " +
                    text(explanation, "source") + " to " + text(explanation, "destination") +
                    " by " + text(explanation, "strategy");
  out = printable(out) + "\n";
  const Json& figures = member(explanation, "figures");
  if (!figures.empty()) out += list_text(figure_columns(), figures, false, colour);
  const Json& rounds = member(explanation, "rounds");
  if (!rounds.empty()) out += "\n" + list_text(compared_rounds(), rounds, false, colour) + "\n";
  const std::string reason = text(explanation, "reason");
  if (const std::string tries = earlier_tries(explanation); !tries.empty()) {
    out += "given up: " + printable(tries) + "\n";
  }
  if (!reason.empty()) out += "before: " + printable(reason) + "\n";
  if (const std::string told = verdicts_text(member(explanation, "forecast")); !told.empty()) {
    out += "whether it would end by itself was told: " + printable(told) + "\n";
  }
  return out + "after: " + printable(text(explanation, "sentence")) + "\n";
}

std::string drain_explanation_text(const Json& explanation, bool wide, bool colour) {
  const auto of = [](const char* name, const char* side, Say say) {
    return [name, side, say](const Json& o) {
      for (const Json& figure : member(o, "figures")) {
        if (text(figure, "name") != name) continue;
        const auto found = number(figure, side);
        return found ? say(*found) : std::string{};
      }
      return std::string{};
    };
  };
  const Columns moves{
      {"VM", [](const Json& o) { return text(o, "vm"); }},
      {"WAVE", [](const Json& o) { return text(o, "wave"); }, Shown::Always, true},
      {"MIGRATION", [](const Json& o) { return text(o, "migration"); }},
      {"TO", [](const Json& o) { return text(o, "destination"); }},
      {"STRATEGY", [](const Json& o) { return text(o, "strategy"); }},
      {"FORECAST", of("total_time_s", "forecast", seconds), Shown::Always, true},
      {"TIME", of("total_time_s", "actual", seconds), Shown::Always, true},
      {"FORECAST BYTES", of("sent_bytes", "forecast", bytes), Shown::Always, true},
      {"BYTES", of("sent_bytes", "actual", bytes), Shown::Always, true},
      {"FORECAST DOWNTIME", of("downtime_s", "forecast", seconds), Shown::Wide, true},
      {"DOWNTIME", of("downtime_s", "actual", seconds), Shown::Wide, true},
      {"FORECAST ADDED", of("added_job_time_s", "forecast", seconds), Shown::Wide, true},
      {"ADDED", of("added_job_time_s", "actual", seconds), Shown::Wide, true},
      {"OUTCOME", [](const Json& o) {
         return text(o, "migration").empty() ? std::string("not begun") : text(o, "outcome");
       }}};
  std::string out = printable(text(explanation, "operation") + ": host " +
                              text(explanation, "host") + ", " + text(explanation, "outcome")) +
                    "\n";
  const Json& figures = member(explanation, "figures");
  if (!figures.empty()) out += list_text(figure_columns(), figures, false, colour);
  const Json& migrations = member(explanation, "migrations");
  if (!migrations.empty()) out += "\n" + list_text(moves, migrations, wide, colour) + "\n";
  const std::string reason = text(explanation, "reason");
  if (!reason.empty()) out += "before: " + printable(reason) + "\n";
  return out + "after: " + printable(text(explanation, "sentence")) + "\n";
}

namespace {

Columns accuracy_columns() {
  const auto share = [](const char* name) {
    return [name](const Json& o) {
      const auto value = number(o, name);
      return value && number(o, "moves").value_or(0) > 0 ? percent(*value) : std::string{};
    };
  };
  const auto off = [](const char* name) {
    return [name](const Json& o) {
      const auto value = number(o, name);
      if (!value || number(o, "moves").value_or(0) == 0) return std::string{};
      return say_of(text(o, "name"))(*value);
    };
  };
  return {{"FIGURE", [](const Json& o) { return name_of(text(o, "name")); }},
          {"MOVES", [](const Json& o) { return text(o, "moves"); }, Shown::Always, true},
          {"MEDIAN ERROR", share("median_error"), Shown::Always, true},
          {"P95", share("p95_error"), Shown::Always, true},
          {"MEDIAN OFF", off("median_off"), Shown::Always, true},
          {"P95 OFF", off("p95_off"), Shown::Always, true},
          {"BIAS", share("bias"), Shown::Always, true},
          {"HELD", share("coverage"), Shown::Always, true}};
}

/// Its figures, and how its verdicts came out.
std::string group_text(const Json& group, bool colour) {
  Json rows = Json::array();
  for (const char* name : {"total_time_s", "sent_bytes", "downtime_s", "added_job_time_s"}) {
    Json row = member(group, name);
    if (!row.is_object()) continue;
    row["name"] = name;
    rows.push_back(std::move(row));
  }
  std::string out = list_text(accuracy_columns(), rows, false, colour);
  const Json& verdicts = member(group, "verdicts");
  if (verdicts.is_object()) {
    out += "whether it would end by itself: " + printable(text(verdicts, "right")) + " right, " +
           printable(text(verdicts, "wrong")) + " wrong, " + printable(text(verdicts, "open")) +
           " left open\n";
  }
  return out;
}

}  // namespace

std::string accuracy_text(const Json& accuracy, bool colour) {
  std::string out = group_text(accuracy, colour);
  for (const Json& group : member(accuracy, "groups")) {
    out += "\n" + printable(group_name(group, text(accuracy, "by"))) + ":\n" +
           group_text(group, colour);
  }
  return out;
}

std::string report_text(const Json& forecast) {
  const Json& outcome = member(forecast, "outcome");
  std::string out = text(forecast, "id") + ": " +
                    seconds(number(outcome, "added_job_time_s").value_or(0)) + " of added job time";
  for (const Json& one : member(forecast, "strategies")) {
    if (text(one, "strategy") != text(outcome, "strategy")) continue;
    const std::string said = estimate(one, "added_job_time_s", seconds);
    if (!said.empty()) out += ", " + said + " was forecast";
  }
  return printable(out) + "\n";
}

std::string heat_strip(const Json& shares) {
  static constexpr std::array kBlocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  for (const Json& share : shares) {
    const double value = share.is_number() ? share.get<double>() : 0;
    const double clipped = std::clamp(value, 0.0, 1.0);
    // Anything written shows, however little.
    out += kBlocks[static_cast<std::size_t>(std::ceil(clipped * (kBlocks.size() - 1)))];
  }
  return out;
}

namespace {

/// A strip over all cycles, as high as the largest, and a table of the newest.
std::string history_text(const Json& history, bool colour) {
  constexpr std::size_t kNewest = 8;
  double most = 1;
  for (const Json& one : history) most = std::max(most, number(one, "wws_bytes").value_or(0));
  Json shares = Json::array();
  Json newest = Json::array();
  for (const Json& one : history) {
    shares.push_back(number(one, "wws_bytes").value_or(0) / most);
    if (shares.size() + kNewest > history.size()) newest.push_back(one);
  }
  const Columns columns{
      {"FROM", [](const Json& o) { return short_time(text(o, "began")); }},
      {"SEEN FOR", [](const Json& o) { return seconds(number(o, "seen_for_s").value_or(0)); },
       Shown::Always, true},
      {"WWS",
       [](const Json& o) {
         return bytes(number(o, "wws_bytes").value_or(0)) + (flag(o, "flattens") ? "" : " or more");
       },
       Shown::Always, true},
      {"WRITES",
       [](const Json& o) { return human_rate(number(o, "dirty_bytes_per_s").value_or(0)); },
       Shown::Always, true}};
  return list_text(columns, newest, false, colour) + "wws   [" + heat_strip(shares) + "] up to " +
         human_bytes(most) + "\n";
}

}  // namespace

std::string memory_text(const Json& memory, bool colour) {
  const Json& profile = member(memory, "profile");
  const auto share = [](const char* name) {
    return [name](const Json& o) {
      const auto value = number(member(o, "profile"), name);
      return value ? percent(*value) : std::string{};
    };
  };
  const auto size = [](const char* name) {
    return [name](const Json& o) {
      const auto value = number(member(o, "profile"), name);
      return value ? human_bytes(*value) : std::string{};
    };
  };
  const Columns facts{{"VM", [](const Json& o) { return text(o, "vm"); }},
                      {"WWS",
                       [](const Json& o) {
                         const auto value = number(o, "wws_bytes");
                         if (!value) return std::string{};
                         return human_bytes(*value) +
                                (flag(o, "flattens") ? "" : " or more: it still grows");
                       }},
                      {"WRITES",
                       [](const Json& o) {
                         const auto rate = number(o, "dirty_bytes_per_s");
                         return rate ? human_rate(*rate) : std::string{};
                       }},
                      {"MEMORY", size("total_bytes")},
                      {"ZERO", size("zero_bytes")},
                      {"COMPRESSES TO", share("compressed_fraction")},
                      {"WHAT IT WRITES, TO", share("hot_compressed_fraction")},
                      {"A CPU PACKS", rate_of("compress_rate_bytes_per_s")},
                      {"A CPU UNPACKS", rate_of("unpack_rate_bytes_per_s")},
                      {"LOG", [](const Json& o) { return text(member(o, "profile"), "source"); }},
                      {"LOG COSTS", share("cost_fraction")},
                      {"HOST'S CPUS", busy_of},
                      {"EMULATOR STARTS IN", start_of},
                      {"CPU QUOTA", quota_of},
                      {"SWEEPS", sweep_of}};
  const Columns curve{
      {"GUEST PROGRESS", [](const Json& o) { return seconds(number(o, "progress_s").value_or(0)); },
       Shown::Always, true},
      {"WRITTEN", [](const Json& o) { return bytes(number(o, "unique_bytes").value_or(0)); },
       Shown::Always, true}};
  std::string out = object_text(facts, memory, colour);
  const Json& points = member(memory, "curve");
  if (!points.empty()) out += "\n" + list_text(curve, points, false, colour);
  if (const Json& history = member(memory, "history"); !history.empty()) {
    out += "\n" + history_text(history, colour);
  }
  const Json& heat = member(profile, "heat");
  if (!heat.empty()) out += "\nheat  [" + heat_strip(heat) + "]\n";
  return out;
}

}  // namespace mare::cli
