// forecast.make: what a move of a VM would cost. Nothing moves; a restart in the middle asks again.
#include <nlohmann/json.hpp>

#include "orchestrator/engine/forecast_maker.h"
#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/task.h"

namespace mare::engine {
namespace {

std::string destination_in(const std::string& request) {
  const auto from = nlohmann::json::parse(request, nullptr, false);
  if (!from.is_object()) return {};
  const auto found = from.find("destination");
  return found != from.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

class ForecastMake final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    if (operation().cancel_requested) return on_cancel();
    ForecastMakeState state{};
    MARE_ASSERT(state_from(operation().state, state));
    if (state == ForecastMakeState::Planned) {
      if (!commit(to_string(ForecastMakeEvent::Begin), to_string(ForecastMakeState::Measuring),
                  "")) {
        return;
      }
      return measure();
    }
    if (state == ForecastMakeState::Measuring) measure();
  }

  void on_cancel() override { give_up(make_error(Code::Cancelled, "cancelled")); }

 private:
  void measure() {
    ForecastQuestion question;
    auto row = vm(VmId{operation().target});
    if (!row) return give_up(row.error());
    question.id = operation().id;
    question.vm = *row;
    question.destination = HostId{destination_in(operation().request)};
    question.policy = move_policy_from(operation().request);
    const Timing timing = timing_from(operation().request);
    if (timing.moment == Moment::Trough) question.trough_within = timing.within;
    question.link_age = std::chrono::duration_cast<std::chrono::nanoseconds>(settings().link_age);
    // It may have moved or stopped since it was asked for.
    if (!row->host || row->state != VmState::Running || *row->host == question.destination) {
      return give_up(make_error(Code::FailedPrecondition,
                                "VM '" + row->id.value + "' is " +
                                    std::string(to_string(row->state)) +
                                    (row->host ? " on host '" + row->host->value + "'" : "")));
    }
    ForecastMaker::make(context_, question,
                        guarded<Result<Forecast>>([this](Result<Forecast> made) {
                          if (!made) return give_up(made.error());
                          keep(*made);
                        }));
  }

  void keep(const Forecast& forecast) {
    finish(to_string(ForecastMakeEvent::Made), to_string(ForecastMakeState::Done),
           Outcome::Succeeded, forecast.reason, {},
           [&](store::Transaction& tx) { return put_forecast(tx, clock(), forecast); });
  }

  void give_up(const Error& error) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(ForecastMakeEvent::GiveUp), to_string(ForecastMakeState::Failed), outcome,
           error.text(), std::string(to_string(error.code)));
  }
};

}  // namespace

std::shared_ptr<Task> make_forecast(Context& context, const Operation& operation) {
  return std::make_shared<ForecastMake>(context, operation);
}

}  // namespace mare::engine
