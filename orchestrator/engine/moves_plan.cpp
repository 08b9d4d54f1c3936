#include "orchestrator/engine/moves_plan.h"

#include <nlohmann/json.hpp>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/past_moves.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/policy/choice.h"
#include "orchestrator/policy/plan_words.h"

namespace mare::engine {
namespace {

using nlohmann::json;
using policy::Quantity;

/// "21.0 s (18.0 s to 25.0 s)"
std::string said(const Estimate& estimate, std::string (*say)(double)) {
  return say(estimate.value) + " (" + say(estimate.low) + " to " + say(estimate.high) + ")";
}

/// The one that loses by the move.
Result<std::optional<JobId>> running_job(const store::Reader& reader, const VmId& id) {
  auto vm = reader.vm(id);
  if (!vm && vm.error().code == Code::NotFound) return std::optional<JobId>{};  // gone since
  if (!vm) return vm.error();
  auto jobs = jobs_on(reader, *vm);
  if (!jobs) return jobs.error();
  for (const auto& job : *jobs) {
    if (job.state == JobState::Running) return std::optional<JobId>{job.id};
  }
  return std::optional<JobId>{};
}

// --- as its operation keeps it

json as_json(const Estimate& estimate) {
  return {{"value", estimate.value}, {"low", estimate.low}, {"high", estimate.high}};
}

Estimate estimate_from(const json& from, const char* name) {
  const json said = from.value(name, json::object());
  const double value = said.value("value", 0.0);
  return {value, said.value("low", value), said.value("high", value), value};
}

json figures(const std::function<Estimate(Quantity)>& of) {
  return {{"total_time_s", as_json(of(Quantity::TotalTime))},
          {"sent_bytes", as_json(of(Quantity::SentBytes))},
          {"downtime_s", as_json(of(Quantity::Downtime))},
          {"added_job_time_s", as_json(of(Quantity::AddedJobTime))}};
}

json move_json(const MovesPlan& plan, const policy::PlannedMove& planned, std::size_t wave) {
  const auto& move = plan.moves[planned.index];
  json out =
      figures([&](Quantity quantity) { return policy::planned(plan.moves, planned, quantity); });
  out["vm"] = move.vm.value;
  out["from"] = move.source.value;
  out["to"] = move.destination.value;
  out["job"] = move.job ? json(move.job->value) : json(nullptr);
  out["strategy"] = to_string(move.forecast.strategy);
  out["wave"] = wave;
  out["forecast"] = plan.forecasts.at(move.vm).value;
  return out;
}

json plan_json(const MovesPlan& plan) {
  json moves = json::array();
  json waves = json::array();
  for (const auto& wave : plan.plan.waves) {
    json vms = json::array();
    for (const auto& planned : wave.moves) {
      vms.push_back(plan.moves[planned.index].vm.value);
      moves.push_back(move_json(plan, planned, waves.size() + 1));
    }
    waves.push_back({{"begins_s", wave.begins_s},
                     {"duration_s", as_json(wave.duration_s)},
                     {"vms", std::move(vms)}});
  }
  json stay = json::array();
  for (const auto& one : plan.stay) {
    stay.push_back(
        {{"vm", one.vm.value}, {"forecast", plan.forecasts.at(one.vm).value}, {"reason", one.why}});
  }
  return {{"moves", std::move(moves)},
          {"stay", std::move(stay)},
          {"waves", std::move(waves)},
          {"total", figures([&](Quantity quantity) {
             return policy::together(plan.plan, plan.moves, quantity);
           })}};
}

/// Into the wave that it is in, which follows the last one, or is that.
void take_move(const json& from, MovesPlan& plan) {
  policy::WantedMove move{VmId{from.value("vm", std::string())},
                          HostId{from.value("from", std::string())},
                          HostId{from.value("to", std::string())},
                          std::nullopt,
                          {}};
  const auto job = from.find("job");
  if (job != from.end() && job->is_string()) move.job = JobId{job->get<std::string>()};
  move.forecast.strategy =
      strategy_from(from.value("strategy", std::string())).value_or(Strategy::PreCopy);
  move.forecast.total_time_s = estimate_from(from, "total_time_s");
  move.forecast.sent_bytes = estimate_from(from, "sent_bytes");
  move.forecast.downtime_s = estimate_from(from, "downtime_s");
  move.forecast.added_job_time_s = estimate_from(from, "added_job_time_s");
  auto& waves = plan.plan.waves;
  if (waves.empty() || waves.size() < from.value("wave", std::size_t{1})) waves.emplace_back();
  waves.back().moves.push_back(
      {plan.moves.size(), move.forecast.total_time_s, move.forecast.added_job_time_s});
  plan.forecasts.emplace(move.vm, OperationId{from.value("forecast", std::string())});
  plan.moves.push_back(std::move(move));
}

}  // namespace

Result<MovesPlan> read_moves_plan(const store::Reader& reader, const OperationId& plan,
                                  const policy::MoveCaps& caps,
                                  const std::function<bool(const Forecast&)>& wanted) {
  store::OperationFilter filter;
  filter.parent = plan;
  filter.limit = 100000;
  auto children = reader.operations(filter);
  if (!children) return children.error();
  MovesPlan out;
  // Newest first; the plan is not to depend on that.
  for (auto child = children->rbegin(); child != children->rend(); ++child) {
    auto forecast = reader.forecast(child->id);
    if (!forecast && forecast.error().code == Code::NotFound) continue;  // its VM is gone
    if (!forecast) return forecast.error();
    if (wanted && !wanted(*forecast)) continue;
    out.forecasts.insert_or_assign(forecast->vm, forecast->id);
    const auto* chosen = forecast->choice ? forecast_of(*forecast, *forecast->choice) : nullptr;
    if (chosen == nullptr) {
      out.stay.push_back({forecast->vm, forecast->reason});
      continue;
    }
    auto job = running_job(reader, forecast->vm);
    if (!job) return job.error();
    out.moves.push_back({forecast->vm, forecast->source, forecast->destination, *job, *chosen});
  }
  out.plan = policy::plan_moves(out.moves, caps);
  return out;
}

std::string in_words(const MovesPlan& plan) {
  if (plan.moves.empty() && plan.stay.empty()) return "there is no VM to move";
  std::string out = "no VM could move";
  if (!plan.moves.empty()) {
    const auto all = [&](Quantity quantity) {
      return policy::together(plan.plan, plan.moves, quantity);
    };
    out = policy::counted(plan.moves.size(), "VM") + (plan.stay.empty() ? " would" : " could") +
          " move in " + policy::counted(plan.plan.waves.size(), "wave") + ": " +
          said(plan.plan.duration_s, policy::say_time) + " in all, " +
          said(all(Quantity::SentBytes), policy::say_bytes) + ", " +
          said(plan.plan.added_job_time_s, policy::say_time) + " of added job time";
  }
  if (plan.stay.empty()) return out;
  const Stay& first = plan.stay.front();
  out += "; nothing will, as VM '" + first.vm.value + "' had better stay: " + first.why;
  if (plan.stay.size() > 1) out += "; and " + std::to_string(plan.stay.size() - 1) + " more";
  return out;
}

std::string text_of(const PolicyChange& policy, const MovesPlan& plan) {
  json out = json::parse(text_of(policy));
  out["plan"] = plan_json(plan);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<MovesPlan> moves_plan_from(const std::string& text) {
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object() || !from.value("plan", json()).is_object()) return std::nullopt;
  const json& kept = from["plan"];
  MovesPlan out;
  for (const auto& one : kept.value("moves", json::array())) take_move(one, out);
  for (const auto& one : kept.value("stay", json::array())) {
    out.stay.push_back({VmId{one.value("vm", std::string())}, one.value("reason", std::string())});
    out.forecasts.emplace(out.stay.back().vm, OperationId{one.value("forecast", std::string())});
  }
  const json waves = kept.value("waves", json::array());
  for (std::size_t w = 0; w < out.plan.waves.size() && w < waves.size(); ++w) {
    out.plan.waves[w].begins_s = waves[w].value("begins_s", 0.0);
    out.plan.waves[w].duration_s = estimate_from(waves[w], "duration_s");
  }
  out.plan.duration_s = policy::together(out.plan, out.moves, Quantity::TotalTime);
  out.plan.added_job_time_s = policy::together(out.plan, out.moves, Quantity::AddedJobTime);
  return out;
}

}  // namespace mare::engine
