#include "orchestrator/engine/past_moves.h"

#include <algorithm>

#include "orchestrator/policy/crowding.h"
#include "orchestrator/policy/strategy_estimate.h"

namespace mare::engine {
namespace {
double seconds(Microseconds span) {
  return std::chrono::duration<double>(span).count();
}
}  // namespace

std::optional<ForecastOutcome> measured_outcome(const Migration& migration) {
  if (!migration.total_time || migration.total_time->count() <= 0) return std::nullopt;
  ForecastOutcome out;
  out.strategy = migration.sending.strategy;
  out.total_time_s = seconds(*migration.total_time);
  // A file goes over links twice: it is written, and read.
  const double times = out.strategy == Strategy::CheckpointRestart ? 2 : 1;
  out.sent_bytes = times * static_cast<double>(migration.transferred.count);
  // The hypervisor's own figure is what the models speak of; the guest's is the next best.
  const auto& downtime =
      migration.downtime_hypervisor ? migration.downtime_hypervisor : migration.downtime_guest;
  if (downtime) out.downtime_s = seconds(*downtime);
  // A first round that begins at zero is one whose begin nobody saw.
  const bool live = out.strategy != Strategy::CheckpointRestart;
  if (live && !migration.rounds.empty() && migration.rounds.front().started.count() > 0) {
    const Round& first = migration.rounds.front();
    out.set_up_s = std::min(out.total_time_s, seconds(first.started));
    out.first_round = {seconds(first.duration), static_cast<double>(first.sent.count)};
  }
  return out;
}

const StrategyForecast* forecast_of(const Forecast& forecast, Strategy strategy) {
  const auto found =
      std::find_if(forecast.strategies.begin(), forecast.strategies.end(),
                   [&](const StrategyForecast& one) { return one.strategy == strategy; });
  return found == forecast.strategies.end() ? nullptr : &*found;
}

policy::ForecastInput input_of(const Forecast& forecast) {
  policy::ForecastInput out;
  out.source = forecast.source;
  out.destination = forecast.destination;
  out.policy = forecast.policy;
  out.profile = forecast.profile;
  out.link = forecast.link;
  if (forecast.has_job) {
    out.job = policy::JobCoupling{forecast.program};
    out.job->id = forecast.job;
    out.job->tightness = forecast.tightness;
  }
  out.destination_speed = forecast.destination_speed;
  return out;
}

std::optional<policy::PastMove> past_move(const Forecast& forecast) {
  if (!forecast.outcome) return std::nullopt;
  const auto* said = forecast_of(forecast, forecast.outcome->strategy);
  if (said == nullptr) return std::nullopt;
  policy::PastMove out;
  out.source = forecast.source;
  out.destination = forecast.destination;
  out.program = forecast.program;
  out.job = forecast.job;
  out.forecast = *said;
  out.link_goodput = forecast.link.goodput;
  out.total_time_s = forecast.outcome->total_time_s;
  out.sent_bytes = forecast.outcome->sent_bytes;
  out.downtime_s = forecast.outcome->downtime_s;
  out.added_job_time_s = forecast.outcome->added_job_time_s;
  out.set_up_s = forecast.outcome->set_up_s;
  out.usual_set_up_s = policy::usual_set_up_s(forecast.profile);
  out.start_timed = forecast.profile.emulator_start.count() > 0;
  out.unfilled = policy::seen_unfilled_share(forecast.profile, forecast.link.goodput,
                                             forecast.policy, *forecast.outcome);
  out.usual_unfilled = policy::usual_unfilled_share(forecast.profile, forecast.link.goodput,
                                                    forecast.outcome->strategy);
  return out;
}

std::vector<policy::PastMove> past_moves(const std::vector<Forecast>& forecasts) {
  std::vector<policy::PastMove> out;
  for (const auto& forecast : forecasts) {
    if (auto move = past_move(forecast)) out.push_back(std::move(*move));
  }
  return out;
}

}  // namespace mare::engine
