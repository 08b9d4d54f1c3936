#include "ui/cli/views.h"

#include "rest/wire/time.h"
#include "ui/cli/human.h"

namespace mare::cli {
namespace {

using Value = std::function<std::string(const Json&)>;

Value plain(const char* name) {
  return [name](const Json& o) { return text(o, name); };
}
Value list(const char* name) {
  return [name](const Json& o) { return joined(o, name); };
}
Value mib(const char* name) {
  return [name](const Json& o) {
    const auto value = number(o, name);
    return value ? human_bytes(*value * 1048576) : std::string{};
  };
}
Value bytes(const char* name) {
  return [name](const Json& o) {
    const auto value = number(o, name);
    return value && *value > 0 ? human_bytes(*value) : std::string{};
  };
}
Value ms(const char* name) {
  return [name](const Json& o) {
    const auto value = number(o, name);
    return value ? human_ms(*value) : std::string{};
  };
}
Value moment(const char* name) {
  return [name](const Json& o) { return short_time(text(o, name)); };
}
WallTime time_of(const Json& o, const char* name) {
  return wire::parse_rfc3339(text(o, name)).value_or(WallTime{0});
}
Value age(const char* name, WallTime now) {
  return [name, now](const Json& o) { return human_age(time_of(o, name), now); };
}
/// From start to end, or until now.
Value lasted(WallTime now) {
  return [now](const Json& o) {
    const WallTime started = time_of(o, "started");
    if (started.count() == 0) return std::string{};
    const WallTime ended = time_of(o, "ended");
    const WallTime end = ended.count() == 0 ? now : ended;
    return human_ms(static_cast<double>((end - started).count()) / 1000);
  };
}
std::string downtime(const Json& migration, const char* name) {
  const auto value = number(member(migration, "downtime_ms"), name);
  return value ? human_ms(*value) : std::string{};
}
/// "every 1m 0s, 2 kept, incremental, also in memory", "optimal, 2 kept, full", "never".
std::string checkpoint_rule(const Json& job) {
  const std::string rule = text(job, "checkpoint_rule");
  const auto wait = number(job, "safe_point_wait_s");
  const std::string at = std::string(flag(job, "checkpoint_partner") ? ", also in memory" : "") +
                         (wait ? ", at safe points within " + human_ms(*wait * 1000) : "");
  if (rule.empty() || rule == "never") return rule + at;
  const auto every = number(job, "checkpoint_every_s");
  return rule + (every ? " " + human_ms(*every * 1000) : "") + ", " +
         text(job, "checkpoints_kept") + " kept" +
         (text(job, "checkpoint_mode").empty() ? "" : ", " + text(job, "checkpoint_mode")) + at;
}
/// "2/3": parts that a partner host has, of all; "" for none, and of an older server.
std::string parts_in_memory(const Json& checkpoint) {
  const auto kept = number(checkpoint, "in_memory");
  if (!kept || *kept < 1) return {};
  return text(checkpoint, "in_memory") + "/" + std::to_string(member(checkpoint, "parts").size());
}
std::string outcome_or_state(const Json& o) {
  const std::string outcome = text(o, "outcome");
  return outcome.empty() || outcome == "pending" ? text(o, "state") : outcome;
}
std::string percent(const Json& o) {
  const auto value = number(o, "progress");
  return value ? std::to_string(static_cast<int>(*value * 100)) + "%" : std::string{};
}

/// "least-stall, 50 MB/s, downtime 300 ms, within 60 s or cancel"
std::string policy_words(const Json& pool) {
  const Json& policy = member(pool, "move_policy");
  const std::string strategy = text(policy, "strategy");
  std::string out = strategy.empty() ? text(policy, "priority") : strategy;
  if (const auto rate = number(policy, "bandwidth_limit_bytes_per_s")) {
    out += ", at most " + human_rate(*rate);
  }
  if (const auto limit = number(policy, "downtime_limit_ms")) {
    out += ", downtime " + human_ms(*limit);
  }
  if (const auto limit = number(policy, "time_limit_s")) {
    out += ", within " + human_ms(*limit * 1000) + " or " + text(policy, "at_limit");
  }
  if (flag(policy, "drop_page_cache")) out += ", without page cache";
  const Json& knobs = member(policy, "knobs");
  for (const auto& knob : knobs.items()) {
    out += ", " + knob.key() + " " + text(knobs, knob.key().c_str());
  }
  return out;
}

}  // namespace

Columns host_columns(WallTime now) {
  return {
      {"ID", plain("id")},
      {"HEALTH", plain("health"), Shown::Always, false, true},
      {"ADMIN", plain("admin"), Shown::Always, false, true},
      {"VMS", plain("vms"), Shown::Always, true},
      {"ALLOCATED", mib("memory_allocated_mib"), Shown::Always, true},
      {"MEMORY", mib("memory_mib"), Shown::Always, true},
      {"CPUS", plain("cpus"), Shown::Always, true},
      {"LIVE", [](const Json& o) { return std::string(flag(o, "live_migration") ? "yes" : "no"); }},
      {"CPU SPEED", plain("cpu_speed"), Shown::Alone},
      {"STRATEGIES", list("strategies"), Shown::Alone},
      {"DIRTY LOG",
       [](const Json& o) {
         const std::string why = text(o, "dirty_log_why");
         std::string log = text(o, "dirty_log");
         if (why.empty()) return log;
         return (log.empty() ? "none: " : log + ": ") + why;
       },
       Shown::Alone},
      {"MIGRATES AT", plain("migration_address"), Shown::Alone},
      {"TLS", [](const Json& o) { return std::string(flag(o, "migration_tls") ? "yes" : "no"); },
       Shown::Alone},
      {"ADDRESS", plain("address"), Shown::Wide},
      {"HYPERVISOR", plain("hypervisor"), Shown::Wide},
      {"OVERHEAD", mib("vm_overhead_mib"), Shown::Alone},
      {"SEEN", age("last_seen", now), Shown::Wide},
      {"ADDED", moment("added"), Shown::Alone},
      {"REASON", plain("health_reason"), Shown::Wide}};
}

Columns pool_columns(WallTime now) {
  return {{"ID", plain("id")},
          {"SIZE", plain("size"), Shown::Always, true},
          {"MEMORY", mib("memory_mib"), Shown::Always, true},
          {"VCPUS", plain("vcpus"), Shown::Always, true},
          {"IMAGE", plain("image")},
          {"VERSION", plain("image_version"), Shown::Wide},
          {"HOSTS",
           [](const Json& o) {
             const std::string hosts = joined(o, "hosts");
             return hosts.empty() ? std::string("all") : hosts;
           }},
          {"PROJECT", plain("project"), Shown::Wide},
          {"MOVES", policy_words, Shown::Wide},
          {"CREATED", moment("created"), Shown::Alone},
          {"AGE", age("created", now)}};
}

Columns vm_columns(WallTime now) {
  return {{"ID", plain("id")},
          {"STATE", plain("state"), Shown::Always, false, true},
          {"HOST", plain("host")},
          {"IP", plain("ip")},
          {"MEMORY", mib("memory_mib"), Shown::Always, true},
          {"VCPUS", plain("vcpus"), Shown::Wide, true},
          {"POOL", plain("pool")},
          {"MAC", plain("mac"), Shown::Wide},
          {"UUID", plain("uuid"), Shown::Wide},
          {"STARTED", moment("started"), Shown::Alone},
          {"UP", age("started", now)},
          {"REASON", plain("reason"), Shown::Wide}};
}

Columns job_columns(WallTime now) {
  return {
      {"ID", plain("id")},
      {"NAME", plain("name")},
      {"STATE", plain("state"), Shown::Always, false, true},
      {"EXIT", plain("exit_code"), Shown::Always, true},
      {"RANKS", plain("ranks"), Shown::Always, true},
      {"POOL", plain("pool")},
      {"TIME", lasted(now), Shown::Always, true},
      {"VMS", list("vms"), Shown::Wide},
      {"COMMAND", [](const Json& o) { return joined(o, "command", " "); }, Shown::Wide},
      {"ENVIRONMENT", [](const Json& o) { return joined(o, "environment", " "); }, Shown::Alone},
      {"OUTPUT", bytes("output_bytes"), Shown::Alone},
      {"CHECKPOINTS", checkpoint_rule, Shown::Alone},
      {"RESTARTS", plain("restarts"), Shown::Wide, true},
      {"CREATED", moment("created"), Shown::Alone},
      {"STARTED", moment("started"), Shown::Alone},
      {"ENDED", moment("ended"), Shown::Alone},
      {"REASON", plain("reason"), Shown::Wide}};
}

Columns checkpoint_columns(WallTime now) {
  return {{"ID", plain("id")},
          {"STATE", plain("state"), Shown::Always, false, true},
          {"AGE", age("began", now)},
          {"SIZE", bytes("size_bytes"), Shown::Always, true},
          {"WRITTEN", bytes("written_bytes"), Shown::Always, true},
          {"ON", plain("base")},
          {"PAUSE", ms("pause_ms"), Shown::Always, true},
          {"SKEW", ms("skew_ms"), Shown::Always, true},
          {"SAFE POINT", plain("safe_point"), Shown::Wide},
          {"IN MEMORY", parts_in_memory, Shown::Wide, true},
          {"BEGAN", moment("began"), Shown::Wide},
          {"COMPLETED", moment("completed"), Shown::Wide},
          {"OPERATION", plain("operation"), Shown::Wide}};
}

Columns operation_columns(WallTime now) {
  return {{"ID", plain("id")},
          {"KIND", plain("kind")},
          {"TARGET", plain("target")},
          {"STATE", plain("state")},
          {"OUTCOME", plain("outcome"), Shown::Always, false, true},
          {"PROGRESS", percent, Shown::Wide, true},
          {"TIME", lasted(now), Shown::Always, true},
          {"AGE", age("created", now)},
          {"PARENT", plain("parent"), Shown::Wide},
          {"ATTEMPT", plain("attempt"), Shown::Wide, true},
          {"CREATED", moment("created"), Shown::Alone},
          {"ENDED", moment("ended"), Shown::Alone},
          {"REQUEST", plain("request"), Shown::Alone},
          {"ERROR", plain("error_code"), Shown::Wide},
          {"REASON", plain("reason"), Shown::Wide}};
}

Columns migration_columns(WallTime now) {
  const auto of = [](const char* name) {
    return [name](const Json& o) { return downtime(o, name); };
  };
  return {{"ID", plain("id")},
          {"VM", plain("vm")},
          {"FROM", plain("source")},
          {"TO", plain("destination")},
          {"STATE", outcome_or_state, Shown::Always, false, true},
          {"STRATEGY", plain("strategy"), Shown::Wide},
          {"ROUNDS",
           [](const Json& o) {
             const Json& rounds = member(o, "rounds");
             return rounds.empty() ? std::string{} : std::to_string(rounds.size());
           },
           Shown::Always, true},
          {"SENT", bytes("transferred_bytes"), Shown::Always, true},
          {"TOTAL", ms("total_time_ms"), Shown::Always, true},
          {"DOWNTIME", of("hypervisor"), Shown::Always, true},
          {"GUEST", of("guest"), Shown::Wide, true},
          {"PEERS", of("peers"), Shown::Wide, true},
          {"CHECK", ms("check_ms"), Shown::Alone, true},
          {"TRANS", ms("trans_ms"), Shown::Alone, true},
          {"RESTART", ms("restart_ms"), Shown::Alone, true},
          {"ARP", ms("announce_delay_ms"), Shown::Wide, true},
          {"AGE", age("created", now)},
          {"LIMIT",
           [](const Json& o) {
             const auto limit = number(o, "bandwidth_limit_bytes_per_s");
             return limit ? human_rate(*limit) : std::string{};
           },
           Shown::Alone},
          {"MEMORY", bytes("memory_total_bytes"), Shown::Alone},
          {"FRAMES", plain("announcements"), Shown::Alone},
          {"HELD", ms("held_ms"), Shown::Alone, true},
          {"WITH", plain("switched_with"), Shown::Alone, true},
          {"EARLIER", earlier_tries, Shown::Alone},
          {"JOBS", list("jobs"), Shown::Wide},
          {"CREATED", moment("created"), Shown::Alone},
          {"PLANNED", moment("planned"), Shown::Alone},
          {"SWITCHED", moment("switched"), Shown::Alone},
          {"ENDED", moment("ended"), Shown::Alone},
          {"REASON", plain("reason"), Shown::Wide}};
}

Columns event_columns() {
  return {{"SEQ", plain("seq"), Shown::Wide, true},
          {"TIME", moment("at")},
          {"TYPE", plain("type")},
          {"SUBJECT", plain("subject")},
          {"DATA", plain("data")}};
}

std::string earlier_tries(const Json& migration) {
  std::string out;
  for (const Json& one : member(migration, "earlier")) {
    const double said = number(member(one, "said_s"), "value").value_or(0);
    out += (out.empty() ? "" : "; ") + text(one, "strategy") + ", which was to take " +
           human_ms(said * 1000) + " and was given up after " +
           human_ms(number(one, "lasted_ms").value_or(0)) + ", " +
           human_bytes(number(one, "sent_bytes").value_or(0));
  }
  return out;
}

Columns round_columns() {
  return {{"ROUND", plain("index"), Shown::Always, true},
          {"STARTED", ms("started_ms"), Shown::Always, true},
          {"DURATION", ms("duration_ms"), Shown::Always, true},
          {"SENT", bytes("sent_bytes"), Shown::Always, true},
          {"DIRTY RATE",
           [](const Json& o) {
             const auto rate = number(o, "dirty_bytes_per_s");
             return rate && *rate > 0 ? human_rate(*rate) : std::string{};
           },
           Shown::Always, true},
          {"REMAINING", bytes("remaining_bytes"), Shown::Always, true}};
}

Columns history_columns() {
  return {{"TIME", plain("at")},
          {"FROM", plain("from")},
          {"EVENT", plain("event")},
          {"TO", plain("to"), Shown::Always, false, true},
          {"DETAIL", plain("detail")}};
}

std::string migration_summary(const Json& migration) {
  std::string out = text(migration, "vm") + " moved from " + text(migration, "source") + " to " +
                    text(migration, "destination");
  if (const auto total = number(migration, "total_time_ms")) out += " in " + human_ms(*total);
  out += ": " + std::to_string(member(migration, "rounds").size()) + " rounds, " +
         human_bytes(number(migration, "transferred_bytes").value_or(0)) + " sent";
  const std::string hypervisor = downtime(migration, "hypervisor");
  const std::string guest = downtime(migration, "guest");
  const std::string peers = downtime(migration, "peers");
  if (!hypervisor.empty()) out += ", downtime " + hypervisor;
  if (!guest.empty() || !peers.empty()) {
    out += " (guest " + (guest.empty() ? "unknown" : guest) + ", peers " +
           (peers.empty() ? "unknown" : peers) + ")";
  }
  const auto check = number(migration, "check_ms");
  const auto trans = number(migration, "trans_ms");
  const auto restart = number(migration, "restart_ms");
  if (check && trans && restart) {
    out += ", check " + human_ms(*check) + ", trans " + human_ms(*trans) + ", restart " +
           human_ms(*restart);
  }
  const auto others = number(migration, "switched_with");
  if (const auto held = number(migration, "held_ms"); held && others && *others > 0) {
    out += ", held " + human_ms(*held) + " to switch with " + plain("switched_with")(migration) +
           " more of its job";
  }
  if (const std::string earlier = earlier_tries(migration); !earlier.empty()) {
    out += ", begun anew after " + earlier;
  }
  if (const auto delay = number(migration, "announce_delay_ms")) {
    out += ", announced " + human_ms(*delay) + " after its resume";
  }
  return out;
}

}  // namespace mare::cli
