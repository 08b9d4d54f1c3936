#include "orchestrator/model/autoscaler.h"

namespace mare {

std::string_view to_string(MetricSource value) {
  return value == MetricSource::Queue ? "queue" : "posted";
}

std::optional<MetricSource> metric_source_from(std::string_view text) {
  for (const auto value : {MetricSource::Posted, MetricSource::Queue}) {
    if (to_string(value) == text) return value;
  }
  return std::nullopt;
}

}  // namespace mare
