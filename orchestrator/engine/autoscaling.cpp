#include "orchestrator/engine/autoscaling.h"

#include <algorithm>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/pool_vms.h"
#include "orchestrator/engine/prometheus_figure.h"
#include "orchestrator/policy/autoscale.h"

namespace mare::engine {
namespace {

constexpr auto kPeriod = std::chrono::seconds{5};
constexpr auto kGather = std::chrono::milliseconds{100};  // figures this close are one
constexpr auto kAfterFailure = std::chrono::seconds{30};
// One lane for all: servers that hang must not take the threads that drivers need.
constexpr const char* kPrometheusLane = "prometheus";

Seconds since_1970(WallTime time) {
  return std::chrono::duration_cast<Seconds>(time);
}

/// Ranks of the pool's jobs, those that run and those that wait.
Result<double> queue_of(const store::Reader& reader, const PoolId& pool) {
  auto jobs = reader.unfinished_jobs_of(pool);
  if (!jobs) return jobs.error();
  double ranks = 0;
  for (const auto& job : *jobs) ranks += job.ranks;
  return ranks;
}

/// The figure as the rule takes it: of each VM. `fetched`: what Prometheus said.
Result<std::optional<double>> metric_of(const store::Reader& reader, const Autoscaler& row,
                                        int current, WallTime now, std::optional<double> fetched) {
  std::optional<double> value;
  if (row.setting.source == MetricSource::Queue) {
    auto ranks = queue_of(reader, row.pool);
    if (!ranks) return ranks.error();
    value = *ranks;
  } else if (row.setting.source == MetricSource::Prometheus) {
    value = fetched;
  } else if (row.posted && now - row.posted_at <= row.setting.stale_after) {
    value = row.posted;
  }
  const bool total = row.setting.total || row.setting.source == MetricSource::Queue;
  if (value && total) *value /= std::max(current, 1);
  return value;
}

/// A change that did not come to what was asked for is not repeated without a pause. "" if nothing
/// holds it.
Result<std::string> held_by_failure(const store::Reader& reader, const Autoscaler& row,
                                    WallTime now) {
  if (!row.operation) return std::string();
  auto last = reader.operation(*row.operation);
  if (!last && last.error().code == Code::NotFound) return std::string();  // pruned long ago
  if (!last) return last.error();
  const bool failed = last->finished() && last->outcome != Outcome::Succeeded;
  const WallTime until = last->ended + kAfterFailure;
  if (!failed || now >= until) return std::string();
  const auto left = std::chrono::ceil<std::chrono::seconds>(until - now).count();
  return last->id.value + " did not reach its size; the next look is in " + std::to_string(left) +
         " s";
}

Status check_pace(const std::string& field, const ScalePace& pace) {
  const auto time = [](Seconds value) {
    return value.count() >= 0 && value.count() <= kMostTime_s;
  };
  if (time(pace.stabilisation) && time(pace.cooldown) && pace.step >= 0 && pace.step <= kMostVms) {
    return ok_status();
  }
  return field_error(
      field, "this pace can't be kept",
      "give times of 0 to 86400 s, and a step of 0 (any) to " + std::to_string(kMostVms));
}

}  // namespace

/// One look, in a transaction of its own. `accepted` is the operation that it led to.
/// `refusal`: why the last attempt in this look was not accepted; then nothing is asked for.
Status Autoscaling::decide(store::Transaction& tx, Context& context, const PoolId& pool,
                           const std::optional<Fetched>& fetched, std::optional<Error>& refusal,
                           std::optional<Operation>& accepted) {
  auto row = tx.autoscaler(pool);
  if (!row) return row.error();
  const bool by_query = row->setting.source == MetricSource::Prometheus;
  // The rule was changed while its question was under way.
  if (by_query && (!fetched || fetched->asked != row->setting.prometheus)) return ok_status();
  auto holder = tx.unfinished("pool", pool.value);
  if (!holder) return holder.error();
  if (*holder) return ok_status();  // it is being changed already
  auto vms = tx.vms_of(pool);
  if (!vms) return vms.error();
  const int current = static_cast<int>(vms->size());
  const WallTime now = context.ports.clock.wall_now();
  auto held = held_by_failure(tx, *row, now);
  if (!held) return held.error();
  if (!held->empty()) {
    row->reason = *held;
    return tx.put(*row);
  }
  std::optional<double> figure;
  if (by_query && fetched->figure) figure = *fetched->figure;
  auto metric = metric_of(tx, *row, current, now, figure);
  if (!metric) return metric.error();
  auto decision =
      policy::autoscale(row->setting.rule, row->memory, since_1970(now), current, *metric);
  row->looked = now;
  row->metric = *metric;
  row->desired = decision.desired;
  row->reason = decision.reason;
  if (by_query && !fetched->figure) row->reason += ": " + fetched->figure.error().text();
  if (refusal) {
    // Nothing changed, so no cooldown begins.
    row->memory.wishes = std::move(decision.memory.wishes);
    row->reason += "; refused: " + refusal->text();
    return tx.put(*row);
  }
  row->memory = std::move(decision.memory);
  if (decision.size != current) {
    auto operation = plan(tx, context, PoolScaleRequest{pool, decision.size, true, row->reason});
    if (!operation) {
      refusal = operation.error();
      return operation.error();
    }
    row->operation = operation->id;
    accepted = *operation;
  }
  return tx.put(*row);
}

void Autoscaling::beat() {
  auto rows = query<std::vector<Autoscaler>>(
      context_.ports.store, [](const store::Reader& r) { return r.autoscalers(); });
  if (rows) {
    for (const auto& row : *rows) {
      if (row.setting.source == MetricSource::Prometheus) {
        fetch(row);
      } else {
        look(row.pool);
      }
    }
  }
  context_.after(kPeriod, [this] { beat(); });
}

void Autoscaling::look_soon(const PoolId& pool) {
  if (!waiting_.insert(pool).second) return;
  context_.after(kGather, [this, pool] {
    waiting_.erase(pool);
    auto row = query<Autoscaler>(context_.ports.store,
                                 [&](const store::Reader& r) { return r.autoscaler(pool); });
    if (row && row->setting.source == MetricSource::Prometheus) return fetch(*row);
    look(pool);
  });
}

void Autoscaling::fetch(const Autoscaler& row) {
  // One that is asked already is looked at again within a period.
  if (!asked_.insert(row.pool).second) return;
  const auto work = [this, inbox = context_.inbox, ask = context_.ports.prometheus, pool = row.pool,
                     asked = row.setting.prometheus] {
    Result<double> figure = make_error(Code::FailedPrecondition, "this program asks no Prometheus");
    if (ask) {
      auto answer = ask(asked);
      figure = answer ? prometheus_figure(*answer) : Result<double>(answer.error());
    }
    inbox->post([this, pool, fetched = Fetched{asked, figure}] {
      asked_.erase(pool);
      tell_failure(pool, fetched);
      look(pool, fetched);
    });
  };
  context_.ports.executor.run(kPrometheusLane, work);
}

void Autoscaling::tell_failure(const PoolId& pool, const Fetched& fetched) {
  if (fetched.figure) {
    failed_.erase(pool);
  } else if (failed_.insert(pool).second) {
    context_.ports.log.warn(
        "autoscale", "pool '" + pool.value + "' has no figure: " + fetched.figure.error().text());
  }
}

void Autoscaling::look(const PoolId& pool, const std::optional<Fetched>& fetched) {
  std::optional<Error> refusal;
  std::optional<Operation> accepted;
  const auto once = [&] {
    return context_.ports.store.write([&](store::Transaction& tx) {
      return decide(tx, context_, pool, fetched, refusal, accepted);
    });
  };
  auto done = once();
  if (!done && refusal) done = once();  // the first attempt was undone as a whole
  if (!done) {
    // A rule that was taken away meanwhile is nobody's trouble.
    if (done.error().code == Code::NotFound) return;
    context_.ports.log.error("autoscale", "pool '" + pool.value + "': " + done.error().text());
    return;
  }
  context_.changed();
  if (!accepted) return;
  context_.ports.log.info(
      "autoscale", "pool '" + pool.value + "' " + accepted->id.value + ": " + accepted->request);
  context_.adopt(*accepted, false);
}

Result<int> size_for_jobs(const store::Reader& reader, const Pool& pool) {
  auto row = reader.autoscaler(pool.id);
  if (!row && row.error().code == Code::NotFound) return pool.size;
  if (!row) return row.error();
  if (row->setting.source != MetricSource::Queue) return pool.size;
  return std::max(pool.size, row->setting.rule.max);
}

Status check(const AutoscaleSetting& setting) {
  const AutoscaleRule& rule = setting.rule;
  if (!(rule.target > 0)) {
    return field_error("target", "a target of " + std::to_string(rule.target) + " can't be kept",
                       "give more than 0");
  }
  if (!(rule.tolerance >= 0 && rule.tolerance < 1)) {
    return field_error(
        "tolerance",
        "a tolerance of " + std::to_string(rule.tolerance) + " is no share of the target",
        "give 0 to less than 1");
  }
  if (rule.min < 1 || rule.max > kMostVms || rule.min > rule.max) {
    return field_error(
        "max",
        "a pool can't be kept between " + std::to_string(rule.min) + " and " +
            std::to_string(rule.max) + " VMs",
        "give min and max between 1 and " + std::to_string(kMostVms) + ", max not below min");
  }
  if (setting.stale_after.count() < 1 || setting.stale_after.count() > kMostTime_s) {
    return field_error("stale_after_s", "a figure can't be good for so long", "give 1 to 86400");
  }
  if (setting.source == MetricSource::Prometheus) {
    if (auto good = check(setting.prometheus); !good) return good;
  }
  if (auto good = check_pace("up", rule.up); !good) return good;
  return check_pace("down", rule.down);
}

}  // namespace mare::engine
