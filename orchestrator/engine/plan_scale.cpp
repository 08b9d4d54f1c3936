// pool.scale: which VMs come or go is decided here, in the transaction that accepts it, so that no
// job can begin on a VM that goes and no two operations count on the same address.
#include <algorithm>
#include <map>

#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/pool_vms.h"
#include "orchestrator/engine/quotas.h"
#include "orchestrator/engine/scale_plan.h"

namespace mare::engine {
namespace {

std::string vms_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " VM" : " VMs");
}

std::string can_not(const Pool& pool, bool grow, int size) {
  return "pool '" + pool.id.value + "' can't " + (grow ? "grow" : "shrink") + " to " +
         vms_text(static_cast<std::size_t>(size));
}

/// The lowest numbers that no VM of the pool has.
std::vector<int> free_indices(const std::vector<Vm>& vms, std::size_t count) {
  std::set<int> taken;
  for (const auto& vm : vms) taken.insert(vm.index);
  std::vector<int> out;
  for (int i = 0; out.size() < count; ++i) {
    if (!taken.contains(i)) out.push_back(i);
  }
  return out;
}

Status grow(store::Transaction& tx, Context& context, const Pool& pool, const std::vector<Vm>& vms,
            ScalePlan& plan) {
  auto image = context.ports.images.find(pool.image, pool.image_version);
  if (!image) return image.error().during(can_not(pool, true, plan.size));
  const int more = plan.size - plan.before;
  auto rooms = rooms_now(tx, pool.hosts, {});
  if (!rooms) return rooms.error();
  auto grant = grant_of(tx, pool.project);
  if (!grant) return grant.error();
  const auto places = place_granted(*grant, *rooms, pool.memory, more);
  auto addresses = free_addresses(tx, context.settings, more);
  if (!addresses) return addresses.error();
  std::optional<Error> limit = places.refusal;
  if (addresses->size() < places.hosts.size()) {
    limit = too_few_addresses(context.settings, addresses->size(), more);
  }
  const std::size_t count = std::min(places.hosts.size(), addresses->size());
  if (limit) {
    const std::string fit =
        std::to_string(count) + " of " + std::to_string(more) + " more VMs have a place";
    if (!plan.best_effort || count == 0) {
      return limit->during(fit).during(can_not(pool, true, plan.size));
    }
    plan.limit = limit->during(fit).text();
  }
  const auto indices = free_indices(vms, count);
  for (const int index : indices) {
    plan.vms.emplace_back(pool.id.value + "-" + std::to_string(index));
  }
  return add_vms(tx, context.ports.clock, pool, indices, *addresses);
}

/// What of the pool its jobs need.
struct Needs {
  std::map<VmId, JobId> ranks;
  int waiting = 0;  // VMs of the largest job that has none yet
  JobId waiting_job;
};

Result<Needs> needs_of(const store::Reader& reader, const Pool& pool) {
  auto jobs = reader.unfinished_jobs_of(pool.id);
  if (!jobs) return jobs.error();
  Needs out;
  for (const auto& job : *jobs) {
    for (const auto& vm : job.vms) out.ranks[vm] = job.id;
    if (!job.vms.empty() || job.ranks <= out.waiting) continue;
    out.waiting = job.ranks;
    out.waiting_job = job.id;
  }
  return out;
}

Error too_busy(const Pool& pool, const ScalePlan& plan, const Needs& needs, int least) {
  std::string why;
  JobId job;
  if (needs.waiting >= least && needs.waiting > plan.size) {
    job = needs.waiting_job;
    why = job.value + " waits for " + vms_text(static_cast<std::size_t>(needs.waiting));
  } else {
    const auto& [vm, its_job] = *needs.ranks.rbegin();
    job = its_job;
    why = vms_text(needs.ranks.size()) + " run ranks, '" + vm.value + "' one of " + job.value;
  }
  std::string remedy =
      "wait for " + job.value + " or cancel it ('mare job cancel " + job.value + "')";
  if (least < plan.before) remedy += ", or shrink to " + std::to_string(least);
  return make_error(Code::FailedPrecondition, can_not(pool, false, plan.size) + ": " + why, remedy);
}

Status shrink(store::Transaction& tx, Context& context, Pool pool, std::vector<Vm> vms,
              ScalePlan& plan) {
  auto needs = needs_of(tx, pool);
  if (!needs) return needs.error();
  std::erase_if(vms, [&](const Vm& vm) { return needs->ranks.contains(vm.id); });
  const int with_ranks = plan.before - static_cast<int>(vms.size());
  const int least = std::max({plan.size, with_ranks, std::min(needs->waiting, plan.before)});
  if (least > plan.size) {
    const Error busy = too_busy(pool, plan, *needs, least);
    if (!plan.best_effort || least == plan.before) return busy;
    plan.limit = busy.text();
  }
  std::sort(vms.begin(), vms.end(), [](const Vm& a, const Vm& b) { return a.index > b.index; });
  for (int i = 0; i < plan.before - least; ++i) {
    plan.vms.push_back(vms.at(static_cast<std::size_t>(i)).id);
  }
  // From now on a job is measured by what stays.
  pool.size = least;
  return put_pool(tx, context.ports.clock, pool, "pool.changed");
}

}  // namespace

Result<Operation> plan(store::Transaction& tx, Context& context, const PoolScaleRequest& request) {
  auto pool = tx.pool(request.id);
  if (!pool) return pool.error();
  if (request.size < 1 || request.size > kMostVms) {
    return field_error("size", "a pool can't have " + std::to_string(request.size) + " VMs",
                       "give 1 to " + std::to_string(kMostVms));
  }
  auto vms = tx.vms_of(request.id);
  if (!vms) return vms.error();
  auto holder = tx.unfinished("pool", request.id.value);
  if (!holder) return holder.error();
  ScalePlan scale;
  scale.size = request.size;
  scale.before = static_cast<int>(vms->size());
  scale.best_effort = request.best_effort;
  scale.cause = request.cause;
  // While somebody else holds the pool its VMs are not what they will be; the insertion says so.
  if (!*holder && scale.size != scale.before) {
    auto chosen = scale.grows() ? grow(tx, context, *pool, *vms, scale)
                                : shrink(tx, context, *pool, *vms, scale);
    if (!chosen) return chosen.error();
  }
  Operation draft;
  draft.kind = OperationKind::PoolScale;
  draft.target = request.id.value;
  draft.request = text_of(scale);
  return insert_operation(tx, context.ports.clock, draft);
}

Result<std::optional<Operation>> find_same(const store::Reader& reader,
                                           const PoolScaleRequest& request) {
  auto holder = reader.unfinished("pool", request.id.value);
  if (!holder) return holder.error();
  if (!*holder || (*holder)->kind != OperationKind::PoolScale) return std::optional<Operation>{};
  const ScalePlan scale = scale_plan_from((*holder)->request);
  const bool same = scale.size == request.size && scale.best_effort == request.best_effort &&
                    !(*holder)->cancel_requested;
  return same ? *holder : std::optional<Operation>{};
}

}  // namespace mare::engine
