// Forecasts, what came of them, and the memory that they are made of.
#include <algorithm>
#include <array>
#include <atomic>

#include "orchestrator/policy/dirty_curve.h"
#include "orchestrator/policy/memory_history.h"
#include "rest/server/accuracy.h"
#include "rest/server/api.h"
#include "rest/server/explanation.h"

namespace mare::rest {
namespace {

constexpr int kMostProfiles = 16;  // asked of hosts at the same time

Response list_forecasts(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  std::optional<VmId> vm;
  if (auto named = query.text("vm")) vm = VmId{*named};
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  return page_of<Forecast>(
      call, page, 64,
      [&](std::size_t n) {
        return ask<std::vector<Forecast>>(
            api.store, [&](const store::Reader& r) { return r.forecasts(vm, n); });
      },
      [](const Forecast&) { return true; }, [](const Forecast& row) { return row.id.value; },
      [](const Forecast& row) { return wire::to_json(row); });
}

Response accuracy(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto split =
      query.name_of<AccuracySplit>("by", accuracy_split_from, "none, strategy, pair, program");
  WallTime since{0};
  if (const auto written = query.text("since")) {
    const auto time = wire::parse_rfc3339(*written);
    if (!time) query.fault("since", "'" + *written + "' is no time; write 2026-11-21T04:00:00Z");
    since = time.value_or(since);
  }
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  using Found = std::pair<std::uint64_t, std::vector<Forecast>>;
  const auto found = ask<Found>(api.store, [&](const store::Reader& r) -> Result<Found> {
    const auto made = r.forecast_count(since);
    if (!made) return made.error();
    auto scored = r.scored_forecasts(since);
    if (!scored) return scored.error();
    return Found{*made, std::move(*scored)};
  });
  if (!found) return refuse(call, found.error());
  return json_response(
      200, accuracy_json(found->first, found->second, split.value_or(AccuracySplit::None), since));
}

/// Nothing for a row that is not there.
template <typename T>
Result<std::optional<T>> optional_row(Result<T> row) {
  if (row) return std::optional<T>{std::move(*row)};
  if (row.error().code == Code::NotFound) return std::optional<T>{};
  return row.error();
}

Response explain(const Api& api, const Call& call) {
  if (auto refused = no_parameters(call)) return *refused;
  const auto found = ask<wire::Json>(api.store, [&](const store::Reader& r) -> Result<wire::Json> {
    const auto migration = r.migration(operation_id(call));
    if (!migration) return migration.error();
    const auto operation = optional_row<Operation>(r.operation(migration->id));
    if (!operation) return operation.error();
    const auto forecast = optional_row<Forecast>(r.forecast(migration->id));
    if (!forecast) return forecast.error();
    return explanation(*migration, *operation, *forecast);
  });
  return found ? json_response(200, *found) : refuse(call, found.error());
}

Response report(Api& api, const Call& call) {
  wire::ReportBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return entity(
      call, api.engine.report(operation_id(call), engine::MigrationReport{body.added_job_time_s}));
}

/// Windows of guest progress at which D is told.
constexpr std::array kWindows{0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0};

wire::Json memory_json(const VmId& vm, const MemoryProfile& profile) {
  const auto curve = policy::DirtyCurve::from(profile);
  double longest = 0;
  for (const auto& cycle : profile.cycles) {
    if (cycle.points.empty()) continue;
    longest = std::max(longest, Seconds{cycle.points.back().progress}.count());
  }
  wire::Json windows = wire::Json::array();
  for (const double window : kWindows) {
    if (window > longest) break;  // beyond it D is a guess
    windows.push_back(wire::Json{{"progress_s", window}, {"unique_bytes", curve.bytes(window)}});
  }
  wire::Json history = wire::Json::array();
  for (const auto& moment : policy::memory_history(profile)) {
    history.push_back(wire::Json{{"began", wire::time_json(moment.began)},
                                 {"seen_for_s", moment.seen_for.count()},
                                 {"wws_bytes", moment.wws_bytes},
                                 {"flattens", moment.flattens},
                                 {"dirty_bytes_per_s", moment.dirty_bytes_per_s}});
  }
  return wire::Json{{"vm", vm.value},
                    {"wws_bytes", curve.wws_bytes()},
                    {"flattens", curve.flattens()},
                    {"dirty_bytes_per_s", curve.dirty_rate(1)},
                    {"progress_share", curve.share()},
                    {"curve", std::move(windows)},
                    {"history", std::move(history)},
                    {"profile", wire::to_json(profile)}};
}

Answer memory(Api& api, const Call& call, const std::shared_ptr<Exchange>& exchange,
              const std::shared_ptr<std::atomic<int>>& asked) {
  if (auto refused = no_parameters(call)) return *refused;
  if (asked->fetch_add(1) >= kMostProfiles) {
    asked->fetch_sub(1);
    return refuse(call, make_error(Code::Unavailable, "too many hosts are being asked for memory",
                                   "ask again in a second"));
  }
  const VmId vm{call.captures.at("id")};
  api.engine.memory_profile(
      vm, [exchange, asked, vm, path = call.request.path](const Result<MemoryProfile>& profile) {
        asked->fetch_sub(1);
        if (profile) return exchange->reply(json_response(200, memory_json(vm, *profile)));
        const Error& error = profile.error();
        exchange->reply(problem(wire::status_of(error.code), path, error));
      });
  return Later{};
}

}  // namespace

void add_forecast_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/forecasts", "listForecasts",
      [&api](const Call& call) { return list_forecasts(api, call); });
  // Before {id}: no operation has that name.
  add(router, "GET", "/api/v1/forecasts/accuracy", "getAccuracy",
      [&api](const Call& call) { return accuracy(api, call); });
  add(router, "GET", "/api/v1/forecasts/{id}", "getForecast", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return entity(call, ask<Forecast>(api.store, [&](const auto& r) {
                    return r.forecast(operation_id(call));
                  }));
  });
  add(router, "GET", "/api/v1/migrations/{id}/explanation", "explainMigration",
      [&api](const Call& call) { return explain(api, call); });
  add(router, "POST", "/api/v1/migrations/{id}:report", "reportMigration",
      [&api](const Call& call) { return report(api, call); });
  router.add({"GET", "/api/v1/vms/{id}/memory", "getVmMemory", false,
              [&api, asked = std::make_shared<std::atomic<int>>(0)](
                  const Call& call, const std::shared_ptr<Exchange>& exchange) {
                return memory(api, call, exchange, asked);
              }});
}

}  // namespace mare::rest
