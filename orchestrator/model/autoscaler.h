// What makes a pool's size follow a figure: the rule, where the figure comes from, what is
// remembered. Values only; the arithmetic is in orchestrator/policy/autoscale.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"

namespace mare {

/// Of one direction. Zero: not used.
struct ScalePace {
  Seconds stabilisation{0};  // the mildest wish of so long counts
  Seconds cooldown{0};       // since the last change in this direction
  int step = 0;              // VMs at once
};

struct AutoscaleRule {
  double target = 1;       // of the metric, for each VM or for all, as the metric is; > 0
  double tolerance = 0.1;  // a metric so near to the target changes nothing
  int min = 1;
  int max = 1;
  ScalePace up;
  ScalePace down{Seconds{300}, Seconds{0}, 0};
};

struct AutoscaleWish {
  Seconds at{0};
  int desired = 0;
};
struct AutoscaleMemory {
  std::vector<AutoscaleWish> wishes;  // as far back as the longer window
  std::optional<Seconds> last_up;
  std::optional<Seconds> last_down;
};

enum class MetricSource : std::uint8_t {
  Posted,      // a client says it
  Queue,       // ranks of the pool's unfinished jobs
  Prometheus,  // a query of a Prometheus server
};
std::string_view to_string(MetricSource value);
std::optional<MetricSource> metric_source_from(std::string_view text);

/// An instant query of a Prometheus server.
struct PrometheusQuery {
  std::string url;    // of the server, without /api/v1: http://prometheus:9090
  std::string query;  // PromQL; its answer is one sample
  Seconds timeout{2};
  bool operator==(const PrometheusQuery&) const = default;
};

/// What a user asks of it.
struct AutoscaleSetting {
  MetricSource source = MetricSource::Posted;
  /// The figure is of the whole pool, not of each VM: `target` of it makes one VM. A queue always
  /// is.
  bool total = false;
  Seconds stale_after{60};          // a posted figure older than that is none
  PrometheusQuery prometheus = {};  // for that source only
  AutoscaleRule rule = {};
};

struct Autoscaler {
  PoolId pool;
  AutoscaleSetting setting = {};
  std::optional<double> posted = {};
  WallTime posted_at{0};
  // Times in it are seconds since 1970: it outlives the process.
  AutoscaleMemory memory = {};
  // The last look.
  WallTime looked{0};
  std::optional<double> metric = {};  // as it was used
  int desired = 0;
  std::string reason = {};
  std::optional<OperationId> operation = {};  // the last pool.scale that it asked for
};

}  // namespace mare
