// Before anything is reserved: what the move will cost, and by which strategy. A crash here leaves
// no trace and the forecast is made again; once it is reserved for, the forecast is stored. A host
// that can't tell costs the forecast, not the move.
#include <algorithm>

#include "orchestrator/engine/forecast_maker.h"
#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/past_moves.h"
#include "orchestrator/engine/vm_migrate.h"
#include "orchestrator/policy/score.h"

namespace mare::engine {

void VmMigrate::forecast_first() {
  if (operation().cancel_requested) return refuse(make_error(Code::Cancelled, "cancelled"));
  if (vm_.state != VmState::Running || !vm_.host) return reserve();  // which says what is wrong
  if (watches_anew()) return;
  ForecastQuestion question{operation().id, vm_, migration_.destination, policy_};
  question.tried = migration_.earlier;
  if (timing_from(operation().request).moment == Moment::Trough) question.trough_within.emplace(0);
  ForecastMaker::make(context_, question, guarded<Result<Forecast>>([this](Result<Forecast> made) {
                        // Some seconds may have passed.
                        if (!load()) return load_again();
                        take_up(std::move(made));
                      }));
}

void VmMigrate::take_up(Result<Forecast> made) {
  const bool anew = !migration_.earlier.empty();
  if (!made && anew) {
    // Blindly it would only go the same way once more.
    return refuse(
        made.error().during("it can't be forecast anew: " + why_in(to_string(State::Planned), "")));
  }
  if (!made) {
    no_forecast_ = made.error().text();
    log().info("engine", operation().id.value + " begins without a forecast: " + no_forecast_);
    return reserve();
  }
  // Of the sendings before this one.
  if (forecast_) made->verdicts = std::move(forecast_->verdicts);
  forecast_ = std::move(*made);
  if (forecast_->choice) {
    // Also when the strategy was named: the forecast is of these settings of it.
    const bool its_own = !policy_.strategy || *policy_.strategy == forecast_->sending.strategy;
    if (its_own) migration_.sending = forecast_->sending;
    return reserve();
  }
  if (is_forced(operation().request) && !anew) return reserve();
  const bool manual = policy_.strategy.has_value();
  const Error error =
      make_error(manual ? Code::Unsupported : Code::FailedPrecondition, forecast_->reason,
                 manual ? "choose another strategy; a dry run shows them all"
                        : "'force' moves it all the same");
  finish(to_string(Event::Abort), to_string(State::Failed), Outcome::Failed, error.text(),
         std::string(to_string(error.code)),
         [&](store::Transaction& tx) { return put_forecast(tx, clock(), *forecast_); });
}

/// What goes into the transaction that reserves.
Status VmMigrate::keep_forecast(store::Transaction& tx) {
  if (auto done = tx.put(migration_); !done) return done;
  if (!forecast_) return ok_status();
  return put_forecast(tx, clock(), *forecast_);
}

/// What goes into the transaction that ends it.
Status VmMigrate::score_forecast(store::Transaction& tx) {
  if (!forecast_) return ok_status();
  auto outcome = measured_outcome(migration_);
  // It was forecast for a link of its own: what others took of that says nothing of the forecast,
  // and would teach the next ones that this strategy is slow.
  if (!outcome || attempt_.shared) {
    forget_verdict();
    return tx.put(*forecast_);
  }
  // What it waited for others of its job is not what was forecast.
  const Seconds held = migration_.held.value_or(Microseconds{0});
  outcome->total_time_s = std::max(0.0, outcome->total_time_s - held.count());
  // One that was forced to its end did not come to it by itself.
  const auto ended =
      attempt_.out_of_time ? std::nullopt : std::optional(Seconds{outcome->total_time_s});
  score_verdict(ended, attempt_.out_of_time ? attempt_.out_of_time : policy_.time_limit);
  forecast_->outcome = outcome;
  return put_forecast(tx, clock(), *forecast_);
}

/// One that was stopped may have switched all the same: its end is what counts.
void VmMigrate::forget_verdict() {
  const int sending = static_cast<int>(migration_.earlier.size()) + 1;
  std::erase_if(forecast_->verdicts,
                [sending](const ScoredVerdict& one) { return one.sending == sending; });
}

void VmMigrate::score_verdict(std::optional<Seconds> ended, std::optional<Seconds> limit) {
  const Strategy strategy = migration_.sending.strategy;
  const auto* said = forecast_of(*forecast_, strategy);
  const auto score = said == nullptr ? std::nullopt : policy::score_verdict(*said, ended, limit);
  forget_verdict();
  const int sending = static_cast<int>(migration_.earlier.size()) + 1;
  if (score) forecast_->verdicts.push_back({sending, strategy, *score});
}

Status VmMigrate::keep_verdict(store::Transaction& tx, Seconds stopped_after) {
  // Held, it could have ended; and of a shared link it was not forecast.
  if (!forecast_ || attempt_.held_since || attempt_.shared) return ok_status();
  score_verdict(std::nullopt, stopped_after);
  return tx.put(*forecast_);
}

}  // namespace mare::engine
