// Figures for Prometheus (text format 0.0.4). State comes from the store at the time of asking, so
// it is right after a restart as well; only the HTTP counters live here, and hosts' silences in the
// engine.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "orchestrator/engine/silences.h"
#include "orchestrator/store/store.h"
#include "rest/server/followers.h"

namespace mare::rest {

class HttpMetrics {
 public:
  /// `route` is the operationId, or "" for a request that fits none.
  void count(const std::string& route, int status);
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
};

/// Everything that the store knows.
Result<std::string> store_metrics(const store::Store& store);
/// How many forecasts were made, how good they were, and what they were told of VMs' memory.
Result<std::string> forecast_metrics(const store::Store& store);

// Pieces of the text format.
void metric_head(std::string& out, const std::string& name, const std::string& type,
                 const std::string& help);
void metric_sample(std::string& out, const std::string& name, const std::string& labels,
                   double value);
std::string stream_metrics(const Followers::Counts& counts);
/// How long hosts did not answer.
std::string silence_metrics(const engine::Silences::Counts& counts);

}  // namespace mare::rest
