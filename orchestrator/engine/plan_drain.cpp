// plan.drain: what emptying a host would cost. A child forecasts the move of each of its VMs;
// nothing moves.
#include <array>
#include <cstdio>
#include <set>

#include "orchestrator/engine/children.h"
#include "orchestrator/engine/past_moves.h"
#include "orchestrator/policy/move_plan.h"

namespace mare::engine {
namespace {

// As many as a forecast's patience bears that wait for each other's bursts.
constexpr std::size_t kAtOnce = 4;
// As host.drain does it: one after the other.
constexpr policy::MoveCaps kDrainCaps{1, 1};

std::string seconds_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", value);
  return text.data();
}

class PlanDrain final : public Task {
 public:
  using Task::Task;

  void enter(bool /*recovered*/) override {
    PlanDrainState state{};
    MARE_ASSERT(state_from(operation().state, state));
    if (state == PlanDrainState::Planned) {
      if (!commit(to_string(PlanDrainEvent::Begin), to_string(PlanDrainState::Asking), "")) return;
    }
    advance();
  }
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }

 private:
  HostId id() const { return HostId{operation().target}; }

  void advance() {
    auto children = children_of(context_, operation().id);
    if (!children) return again();
    std::set<std::string> asked;
    std::size_t running = 0;
    std::string trouble;
    for (const auto& child : *children) {
      asked.insert(child.target);
      if (!child.finished()) {
        ++running;
        if (operation().cancel_requested) cancel_child(context_, child.id);
      } else if (child.outcome != Outcome::Succeeded && trouble.empty()) {
        trouble = "VM '" + child.target + "': " + child.reason;
      }
    }
    if (operation().cancel_requested) {
      if (running == 0) give_up(make_error(Code::Cancelled, "cancelled"));
      return;
    }
    if (trouble.empty()) {
      auto more = ask_more(asked, running);
      if (!more) return give_up(more.error());
      if (*more) return;
    }
    if (running > 0) return;  // their ends bring us back
    if (!trouble.empty()) return give_up(make_error(Code::FailedPrecondition, trouble));
    sum_up(*children);
  }

  /// True when there is still something to wait for.
  Result<bool> ask_more(const std::set<std::string>& asked, std::size_t running) {
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_on(id()); });
    if (!vms) return vms.error();
    auto places = query<std::vector<HostId>>(
        store(), [&](const store::Reader& r) { return find_destinations(r, id()); });
    if (!places) return places.error();
    bool waits = running > 0;
    for (std::size_t i = 0; i < vms->size() && i < places->size(); ++i) {
      if (asked.contains((*vms)[i].id.value)) continue;
      waits = true;
      if (running >= kAtOnce) break;
      ForecastRequest request;
      request.vm = (*vms)[i].id;
      request.destination = (*places)[i];
      auto child = start_child(context_, request, operation().id);
      if (!child) return child.error().during("VM '" + request.vm.value + "'");
      ++running;
    }
    return waits;
  }

  void sum_up(const std::vector<Operation>& children) {
    auto forecasts = query<std::vector<Forecast>>(
        store(), [&](const store::Reader& reader) -> Result<std::vector<Forecast>> {
          std::vector<Forecast> out;
          for (const auto& child : children) {
            auto one = reader.forecast(child.id);
            if (!one) return one.error();
            out.push_back(std::move(*one));
          }
          return out;
        });
    if (!forecasts) return again();
    finish(to_string(PlanDrainEvent::AllMade), to_string(PlanDrainState::Done), Outcome::Succeeded,
           in_words(*forecasts));
  }

  static std::string in_words(const std::vector<Forecast>& forecasts) {
    if (forecasts.empty()) return "there is no VM to move";
    std::vector<policy::WantedMove> moves;
    std::string stay;
    double bytes = 0;
    for (const auto& forecast : forecasts) {
      const auto* said = forecast.choice ? forecast_of(forecast, *forecast.choice) : nullptr;
      if (said == nullptr) {
        stay += (stay.empty() ? "" : ", ") + forecast.vm.value;
        continue;
      }
      moves.push_back({forecast.vm, forecast.source, forecast.destination, std::nullopt, *said});
      bytes += said->sent_bytes.value;
    }
    const auto plan = policy::plan_moves(moves, kDrainCaps);
    std::string out = std::to_string(moves.size()) +
                      (moves.size() == 1 ? " VM" : " VMs, one after the other,") +
                      " would move in " + seconds_text(plan.duration_s) + " with " +
                      std::to_string(static_cast<long long>(bytes / 1e6)) + " MB and " +
                      seconds_text(plan.added_job_time_s) + " of added job time";
    if (!stay.empty()) out += "; not to be moved: " + stay;
    return out;
  }

  void give_up(const Error& error) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(PlanDrainEvent::GiveUp), to_string(PlanDrainState::Failed), outcome,
           error.text(), std::string(to_string(error.code)));
  }
};

}  // namespace

std::shared_ptr<Task> make_plan_drain(Context& context, const Operation& operation) {
  return std::make_shared<PlanDrain>(context, operation);
}

}  // namespace mare::engine
