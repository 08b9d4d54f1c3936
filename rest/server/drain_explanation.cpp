#include "rest/server/drain_explanation.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "orchestrator/engine/moves_plan.h"
#include "orchestrator/engine/past_moves.h"
#include "rest/server/explanation.h"
#include "rest/wire/entities.h"

namespace mare::rest {
namespace {

using wire::Json;
using Outcomes = std::map<VmId, ForecastOutcome>;  // of VMs that were moved

std::optional<double> came_of(const ForecastOutcome& outcome, policy::Quantity quantity) {
  switch (quantity) {
    case policy::Quantity::TotalTime:
      return outcome.total_time_s;
    case policy::Quantity::SentBytes:
      return outcome.sent_bytes;
    case policy::Quantity::Downtime:
      return outcome.downtime_s;
    case policy::Quantity::AddedJobTime:
      return outcome.added_job_time_s;
  }
  return std::nullopt;
}

/// None: it did not move its VM, or nobody saw how long that took. A forecast keeps no outcome of a
/// move that shared its link, since it did not know of that; the plan does.
std::optional<ForecastOutcome> outcome_of(const DrainRows::Move& move) {
  if (move.operation.outcome != Outcome::Succeeded) return std::nullopt;
  if (move.forecast && move.forecast->outcome) return move.forecast->outcome;
  auto out = engine::measured_outcome(move.migration);
  // As in a forecast's: what it waited for others of its job was not forecast.
  const Seconds held = move.migration.held.value_or(Microseconds{0});
  if (out) out->total_time_s = std::max(0.0, out->total_time_s - held.count());
  return out;
}

/// What moves were to come to together, and came to.
struct Sum {
  Estimate said;
  std::optional<double> actual;
  std::size_t moves = 0;  // that it was measured of; 0: `said` is of all
};

Sum sum_of(const engine::MovesPlan& plan, const Outcomes& outcomes, policy::Quantity quantity) {
  const auto measured = [&](const policy::PlannedMove& move) -> std::optional<double> {
    const auto found = outcomes.find(plan.moves[move.index].vm);
    return found == outcomes.end() ? std::nullopt : came_of(found->second, quantity);
  };
  Sum out;
  for (const auto& wave : plan.plan.waves) {
    out.moves += static_cast<std::size_t>(
        std::count_if(wave.moves.begin(), wave.moves.end(),
                      [&](const policy::PlannedMove& move) { return measured(move); }));
  }
  if (out.moves == 0) {
    out.said = policy::together(plan.plan, plan.moves, quantity);
    return out;
  }
  out.said = policy::together(plan.plan, plan.moves, quantity,
                              [&](const policy::PlannedMove& move) -> std::optional<Estimate> {
                                if (!measured(move)) return std::nullopt;
                                return policy::planned(plan.moves, move, quantity);
                              });
  const auto actual =
      policy::together(plan.plan, plan.moves, quantity,
                       [&](const policy::PlannedMove& move) -> std::optional<Estimate> {
                         const auto value = measured(move);
                         if (!value) return std::nullopt;
                         return Estimate{*value, *value, *value, *value};
                       });
  out.actual = actual.value;
  return out;
}

Json sums_json(const engine::MovesPlan& plan, const Outcomes& outcomes) {
  Json out = Json::array();
  for (const auto& figure : kFigures) {
    const Sum sum = sum_of(plan, outcomes, figure.quantity);
    out.push_back(figure_json(figure, sum.said, sum.actual));
    out.back()["moves"] = sum.moves;
  }
  return out;
}

/// A move that the plan has.
struct Planned {
  std::size_t wave = 0;  // from 1
  const policy::WantedMove* move = nullptr;
};

Json figures_json(const StrategyForecast& said, const std::optional<ForecastOutcome>& outcome) {
  Json out = Json::array();
  for (const auto& figure : kFigures) {
    out.push_back(figure_json(figure, policy::estimate_of(said, figure.quantity),
                              outcome ? came_of(*outcome, figure.quantity) : std::nullopt));
  }
  return out;
}

/// By what the plan says of it, and what the plan has not by its own forecast.
Json begun_json(const DrainRows::Move& move, const Planned& planned) {
  const Strategy strategy = move.migration.sending.strategy;
  const std::string& reason = move.operation.reason;
  const StrategyForecast* said = nullptr;
  if (planned.move != nullptr) {
    said = &planned.move->forecast;
  } else if (move.forecast) {
    said = engine::forecast_of(*move.forecast, strategy);
  }
  return Json{{"migration", move.migration.id.value},
              {"vm", move.migration.vm.value},
              {"source", move.migration.source.value},
              {"destination", move.migration.destination.value},
              {"wave", planned.move != nullptr ? Json(planned.wave) : Json(nullptr)},
              {"strategy", to_string(strategy)},
              {"outcome", to_string(move.operation.outcome)},
              {"reason", reason.empty() ? Json(nullptr) : Json(reason)},
              {"figures", said != nullptr ? figures_json(*said, outcome_of(move)) : Json::array()}};
}

Json not_begun_json(const Planned& planned) {
  const auto& move = *planned.move;
  return Json{{"migration", nullptr},
              {"vm", move.vm.value},
              {"source", move.source.value},
              {"destination", move.destination.value},
              {"wave", planned.wave},
              {"strategy", to_string(move.forecast.strategy)},
              {"outcome", nullptr},
              {"reason", nullptr},
              {"figures", figures_json(move.forecast, std::nullopt)}};
}

/// In the order of waves; then what the plan does not have.
Json moves_json(const DrainRows& rows, const engine::MovesPlan& plan) {
  Json out = Json::array();
  std::set<VmId> told;
  for (std::size_t w = 0; w < plan.plan.waves.size(); ++w) {
    for (const auto& one : plan.plan.waves[w].moves) {
      const Planned planned{w + 1, &plan.moves[one.index]};
      told.insert(planned.move->vm);
      const std::size_t before = out.size();
      for (const auto& move : rows.moves) {  // one that failed is tried again
        if (move.migration.vm == planned.move->vm) out.push_back(begun_json(move, planned));
      }
      if (out.size() == before) out.push_back(not_begun_json(planned));
    }
  }
  for (const auto& move : rows.moves) {
    if (!told.contains(move.migration.vm)) out.push_back(begun_json(move, {}));
  }
  return out;
}

std::string came_true(const engine::MovesPlan& plan, const Outcomes& outcomes) {
  std::string out;
  int measured = 0;
  int held = 0;
  for (const auto& figure : kFigures) {
    const Sum sum = sum_of(plan, outcomes, figure.quantity);
    if (!sum.actual) continue;
    out += (measured == 0 ? " " : "; ") + clause(figure, sum.said, *sum.actual);
    if (sum.moves < outcomes.size()) {
      out += " (" + std::to_string(sum.moves) + " of " + std::to_string(outcomes.size()) +
             " moves tell)";
    }
    ++measured;
    if (sum.said.low <= *sum.actual && *sum.actual <= sum.said.high) ++held;
  }
  if (measured == 0) return "";
  return " All moves together" + out + "; " + std::to_string(held) + " of " +
         std::to_string(measured) + " figures lay in their intervals.";
}

std::string sentence(const DrainRows& rows, const std::optional<engine::MovesPlan>& plan,
                     const Outcomes& outcomes) {
  const Operation& drain = rows.drain;
  const auto so_many = std::to_string(outcomes.size()) + (outcomes.size() == 1 ? " VM" : " VMs");
  std::string out = "It goes on: " + so_many + " moved so far.";
  if (drain.finished()) {
    const double all_s = Seconds{drain.ended - drain.created}.count();
    out = so_many + " moved in " + policy::say_time(all_s) + ", forecasts and waits included.";
    if (drain.outcome != Outcome::Succeeded) {
      out = "It did not empty its host: " + drain.reason + ". " + out;
    }
  }
  if (plan) return out + came_true(*plan, outcomes);
  if (!rows.plan || !rows.plan->finished()) return out;
  return out + " It had no plan" +
         (rows.plan->reason.empty() ? "." : ": " + rows.plan->reason + ".");
}

}  // namespace

Result<DrainRows> read_drain(const store::Reader& reader, const OperationId& id) {
  auto drain = reader.operation(id);
  if (!drain) return drain.error();
  if (drain->kind != OperationKind::HostDrain) {
    return make_error(Code::NotFound,
                      "operation '" + id.value + "' is a " + std::string(to_string(drain->kind)) +
                          ", not a host.drain",
                      "name a host.drain, or ask for a migration's explanation");
  }
  store::OperationFilter filter;
  filter.parent = id;
  filter.limit = 100000;
  auto children = reader.operations(filter);
  if (!children) return children.error();
  DrainRows out;
  out.drain = *std::move(drain);
  for (auto child = children->rbegin(); child != children->rend(); ++child) {  // oldest first
    if (child->kind == OperationKind::PlanDrain) out.plan = *child;
    if (child->kind != OperationKind::VmMigrate) continue;
    auto migration = reader.migration(child->id);
    if (!migration && migration.error().code == Code::NotFound) continue;  // not prepared yet
    if (!migration) return migration.error();
    DrainRows::Move move{*child, *std::move(migration), std::nullopt};
    auto forecast = reader.forecast(child->id);
    if (!forecast && forecast.error().code != Code::NotFound) return forecast.error();
    if (forecast) move.forecast = *std::move(forecast);
    out.moves.push_back(std::move(move));
  }
  return out;
}

wire::Json drain_explanation(const DrainRows& rows) {
  const auto plan = rows.plan ? engine::moves_plan_from(rows.plan->request) : std::nullopt;
  Outcomes outcomes;
  for (const auto& move : rows.moves) {
    if (auto outcome = outcome_of(move)) outcomes.insert_or_assign(move.migration.vm, *outcome);
  }
  Json planned = nullptr;
  if (plan) planned = wire::to_json(*rows.plan)["request"]["plan"];
  const Operation& drain = rows.drain;
  return Json{{"operation", drain.id.value},
              {"host", drain.target},
              {"outcome", to_string(drain.outcome)},
              {"sentence", sentence(rows, plan, outcomes)},
              {"reason", rows.plan ? Json(rows.plan->reason) : Json(nullptr)},
              {"elapsed_s", drain.finished() ? Json(Seconds{drain.ended - drain.created}.count())
                                             : Json(nullptr)},
              {"figures", plan ? sums_json(*plan, outcomes) : Json::array()},
              {"migrations", moves_json(rows, plan.value_or(engine::MovesPlan{}))},
              {"plan", std::move(planned)}};
}

}  // namespace mare::rest
