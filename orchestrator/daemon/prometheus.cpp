#include "orchestrator/daemon/prometheus.h"

#include "rest/client/transfer.h"

namespace mare::daemon {
namespace {
// One sample takes some hundred bytes; a query that gives so many is answered with an error anyway.
constexpr std::size_t kMostBody = 1024 * 1024;
}  // namespace

Result<engine::HttpAnswer> ask_prometheus(const PrometheusQuery& query, const Clock& clock) {
  std::string base = query.url;
  while (!base.empty() && base.back() == '/') base.pop_back();
  rest::Exchange exchange;
  exchange.url = base + "/api/v1/query?query=" + rest::percent_encode(query.query);
  exchange.headers = {"Accept: application/json"};
  exchange.timeout = std::chrono::ceil<Milliseconds>(query.timeout);
  exchange.connect_timeout = exchange.timeout;
  exchange.most_body = kMostBody;
  exchange.server = "Prometheus";
  auto answer = rest::transfer(exchange, clock);
  if (!answer) return answer.error();
  return engine::HttpAnswer{answer->status, std::move(answer->body)};
}

}  // namespace mare::daemon
