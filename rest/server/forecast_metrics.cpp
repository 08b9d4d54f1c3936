// How good forecasts were, for Prometheus.
#include <array>

#include "orchestrator/engine/past_moves.h"
#include "orchestrator/policy/score.h"
#include "rest/server/api.h"

namespace mare::rest {
namespace {

struct Named {
  const char* label;
  const policy::QuantityScore& score;
};

void figures(std::string& out, const policy::Score& score) {
  const std::array quantities{
      Named{"total_time", score.total_time}, Named{"sent_bytes", score.sent_bytes},
      Named{"downtime", score.downtime}, Named{"added_job_time", score.added_job_time}};
  const auto each = [&](const std::string& name, const std::string& help, auto value) {
    metric_head(out, name, "gauge", help);
    for (const auto& one : quantities) {
      if (one.score.moves == 0) continue;  // no figure is better than a wrong one
      for (const auto& [quantile, figure] : value(one.score)) {
        const std::string label = std::string("quantity=\"") + one.label + "\"";
        metric_sample(out, name,
                      *quantile == '\0' ? label : label + ",quantile=\"" + quantile + "\"", figure);
      }
    }
  };
  using Samples = std::vector<std::pair<const char*, double>>;
  each("mare_forecast_error_ratio", "|forecast - actual| / actual, over all moves.",
       [](const policy::QuantityScore& s) {
         return Samples{{"0.5", s.median_error}, {"0.95", s.p95_error}};
       });
  each("mare_forecast_off", "|forecast - actual| in seconds or bytes, over all moves.",
       [](const policy::QuantityScore& s) {
         return Samples{{"0.5", s.median_off}, {"0.95", s.p95_off}};
       });
  each("mare_forecast_coverage_ratio", "Share of moves whose interval held the outcome.",
       [](const policy::QuantityScore& s) {
         return Samples{{"", s.coverage}};
       });
}

}  // namespace

Result<std::string> forecast_metrics(const store::Store& store) {
  using Found = std::pair<std::uint64_t, std::vector<Forecast>>;
  const auto found = ask<Found>(store, [](const store::Reader& r) -> Result<Found> {
    const auto made = r.forecast_count();
    if (!made) return made.error();
    auto past = r.past_moves(kAllRows);
    if (!past) return past.error();
    return Found{*made, std::move(*past)};
  });
  if (!found) return found.error();
  std::string out;
  metric_head(out, "mare_forecasts", "gauge", "Forecasts that the store keeps.");
  metric_sample(out, "mare_forecasts", "", static_cast<double>(found->first));
  metric_head(out, "mare_forecasts_scored", "gauge", "Of them, those that a move has answered.");
  metric_sample(out, "mare_forecasts_scored", "", static_cast<double>(found->second.size()));
  figures(out, policy::score(engine::past_moves(found->second)));
  return out;
}

}  // namespace mare::rest
