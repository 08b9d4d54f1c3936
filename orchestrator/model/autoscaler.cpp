#include "orchestrator/model/autoscaler.h"

namespace mare {

std::string_view to_string(MetricSource value) {
  switch (value) {
    case MetricSource::Queue:
      return "queue";
    case MetricSource::Prometheus:
      return "prometheus";
    case MetricSource::Posted:
      break;
  }
  return "posted";
}

std::optional<MetricSource> metric_source_from(std::string_view text) {
  for (const auto value : {MetricSource::Posted, MetricSource::Queue, MetricSource::Prometheus}) {
    if (to_string(value) == text) return value;
  }
  return std::nullopt;
}

}  // namespace mare
