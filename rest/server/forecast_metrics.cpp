// How good forecasts were, and what they saw of VMs' memory, for Prometheus.
#include <algorithm>
#include <array>
#include <map>

#include "orchestrator/policy/dirty_curve.h"
#include "orchestrator/policy/overrun.h"
#include "rest/server/accuracy.h"
#include "rest/server/api.h"

namespace mare::rest {
namespace {

struct Found {
  std::uint64_t made = 0;
  std::vector<Forecast> scored;
  std::vector<Forecast> newest;  // of each VM that runs
  std::vector<Vm> vms;
};

Result<Found> find_all(const store::Store& store) {
  return ask<Found>(store, [](const store::Reader& r) -> Result<Found> {
    const auto made = r.forecast_count();
    if (!made) return made.error();
    auto scored = r.scored_forecasts();
    if (!scored) return scored.error();
    auto newest = r.newest_forecasts();
    if (!newest) return newest.error();
    auto vms = r.vms();
    if (!vms) return vms.error();
    return Found{*made, std::move(*scored), std::move(*newest), std::move(*vms)};
  });
}

std::string labels_of(const std::string& strategy, const char* quantity, const char* quantile) {
  std::string out = "strategy=\"" + strategy + "\",quantity=\"" + std::string(quantity) + "\"";
  if (*quantile != '\0') out += ",quantile=\"" + std::string(quantile) + "\"";
  return out;
}

/// `groups`: all moves first, then those of each strategy.
void figures(std::string& out, const std::vector<AccuracyGroup>& groups) {
  struct Named {
    const char* label;
    const policy::QuantityScore& score;
  };
  const auto each = [&](const std::string& name, const std::string& help, auto value) {
    metric_head(out, name, "gauge", help);
    for (const auto& group : groups) {
      const std::array quantities{Named{"total_time", group.score.total_time},
                                  Named{"sent_bytes", group.score.sent_bytes},
                                  Named{"downtime", group.score.downtime},
                                  Named{"added_job_time", group.score.added_job_time}};
      const std::string strategy = group.key.strategy.empty() ? "all" : group.key.strategy;
      for (const auto& one : quantities) {
        if (one.score.moves == 0) continue;  // no figure is better than a wrong one
        for (const auto& [quantile, figure] : value(one.score)) {
          metric_sample(out, name, labels_of(strategy, one.label, quantile), figure);
        }
      }
    }
  };
  using Samples = std::vector<std::pair<const char*, double>>;
  each("mare_forecast_error_ratio", "|forecast - actual| / actual.",
       [](const policy::QuantityScore& s) {
         return Samples{{"0.5", s.median_error}, {"0.95", s.p95_error}};
       });
  each("mare_forecast_off", "|forecast - actual| in seconds or bytes.",
       [](const policy::QuantityScore& s) {
         return Samples{{"0.5", s.median_off}, {"0.95", s.p95_off}};
       });
  each("mare_forecast_bias_ratio", "Median of (forecast - actual) / actual.",
       [](const policy::QuantityScore& s) {
         return Samples{{"", s.bias}};
       });
  each("mare_forecast_coverage_ratio", "Share of moves whose interval held the outcome.",
       [](const policy::QuantityScore& s) {
         return Samples{{"", s.coverage}};
       });
}

void verdicts(std::string& out, const std::vector<Forecast>& scored) {
  std::vector<ScoredVerdict> all;
  for (const auto& one : scored) {
    all.insert(all.end(), one.verdicts.begin(), one.verdicts.end());
  }
  const std::string name = "mare_forecast_verdicts";
  // Of the rows that are kept, and a verdict may change: it can become less.
  metric_head(out, name, "gauge",
              "Sendings that were to end by themselves, or not to, by how that was told.");
  for (int i = 0; i < kStrategies; ++i) {
    const auto strategy = static_cast<Strategy>(i);
    if (!policy::must_converge(strategy)) continue;
    const policy::VerdictCounts counts = policy::count_verdicts(all, strategy);
    const std::string of = "strategy=\"" + std::string(to_string(strategy)) + "\",verdict=\"";
    metric_sample(out, name, of + "right\"", counts.right);
    metric_sample(out, name, of + "wrong\"", counts.wrong);
    metric_sample(out, name, of + "open\"", counts.open);
  }
}

/// Of each host, as each VM was when a move of it was forecast last: the log itself is asked for
/// that, not for a scrape.
void memory(std::string& out, const Found& found) {
  struct Seen {
    int vms = 0;
    double wws_bytes = 0;
    std::optional<double> cost;
  };
  std::map<VmId, HostId> whereabouts;
  for (const auto& vm : found.vms) {
    if (vm.host) whereabouts[vm.id] = *vm.host;
  }
  std::map<HostId, Seen> hosts;
  for (const auto& forecast : found.newest) {
    const auto curve = policy::DirtyCurve::from(forecast.profile);
    const auto host = whereabouts.find(forecast.vm);
    if (host == whereabouts.end() || !curve.watched()) continue;
    Seen& seen = hosts[host->second];
    ++seen.vms;
    seen.wws_bytes += curve.wws_bytes();
    // Of one that has moved since it is the other host's log that cost.
    if (forecast.source != host->second) continue;
    seen.cost = std::max(seen.cost.value_or(0), forecast.profile.cost_fraction);
  }
  const auto each = [&](const std::string& name, const std::string& help, auto value) {
    metric_head(out, name, "gauge", help);
    for (const auto& [host, seen] : hosts) {
      const std::optional<double> figure = value(seen);
      if (figure) metric_sample(out, name, "host=\"" + host.value + "\"", *figure);
    }
  };
  using Figure = std::optional<double>;
  each("mare_host_vms_forecast", "VMs that run on a host and of which a move was forecast.",
       [](const Seen& seen) { return Figure{seen.vms}; });
  each("mare_host_wws_bytes", "WWS of these together, each as it was forecast last.",
       [](const Seen& seen) { return Figure{seen.wws_bytes}; });
  each("mare_host_dirty_log_cost_ratio",
       "Most that the host's dirty-page log cost one of them, of the guest's time.",
       [](const Seen& seen) { return seen.cost; });
}

}  // namespace

Result<std::string> forecast_metrics(const store::Store& store) {
  const auto found = find_all(store);
  if (!found) return found.error();
  const auto answered = std::count_if(found->scored.begin(), found->scored.end(),
                                      [](const Forecast& one) { return one.outcome.has_value(); });
  std::string out;
  metric_head(out, "mare_forecasts", "gauge", "Forecasts that the store keeps.");
  metric_sample(out, "mare_forecasts", "", static_cast<double>(found->made));
  metric_head(out, "mare_forecasts_scored", "gauge", "Of them, those that a move has answered.");
  metric_sample(out, "mare_forecasts_scored", "", static_cast<double>(answered));
  auto groups = accuracy_of(found->scored, AccuracySplit::None);
  for (auto& group : accuracy_of(found->scored, AccuracySplit::Strategy)) {
    groups.push_back(std::move(group));
  }
  figures(out, groups);
  verdicts(out, found->scored);
  memory(out, *found);
  return out;
}

}  // namespace mare::rest
