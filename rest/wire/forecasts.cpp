#include "rest/wire/forecasts.h"

#include "rest/wire/policies.h"
#include "rest/wire/time.h"

namespace mare::wire {
namespace {

template <typename T, typename Show>
Json or_null(const std::optional<T>& value, Show show) {
  return value ? Json(show(*value)) : Json(nullptr);
}

std::string name_of(Strategy strategy) {
  return std::string(to_string(strategy));
}

Json cycle_json(const DirtyCycle& cycle) {
  Json points = Json::array();
  for (const auto& point : cycle.points) {
    points.push_back(Json{{"wall_us", point.wall.count()},
                          {"progress_us", point.progress.count()},
                          {"unique_bytes", point.unique.count}});
  }
  return Json{{"began", time_json(cycle.began)}, {"points", std::move(points)}};
}

Json sweep_json(const Sweep& sweep) {
  if (sweep.period.count() == 0) return nullptr;
  return Json{{"descending", sweep.descending}, {"period_ms", to_ms(sweep.period)}};
}

Json verdicts_json(const std::vector<ScoredVerdict>& verdicts) {
  Json out = Json::array();
  for (const auto& one : verdicts) {
    out.push_back(Json{{"sending", one.sending},
                       {"strategy", to_string(one.strategy)},
                       {"score", to_string(one.score)}});
  }
  return out;
}

Json sweep_switch_json(const SweepSwitch& value) {
  if (value.waits.empty()) return nullptr;
  Json waits = Json::array();
  for (const Milliseconds wait : value.waits) waits.push_back(wait.count());
  Json out = sweep_json(value.sweep);
  out["waits_ms"] = std::move(waits);
  out["best_place"] = value.best_place;
  out["longest_hold_ms"] = value.longest_hold.count();
  return out;
}

}  // namespace

Json to_json(const MovePolicy& policy) {
  return Json{
      {"priority", to_string(policy.priority)},
      {"strategy", or_null(policy.strategy, name_of)},
      {"bandwidth_limit_bytes_per_s",
       or_null(policy.bandwidth_limit, [](BytesPerSecond rate) { return rate.value; })},
      {"downtime_limit_ms",
       or_null(policy.downtime_limit, [](Milliseconds limit) { return limit.count(); })},
      {"time_limit_s", or_null(policy.time_limit, [](Seconds limit) { return limit.count(); })},
      {"at_limit", to_string(policy.at_limit)},
      {"drop_page_cache", policy.drop_page_cache},
      {"knobs", to_json(policy.knobs)}};
}

Json to_json(const Sending& sending) {
  return Json{
      {"strategy", to_string(sending.strategy)},
      {"channels", sending.channels},
      {"throttle_initial_percent", sending.throttle_initial_percent},
      {"throttle_step_percent", sending.throttle_step_percent},
      {"pre_copy_rounds", sending.pre_copy_rounds},
      {"rate_min_bytes_per_s", sending.rate_min.value},
      {"rate_max_bytes_per_s", sending.rate_max.value},
      {"rate_gain", sending.rate_gain},
      {"allow_post_copy", sending.allow_post_copy},
      {"downtime_limit_ms",
       or_null(sending.downtime_limit, [](Milliseconds limit) { return limit.count(); })},
      {"later_downtime_limit_ms",
       or_null(sending.later_downtime_limit, [](Milliseconds limit) { return limit.count(); })},
      {"switchover_bandwidth_bytes_per_s",
       or_null(sending.switchover_bandwidth, [](BytesPerSecond rate) { return rate.value; })},
      {"limit_rises_early", sending.limit_rises_early},
      {"sweep_switch", sweep_switch_json(sending.sweep_switch)}};
}

Json to_json(const MemoryProfile& profile) {
  Json cycles = Json::array();
  for (const auto& cycle : profile.cycles) cycles.push_back(cycle_json(cycle));
  return Json{{"source", profile.source},
              {"taken", time_json(profile.taken)},
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
              {"heat", profile.heat}};
}

Json to_json(const LinkMeasurement& link) {
  return Json{{"goodput_bytes_per_s", link.goodput.value},
              {"round_trip_ms", to_ms(link.round_trip)},
              {"sent_bytes", link.sent.count},
              {"unshared_bytes_per_s", link.unshared.value},
              {"one_machine", link.one_machine}};
}

Json to_json(const Estimate& estimate) {
  return Json{{"value", estimate.value},
              {"low", estimate.low},
              {"high", estimate.high},
              {"model", estimate.model}};
}

Json to_json(const StrategyForecast& forecast) {
  return Json{{"strategy", to_string(forecast.strategy)},
              {"offered", forecast.offered},
              {"why_not", forecast.why_not.empty() ? Json(nullptr) : Json(forecast.why_not)},
              {"converges", forecast.converges},
              {"end_unsure", forecast.end_unsure},
              {"rounds", forecast.rounds},
              {"total_time_s", to_json(forecast.total_time_s)},
              {"sent_bytes", to_json(forecast.sent_bytes)},
              {"downtime_s", to_json(forecast.downtime_s)},
              {"added_job_time_s", to_json(forecast.added_job_time_s)}};
}

Json to_json(const FirstRound& round) {
  return Json{{"duration_s", round.duration_s}, {"sent_bytes", round.sent_bytes}};
}

Json to_json(const ForecastOutcome& outcome) {
  return Json{{"strategy", to_string(outcome.strategy)},
              {"total_time_s", outcome.total_time_s},
              {"sent_bytes", outcome.sent_bytes},
              {"downtime_s", number_or_null(outcome.downtime_s)},
              {"added_job_time_s", number_or_null(outcome.added_job_time_s)},
              {"set_up_s", number_or_null(outcome.set_up_s)},
              {"first_round", outcome.first_round ? to_json(*outcome.first_round) : Json(nullptr)}};
}

Json to_json(const Forecast& forecast) {
  Json strategies = Json::array();
  for (const auto& one : forecast.strategies) strategies.push_back(to_json(one));
  return Json{{"id", forecast.id.value},
              {"vm", forecast.vm.value},
              {"source", forecast.source.value},
              {"destination", forecast.destination.value},
              {"made", time_json(forecast.made)},
              {"choice", or_null(forecast.choice, name_of)},
              {"reason", forecast.reason},
              {"strategies", std::move(strategies)},
              {"outcome", forecast.outcome ? to_json(*forecast.outcome) : Json(nullptr)},
              {"verdicts", verdicts_json(forecast.verdicts)},
              {"has_job", forecast.has_job},
              {"tightness", forecast.has_job ? Json(forecast.tightness) : Json(nullptr)},
              {"destination_speed", forecast.destination_speed},
              {"program", forecast.program.empty() ? Json(nullptr) : Json(forecast.program)},
              {"policy", to_json(forecast.policy)},
              {"sending", forecast.choice ? to_json(forecast.sending) : Json(nullptr)},
              {"link", to_json(forecast.link)},
              {"profile", to_json(forecast.profile)}};
}

}  // namespace mare::wire
