#include "orchestrator/engine/moves_plan.h"

#include <array>
#include <cstdio>

#include "orchestrator/engine/past_moves.h"
#include "orchestrator/engine/plan.h"

namespace mare::engine {
namespace {

constexpr std::size_t kWavesTold = 6;

std::string seconds_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", value);
  return text.data();
}

/// "demo-0 with demo-2, then demo-1"
std::string waves_text(const MovesPlan& plan) {
  std::string out;
  const auto& waves = plan.plan.waves;
  for (std::size_t w = 0; w < waves.size() && w < kWavesTold; ++w) {
    if (w > 0) out += ", then ";
    for (std::size_t i = 0; i < waves[w].moves.size(); ++i) {
      out += (i > 0 ? " with " : "") + plan.moves[waves[w].moves[i].index].vm.value;
    }
  }
  if (waves.size() > kWavesTold) {
    out += ", and " + std::to_string(waves.size() - kWavesTold) + " times more";
  }
  return out;
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
    const auto* said = forecast->choice ? forecast_of(*forecast, *forecast->choice) : nullptr;
    if (said == nullptr) {
      out.stay.emplace_back(forecast->vm, forecast->reason);
      continue;
    }
    auto job = running_job(reader, forecast->vm);
    if (!job) return job.error();
    out.moves.push_back({forecast->vm, forecast->source, forecast->destination, *job, *said});
    out.bytes += said->sent_bytes.value;
  }
  out.plan = policy::plan_moves(out.moves, caps);
  return out;
}

std::string in_words(const MovesPlan& plan) {
  if (plan.moves.empty() && plan.stay.empty()) return "there is no VM to move";
  std::string out = std::to_string(plan.moves.size()) + (plan.moves.size() == 1 ? " VM" : " VMs") +
                    " would move in " + seconds_text(plan.plan.duration_s) + " with " +
                    std::to_string(static_cast<long long>(plan.bytes / 1e6)) + " MB and " +
                    seconds_text(plan.plan.added_job_time_s) + " of added job time";
  if (!plan.moves.empty()) out += ": " + waves_text(plan);
  std::string stay;
  for (const auto& [vm, why] : plan.stay) stay += (stay.empty() ? "" : ", ") + vm.value;
  if (!stay.empty()) out += "; not to be moved: " + stay;
  return out;
}

}  // namespace mare::engine
