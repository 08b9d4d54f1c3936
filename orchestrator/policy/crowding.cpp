#include "orchestrator/policy/crowding.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "orchestrator/policy/correction.h"
#include "orchestrator/policy/statistics.h"

namespace mare::policy {
namespace {

// The square of a share of the link, that of one move.
constexpr double kPriorSquare = 0.01;
constexpr std::size_t kNewestMoves = 40;
constexpr double kLeastCrowding = 0.25;
constexpr double kMostCrowding = 4;
// A shorter round tells more of how it began.
constexpr double kShortestRound_s = 0.3;

// A job's share of a link, or what its waiting takes of the CPUs, is not the same all the time.
constexpr double kLeastFilled = 0.4;
constexpr double kMostFilled = 1.1;
// Busy guests let go of a CPU now and then.
constexpr double kMostUnfilled = 0.9;

/// CPUs that the guest itself was seen to take. As DirtyCurve::share(), for which a curve would
/// have to be made of each of hundreds of past moves.
double own_cpus(const MemoryProfile& profile) {
  double wall = 0;
  double progress = 0;
  for (const auto& cycle : profile.cycles) {
    if (cycle.points.empty()) continue;
    wall += std::chrono::duration<double>(cycle.points.back().wall).count();
    progress += std::chrono::duration<double>(cycle.points.back().progress).count();
  }
  return wall > 0 ? progress / wall : 0;
}

bool fills_the_link(Strategy strategy) {
  return strategy == Strategy::PreCopy || strategy == Strategy::Throttled ||
         strategy == Strategy::Hybrid || strategy == Strategy::StopAndCopy;
}

}  // namespace

double all_busy(double wanted, double host_cpus, double cpus) {
  return std::pow(std::min(1.0, wanted / host_cpus), cpus);
}

double unfilled_share(double busy_cpus, double host_cpus, double link_rate,
                      const HypervisorCosts& costs) {
  if (!(host_cpus > 0)) return 0;
  const double wanted = std::min(1.0, link_rate / costs.mover_rate);
  const double others = all_busy(std::max(0.0, busy_cpus), host_cpus, host_cpus);
  return std::min(kMostUnfilled, others * wanted * wanted);
}

double usual_unfilled_share(const MemoryProfile& profile, BytesPerSecond link, Strategy strategy,
                            const HypervisorCosts& costs) {
  const double own = strategy == Strategy::StopAndCopy ? own_cpus(profile) : 0;
  return unfilled_share(profile.busy_cpus - own, profile.host_cpus, link.value, costs);
}

std::optional<double> seen_unfilled_share(const MemoryProfile& profile, BytesPerSecond link,
                                          const MovePolicy& policy, const ForecastOutcome& outcome,
                                          const HypervisorCosts& costs) {
  if (!outcome.first_round || policy.bandwidth_limit || !(link.value > 0)) return std::nullopt;
  if (!fills_the_link(outcome.strategy)) return std::nullopt;
  const double zeros_s = static_cast<double>(profile.zero.count) / costs.zero_scan_rate;
  const double sending_s = outcome.first_round->duration_s - zeros_s;
  if (sending_s < kShortestRound_s) return std::nullopt;
  return std::clamp(1 - outcome.first_round->sent_bytes / sending_s / link.value, 0.0, 1.0);
}

double learn_crowding(const std::vector<PastMove>& past, const HostId& source,
                      const HostId& destination) {
  double factor = 1;
  for (const bool here : {false, true}) {
    double products = kPriorSquare * factor;
    double squares = kPriorSquare;
    std::size_t count = 0;
    for (auto move = past.rbegin(); move != past.rend() && count < kNewestMoves; ++move) {
      if (!move->unfilled) continue;
      ++count;
      if (here && !between(*move, source, destination)) continue;
      products += *move->unfilled * move->usual_unfilled;
      squares += move->usual_unfilled * move->usual_unfilled;
    }
    factor = std::clamp(products / squares, kLeastCrowding, kMostCrowding);
  }
  return factor;
}

double learn_filled_by_job(const std::vector<PastMove>& past, const JobId& job, BytesPerSecond link,
                           double crowding) {
  if (job.value.empty()) return 1;
  std::vector<double> shares;
  for (auto move = past.rbegin(); move != past.rend() && shares.size() < kNewestMoves; ++move) {
    if (!move->unfilled || move->job != job || !may_be_one_link(move->link_goodput, link)) continue;
    const double said = std::min(kMostUnfilled, crowding * move->usual_unfilled);
    shares.push_back(std::clamp((1 - *move->unfilled) / (1 - said), kLeastFilled, kMostFilled));
  }
  if (shares.empty()) return 1;
  const double n = static_cast<double>(shares.size());
  return 1 + n / (n + 1) * (median(shares) - 1);
}

HypervisorCosts with_crowding(double factor, HypervisorCosts costs) {
  costs.mover_rate /= std::sqrt(factor);
  return costs;
}

}  // namespace mare::policy
