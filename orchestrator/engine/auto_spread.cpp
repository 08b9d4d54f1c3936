#include "orchestrator/engine/auto_spread.h"

#include "orchestrator/engine/cluster_rows.h"
#include "orchestrator/engine/layout_plan.h"
#include "orchestrator/engine/plan.h"

namespace mare::engine {
namespace {

constexpr auto kHostsPeriod = std::chrono::seconds{2};
// Any will do to see whether a job would gain at all.
constexpr double kSomeTime_s = 3600;

Result<std::vector<JobId>> jobs_to_spread(const store::Reader& reader) {
  auto cluster = read_cluster(reader);
  if (!cluster) return cluster.error();
  auto pools = reader.pools();
  if (!pools) return pools.error();
  std::vector<JobId> out;
  for (const auto& pool : *pools) {
    auto jobs = reader.unfinished_jobs_of(pool.id);
    if (!jobs) return jobs.error();
    for (const auto& job : *jobs) {
      if (job.state != JobState::Running) continue;
      const auto plan =
          policy::lay_out(*cluster, {}, {job.id, policy::Layout::Spread, 0, kSomeTime_s, {}});
      if (plan && plan->worth) out.push_back(job.id);
    }
  }
  return out;
}

}  // namespace

void AutoSpread::beat() {
  if (context_.settings.auto_spread.count() <= 0) return;
  look_at_hosts();
  if (due_ && context_.ports.clock.now() >= *due_) {
    due_.reset();
    plan_jobs();
  }
  follow_plans();
  context_.after(kHostsPeriod, [this] { beat(); });
}

void AutoSpread::look_at_hosts() {
  auto hosts = query<std::vector<Host>>(context_.ports.store,
                                        [](const store::Reader& r) { return r.hosts(); });
  if (!hosts) return;
  std::set<HostId> now;
  std::string came;
  for (const auto& host : *hosts) {
    if (host.admin != HostAdmin::Active || host.health != HostHealth::Up) continue;
    now.insert(host.id);
    if (!usable_.contains(host.id)) came += (came.empty() ? "'" : ", '") + host.id.value + "'";
  }
  usable_ = std::move(now);
  if (came.empty() && began_) return;
  cause_ = began_ ? "came into use: " + came : "mared has started";
  began_ = true;
  // Hosts that come in quick succession are one reason.
  due_ = context_.ports.clock.now() +
         std::chrono::duration_cast<MonotonicTime>(context_.settings.auto_spread);
}

template <typename Request>
std::optional<OperationId> AutoSpread::submit(const JobId& job, const Request& request) {
  Result<Operation> accepted = make_error(Code::Internal, "not planned");
  auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
    accepted = plan(tx, context_, request);
    if (!accepted) return accepted.error();
    return ok_status();
  });
  if (!done) {
    // It has ended, or a user is at it: then it is the user's.
    context_.ports.log.info("auto-spread", "job '" + job.value + "': " + done.error().text());
    return std::nullopt;
  }
  context_.ports.log.info("auto-spread", "job '" + job.value + "' " + accepted->id.value + " (" +
                                             std::string(to_string(accepted->kind)) +
                                             "): " + request.wish.cause);
  context_.changed();
  context_.adopt(*accepted, false);
  return accepted->id;
}

void AutoSpread::plan_jobs() {
  auto jobs = query<std::vector<JobId>>(context_.ports.store, jobs_to_spread);
  if (!jobs) {
    due_ = context_.ports.clock.now() + kHostsPeriod;
    return;
  }
  for (const auto& job : *jobs) {
    LayoutWish wish;
    wish.cause = cause_;
    if (auto id = submit(job, LayoutForecastRequest{job, wish})) plans_.emplace(*id, wish);
  }
}

void AutoSpread::follow_plans() {
  for (auto one = plans_.begin(); one != plans_.end();) {
    auto planned = query<Operation>(
        context_.ports.store, [&](const store::Reader& r) { return r.operation(one->first); });
    if (planned && !planned->finished()) {
      ++one;
      continue;
    }
    if (planned && planned->outcome == Outcome::Succeeded &&
        layout_plan_from(planned->request).worth) {
      const JobId job{planned->target};
      static_cast<void>(submit(job, LayoutChangeRequest{job, one->second}));
    }
    one = plans_.erase(one);
  }
}

}  // namespace mare::engine
