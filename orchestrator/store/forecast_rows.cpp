// Columns of a forecast: what is searched for has a column of its own, the rest is JSON.
#include <nlohmann/json.hpp>

#include "orchestrator/core/checksum.h"
#include "orchestrator/model/knobs_json.h"
#include "orchestrator/store/rows.h"

namespace mare::store {
namespace {
using nlohmann::json;

template <typename T>
T number_or(const json& from, const char* name, T fallback) {
  const auto found = from.find(name);
  return found != from.end() && found->is_number() ? found->get<T>() : fallback;
}

bool flag_or(const json& from, const char* name, bool fallback) {
  const auto found = from.find(name);
  return found != from.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string word(const json& from, const char* name) {
  const auto found = from.find(name);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

const json& list_in(const json& from, const char* name) {
  static const json kNone = json::array();
  const auto found = from.find(name);
  return found != from.end() && found->is_array() ? *found : kNone;
}

/// An object, empty if the text is none.
json object_from(const std::string& text) {
  json parsed = json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json cycle_json(const DirtyCycle& cycle) {
  json points = json::array();
  for (const auto& point : cycle.points) {
    points.push_back({point.wall.count(), point.progress.count(), point.unique.count});
  }
  return {{"began_us", cycle.began.count()}, {"points", std::move(points)}};
}

DirtyCycle cycle_from(const json& from) {
  DirtyCycle out;
  out.began = WallTime{number_or<std::int64_t>(from, "began_us", 0)};
  for (const auto& point : list_in(from, "points")) {
    const bool whole = point.is_array() && point.size() == 3 && point[0].is_number_integer() &&
                       point[1].is_number_integer() && point[2].is_number_unsigned();
    if (!whole) continue;
    out.points.push_back({Microseconds{point[0].get<std::int64_t>()},
                          Microseconds{point[1].get<std::int64_t>()},
                          Bytes{point[2].get<std::uint64_t>()}});
  }
  return out;
}

json sweep_json(const Sweep& sweep) {
  return {{"descending", sweep.descending}, {"period_us", sweep.period.count()}};
}

Sweep sweep_from(const json& from) {
  const auto found = from.find("sweep");
  if (found == from.end() || !found->is_object()) return {};
  return {flag_or(*found, "descending", false),
          Microseconds{number_or<std::int64_t>(*found, "period_us", 0)}};
}

std::string profile_text(const MemoryProfile& profile) {
  json cycles = json::array();
  for (const auto& cycle : profile.cycles) cycles.push_back(cycle_json(cycle));
  return text_of({{"source", profile.source},
                  {"taken_us", profile.taken.count()},
                  {"total_bytes", profile.total.count},
                  {"zero_bytes", profile.zero.count},
                  {"compressed_fraction", profile.compressed_fraction},
                  {"hot_compressed_fraction", profile.hot_compressed_fraction},
                  {"compress_rate_bytes_per_s", profile.compress_rate.value},
                  {"unpack_rate_bytes_per_s", profile.unpack_rate.value},
                  {"cost_fraction", profile.cost_fraction},
                  {"emulated", profile.emulated},
                  {"takes_switchover_bandwidth", profile.takes_switchover_bandwidth},
                  {"host_cpus", profile.host_cpus},
                  {"busy_cpus", profile.busy_cpus},
                  {"emulator_start_us", profile.emulator_start.count()},
                  {"cpu_granted", profile.cpu_granted},
                  {"sequential", profile.sequential},
                  {"sweep", sweep_json(profile.sweep)},
                  {"cpu_quota", profile.cpu_quota},
                  {"cpu_quota_period_us", profile.cpu_quota_period.count()},
                  {"cycles", std::move(cycles)},
                  {"heat", profile.heat}});
}

MemoryProfile profile_from(const json& from) {
  MemoryProfile out;
  out.source = word(from, "source");
  out.taken = WallTime{number_or<std::int64_t>(from, "taken_us", 0)};
  out.total = Bytes{number_or<std::uint64_t>(from, "total_bytes", 0)};
  out.zero = Bytes{number_or<std::uint64_t>(from, "zero_bytes", 0)};
  out.compressed_fraction = number_or(from, "compressed_fraction", out.compressed_fraction);
  out.hot_compressed_fraction = number_or(from, "hot_compressed_fraction", out.compressed_fraction);
  out.compress_rate = BytesPerSecond{number_or(from, "compress_rate_bytes_per_s", 0.0)};
  out.unpack_rate = BytesPerSecond{number_or(from, "unpack_rate_bytes_per_s", 0.0)};
  out.cost_fraction = number_or(from, "cost_fraction", out.cost_fraction);
  out.emulated = flag_or(from, "emulated", false);
  out.takes_switchover_bandwidth = flag_or(from, "takes_switchover_bandwidth", false);
  out.host_cpus = number_or(from, "host_cpus", out.host_cpus);
  out.busy_cpus = number_or(from, "busy_cpus", out.busy_cpus);
  out.emulator_start = Microseconds{number_or<std::int64_t>(from, "emulator_start_us", 0)};
  out.cpu_granted = number_or(from, "cpu_granted", out.cpu_granted);
  out.sequential = number_or(from, "sequential", out.sequential);
  out.sweep = sweep_from(from);
  out.cpu_quota = number_or(from, "cpu_quota", out.cpu_quota);
  out.cpu_quota_period = Microseconds{number_or<std::int64_t>(from, "cpu_quota_period_us", 0)};
  for (const auto& cycle : list_in(from, "cycles")) {
    if (cycle.is_object()) out.cycles.push_back(cycle_from(cycle));
  }
  for (const auto& share : list_in(from, "heat")) {
    if (share.is_number()) out.heat.push_back(share.get<double>());
  }
  return out;
}

std::string link_text(const LinkMeasurement& link) {
  return text_of({{"goodput_bytes_per_s", link.goodput.value},
                  {"round_trip_us", link.round_trip.count()},
                  {"sent_bytes", link.sent.count},
                  {"unshared_bytes_per_s", link.unshared.value},
                  {"one_machine", link.one_machine}});
}

LinkMeasurement link_from(const json& from) {
  return {{number_or(from, "goodput_bytes_per_s", 0.0)},
          Microseconds{number_or<std::int64_t>(from, "round_trip_us", 0)},
          Bytes{number_or<std::uint64_t>(from, "sent_bytes", 0)},
          {number_or(from, "unshared_bytes_per_s", 0.0)},
          flag_or(from, "one_machine", false)};
}

json estimate_json(const Estimate& estimate) {
  return {{"value", estimate.value},
          {"low", estimate.low},
          {"high", estimate.high},
          {"model", estimate.model}};
}

Estimate estimate_from(const json& from, const char* name) {
  const auto found = from.find(name);
  if (found == from.end() || !found->is_object()) return {};
  return {number_or(*found, "value", 0.0), number_or(*found, "low", 0.0),
          number_or(*found, "high", 0.0), number_or(*found, "model", 0.0)};
}

std::string strategies_text(const std::vector<StrategyForecast>& strategies) {
  json out = json::array();
  for (const auto& one : strategies) {
    out.push_back({{"strategy", to_string(one.strategy)},
                   {"offered", one.offered},
                   {"why_not", one.why_not},
                   {"converges", one.converges},
                   {"end_unsure", one.end_unsure},
                   {"rounds", one.rounds},
                   {"total_time_s", estimate_json(one.total_time_s)},
                   {"sent_bytes", estimate_json(one.sent_bytes)},
                   {"downtime_s", estimate_json(one.downtime_s)},
                   {"added_job_time_s", estimate_json(one.added_job_time_s)}});
  }
  return text_of(out);
}

std::vector<StrategyForecast> strategy_forecasts_from(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  std::vector<StrategyForecast> out;
  if (!parsed.is_array()) return out;
  for (const auto& row : parsed) {
    if (!row.is_object()) continue;
    const auto strategy = strategy_from(word(row, "strategy"));
    if (!strategy) continue;  // of a newer program
    StrategyForecast one;
    one.strategy = *strategy;
    one.offered = flag_or(row, "offered", false);
    one.why_not = word(row, "why_not");
    one.converges = flag_or(row, "converges", true);
    one.end_unsure = flag_or(row, "end_unsure", false);
    one.rounds = number_or(row, "rounds", 0);
    one.total_time_s = estimate_from(row, "total_time_s");
    one.sent_bytes = estimate_from(row, "sent_bytes");
    one.downtime_s = estimate_from(row, "downtime_s");
    one.added_job_time_s = estimate_from(row, "added_job_time_s");
    out.push_back(std::move(one));
  }
  return out;
}

std::string outcome_text(const ForecastOutcome& outcome) {
  json out{{"strategy", to_string(outcome.strategy)},
           {"total_time_s", outcome.total_time_s},
           {"sent_bytes", outcome.sent_bytes}};
  if (outcome.downtime_s) out["downtime_s"] = *outcome.downtime_s;
  if (outcome.added_job_time_s) out["added_job_time_s"] = *outcome.added_job_time_s;
  if (outcome.set_up_s) out["set_up_s"] = *outcome.set_up_s;
  if (outcome.first_round) {
    out["first_round"] = {{"duration_s", outcome.first_round->duration_s},
                          {"sent_bytes", outcome.first_round->sent_bytes}};
  }
  return out.dump();
}

ForecastOutcome forecast_outcome_from(const json& from) {
  ForecastOutcome out;
  out.strategy = strategy_from(word(from, "strategy")).value_or(out.strategy);
  out.total_time_s = number_or(from, "total_time_s", 0.0);
  out.sent_bytes = number_or(from, "sent_bytes", 0.0);
  if (from.contains("downtime_s")) out.downtime_s = number_or(from, "downtime_s", 0.0);
  if (from.contains("added_job_time_s")) {
    out.added_job_time_s = number_or(from, "added_job_time_s", 0.0);
  }
  if (from.contains("set_up_s")) out.set_up_s = number_or(from, "set_up_s", 0.0);
  if (from.contains("first_round")) {
    const json& round = from["first_round"];
    out.first_round = {number_or(round, "duration_s", 0.0), number_or(round, "sent_bytes", 0.0)};
  }
  return out;
}

std::string verdicts_text(const std::vector<ScoredVerdict>& verdicts) {
  json out = json::array();
  for (const auto& one : verdicts) {
    out.push_back({{"sending", one.sending},
                   {"strategy", to_string(one.strategy)},
                   {"score", to_string(one.score)}});
  }
  return out.dump();
}

std::vector<ScoredVerdict> verdicts_from(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  std::vector<ScoredVerdict> out;
  if (!parsed.is_array()) return out;
  for (const auto& row : parsed) {
    if (!row.is_object()) continue;
    const auto strategy = strategy_from(word(row, "strategy"));
    const auto score = verdict_score_from(word(row, "score"));
    if (!strategy || !score) continue;  // of a newer program
    out.push_back({number_or(row, "sending", 1), *strategy, *score});
  }
  return out;
}

}  // namespace

std::string policy_text(const MovePolicy& policy) {
  json out{{"priority", to_string(policy.priority)}, {"at_limit", to_string(policy.at_limit)}};
  if (policy.strategy) out["strategy"] = to_string(*policy.strategy);
  if (policy.bandwidth_limit) out["bandwidth_limit_bytes_per_s"] = policy.bandwidth_limit->value;
  if (policy.downtime_limit) out["downtime_limit_ms"] = policy.downtime_limit->count();
  if (policy.time_limit) out["time_limit_s"] = policy.time_limit->count();
  if (policy.drop_page_cache) out["drop_page_cache"] = true;
  if (policy.knobs != Knobs{}) out["knobs"] = knobs_json<json>(policy.knobs);
  return out.dump();
}

MovePolicy policy_from(const std::string& text) {
  const json from = object_from(text);
  MovePolicy out;
  out.priority = priority_from(word(from, "priority")).value_or(out.priority);
  out.at_limit = limit_action_from(word(from, "at_limit")).value_or(out.at_limit);
  out.strategy = strategy_from(word(from, "strategy"));
  if (from.contains("bandwidth_limit_bytes_per_s")) {
    out.bandwidth_limit = BytesPerSecond{number_or(from, "bandwidth_limit_bytes_per_s", 0.0)};
  }
  if (from.contains("downtime_limit_ms")) {
    out.downtime_limit = Milliseconds{number_or<std::int64_t>(from, "downtime_limit_ms", 0)};
  }
  if (from.contains("time_limit_s")) {
    out.time_limit = Seconds{number_or(from, "time_limit_s", 0.0)};
  }
  out.drop_page_cache = flag_or(from, "drop_page_cache", false);
  out.knobs = knobs_from(from, "knobs");
  return out;
}

std::string sending_text(const Sending& sending) {
  json out{{"strategy", to_string(sending.strategy)},
           {"channels", sending.channels},
           {"throttle_initial_percent", sending.throttle_initial_percent},
           {"throttle_step_percent", sending.throttle_step_percent},
           {"pre_copy_rounds", sending.pre_copy_rounds},
           {"rate_min_bytes_per_s", sending.rate_min.value},
           {"rate_max_bytes_per_s", sending.rate_max.value},
           {"rate_gain", sending.rate_gain},
           {"allow_post_copy", sending.allow_post_copy},
           {"limit_rises_early", sending.limit_rises_early}};
  if (sending.downtime_limit) out["downtime_limit_ms"] = sending.downtime_limit->count();
  if (sending.later_downtime_limit) {
    out["later_downtime_limit_ms"] = sending.later_downtime_limit->count();
  }
  if (sending.switchover_bandwidth) {
    out["switchover_bandwidth_bytes_per_s"] = sending.switchover_bandwidth->value;
  }
  if (!sending.sweep_switch.waits.empty()) {
    json waits = json::array();
    for (const Milliseconds wait : sending.sweep_switch.waits) waits.push_back(wait.count());
    out["sweep"] = sweep_json(sending.sweep_switch.sweep);
    out["sweep_waits_ms"] = std::move(waits);
    out["sweep_best_place"] = sending.sweep_switch.best_place;
    out["sweep_longest_hold_ms"] = sending.sweep_switch.longest_hold.count();
  }
  return out.dump();
}

Sending sending_from(const std::string& text) {
  const json from = object_from(text);
  Sending out;
  out.strategy = strategy_from(word(from, "strategy")).value_or(out.strategy);
  out.channels = number_or(from, "channels", out.channels);
  out.throttle_initial_percent =
      number_or(from, "throttle_initial_percent", out.throttle_initial_percent);
  out.throttle_step_percent = number_or(from, "throttle_step_percent", out.throttle_step_percent);
  out.pre_copy_rounds = number_or(from, "pre_copy_rounds", out.pre_copy_rounds);
  out.rate_min.value = number_or(from, "rate_min_bytes_per_s", out.rate_min.value);
  out.rate_max.value = number_or(from, "rate_max_bytes_per_s", out.rate_max.value);
  out.rate_gain = number_or(from, "rate_gain", out.rate_gain);
  out.allow_post_copy = flag_or(from, "allow_post_copy", false);
  out.limit_rises_early = flag_or(from, "limit_rises_early", false);
  const auto downtime = number_or<std::int64_t>(from, "downtime_limit_ms", 0);
  if (downtime > 0) out.downtime_limit = Milliseconds{downtime};
  const auto later = number_or<std::int64_t>(from, "later_downtime_limit_ms", 0);
  if (later > 0) out.later_downtime_limit = Milliseconds{later};
  const auto told = number_or(from, "switchover_bandwidth_bytes_per_s", 0.0);
  if (told > 0) out.switchover_bandwidth = BytesPerSecond{told};
  out.sweep_switch.sweep = sweep_from(from);
  out.sweep_switch.best_place = number_or(from, "sweep_best_place", 0.0);
  out.sweep_switch.longest_hold =
      Milliseconds{number_or<std::int64_t>(from, "sweep_longest_hold_ms", 0)};
  for (const auto& wait : list_in(from, "sweep_waits_ms")) {
    if (wait.is_number()) out.sweep_switch.waits.emplace_back(wait.get<std::int64_t>());
  }
  return out;
}

std::string file_move_text(const FileMove& file) {
  if (file.began.count() == 0) return "{}";
  json out{{"size_bytes", file.size.count},       {"checksum", checksum_text(file.checksum)},
           {"written_bytes", file.written.count}, {"began_us", file.began.count()},
           {"stopped_us", file.stopped.count()},  {"may_have_run", file.may_have_run}};
  if (file.check) out["check_us"] = file.check->count();
  if (file.trans) out["trans_us"] = file.trans->count();
  if (file.restart) out["restart_us"] = file.restart->count();
  return text_of(out);
}

FileMove file_move_from(const std::string& text) {
  const json from = object_from(text);
  FileMove out;
  out.size = Bytes{number_or<std::uint64_t>(from, "size_bytes", 0)};
  // Damaged here, it is no file's: the load says so.
  (void)checksum_from(word(from, "checksum"), out.checksum);
  out.written = Bytes{number_or<std::uint64_t>(from, "written_bytes", 0)};
  out.began = WallTime{number_or<std::int64_t>(from, "began_us", 0)};
  out.stopped = WallTime{number_or<std::int64_t>(from, "stopped_us", 0)};
  // Older rows do not tell: then it may.
  out.may_have_run =
      out.began.count() != 0 && (!from.contains("may_have_run") || from["may_have_run"] != false);
  const auto span = [&](const char* name) -> std::optional<Microseconds> {
    if (!from.contains(name)) return std::nullopt;
    return Microseconds{number_or<std::int64_t>(from, name, 0)};
  };
  out.check = span("check_us");
  out.trans = span("trans_us");
  out.restart = span("restart_us");
  return out;
}

Forecast read_forecast(Statement& row) {
  Forecast out;
  out.id = OperationId{row.text()};
  out.vm = VmId{row.text()};
  out.source = HostId{row.text()};
  out.destination = HostId{row.text()};
  out.made = WallTime{row.integer()};
  out.has_job = row.flag();
  out.program = row.text();
  out.choice = strategy_from(row.text());  // NULL reads as ""
  out.reason = row.text();
  out.sending = sending_from(row.text());
  out.policy = policy_from(row.text());
  out.profile = profile_from(object_from(row.text()));
  out.link = link_from(object_from(row.text()));
  out.strategies = strategy_forecasts_from(row.text());
  if (const std::string outcome = row.text(); !outcome.empty()) {
    out.outcome = forecast_outcome_from(object_from(outcome));
  }
  out.job = JobId{row.text()};
  out.verdicts = verdicts_from(row.text());
  out.destination_speed = row.real();
  out.tightness = row.real();
  return out;
}

void bind_row(Statement& to, const Forecast& forecast) {
  to.bind(forecast.id.value).bind(forecast.vm.value).bind(forecast.source.value);
  to.bind(forecast.destination.value).bind(forecast.made.count()).bind(forecast.has_job);
  to.bind(forecast.program);
  if (forecast.choice) {
    to.bind(to_string(*forecast.choice));
  } else {
    to.bind_null();
  }
  to.bind(forecast.reason).bind(sending_text(forecast.sending));
  to.bind(policy_text(forecast.policy)).bind(profile_text(forecast.profile));
  to.bind(link_text(forecast.link)).bind(strategies_text(forecast.strategies));
  if (forecast.outcome) {
    to.bind(outcome_text(*forecast.outcome));
  } else {
    to.bind_null();
  }
  to.bind(forecast.job.value).bind(verdicts_text(forecast.verdicts));
  to.bind(forecast.destination_speed).bind(forecast.tightness);
}

}  // namespace mare::store
