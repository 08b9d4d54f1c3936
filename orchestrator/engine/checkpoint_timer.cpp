#include "orchestrator/engine/checkpoint_timer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "orchestrator/policy/checkpoint_interval.h"

namespace mare::engine {
namespace {

/// Mean cost and duration of those that are there. What a checkpoint costs a job is the time that
/// it stands still. The times are of the wall clock, which may have been set meanwhile: none took
/// longer than it may.
void add_past(const std::vector<Checkpoint>& past, Seconds longest,
              policy::CheckpointClock& clock) {
  int count = 0;
  for (const auto& one : past) {
    if (one.state != CheckpointState::Complete) continue;
    ++count;
    clock.cost += one.pause;
    clock.duration += std::clamp<Seconds>(one.completed - one.began, Seconds{0}, longest);
  }
  if (count == 0) return;
  clock.cost /= count;
  clock.duration /= count;
}

Result<Seconds> mtbf_of_a_host(const store::Reader& reader, const Settings& settings,
                               WallTime now) {
  auto hosts = reader.hosts();
  if (!hosts) return hosts.error();
  int failures = 0;
  Seconds observed{0};
  for (const auto& host : *hosts) {
    failures += host.failures;
    observed += std::max(WallTime{0}, now - host.added);
  }
  return policy::host_mtbf(failures, observed, settings.host_mtbf);
}

}  // namespace

Result<bool> checkpoint_is_due(const store::Reader& reader, const Settings& settings,
                               const Job& job, WallTime now) {
  if (job.checkpoints.rule == CheckpointRule::Never) return false;
  policy::CheckpointClock clock;
  clock.plan = job.checkpoints;
  std::optional<WallTime> since;
  const auto begins_at = [&](WallTime at) {
    if (at <= now) since = std::max(since.value_or(at), at);
  };
  begins_at(job.started);
  // Those that failed count too, and a restart begins a new period as well.
  store::OperationFilter filter;
  filter.target = job.id.value;
  filter.limit = 1;
  for (const auto kind : {OperationKind::CheckpointTake, OperationKind::CheckpointRestore}) {
    filter.kind = kind;
    auto last = reader.operations(filter);
    if (!last) return last.error();
    if (last->empty()) continue;
    const Operation& operation = last->front();
    if (!operation.finished()) return false;
    begins_at(kind == OperationKind::CheckpointTake ? operation.created : operation.ended);
  }
  // All of them were before somebody set the clock back.
  if (!since) return true;
  clock.since = *since;
  auto past = reader.checkpoints_of(job.id);
  if (!past) return past.error();
  add_past(*past, settings.checkpoint_timeout, clock);
  auto mtbf = mtbf_of_a_host(reader, settings, now);
  if (!mtbf) return mtbf.error();
  clock.mtbf = *mtbf;
  std::set<HostId> on;
  for (const auto& id : job.vms) {
    auto vm = reader.vm(id);
    if (vm && vm->host) on.insert(*vm->host);
  }
  clock.hosts = static_cast<int>(on.size());
  const auto due = policy::next_checkpoint(clock);
  return due && *due <= now;
}

}  // namespace mare::engine
