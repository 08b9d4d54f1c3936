#include <numeric>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/pool_vms.h"
#include "orchestrator/engine/quotas.h"

namespace mare::engine {
namespace {

constexpr int kMostVcpus =
    256;  // what QEMU's q35 takes without special settings is more; nobody needs it

Status check_shape(const PoolCreateRequest& request, const ImageFacts& image) {
  if (request.size < 1 || request.size > kMostVms) {
    return field_error("size", "a pool of " + std::to_string(request.size) + " VMs can't be made",
                       "give 1 to " + std::to_string(kMostVms));
  }
  if (request.vcpus < 1 || request.vcpus > kMostVcpus) {
    return field_error("vcpus", std::to_string(request.vcpus) + " vCPUs can't be given to a VM",
                       "give 1 to " + std::to_string(kMostVcpus));
  }
  if (request.memory < image.min_memory) {
    return field_error("memory_mib",
                       mib_text(request.memory) + " is too little: image '" + image.name +
                           "' needs " + mib_text(image.min_memory),
                       "give at least " + mib_text(image.min_memory));
  }
  return ok_status();
}

}  // namespace

Result<Operation> plan(store::Transaction& tx, Context& context, const PoolCreateRequest& request) {
  if (auto named = check_name("id", request.id.value); !named) return named.error();
  if (auto named = check_name("project", request.project.value); !named) return named.error();
  auto there = tx.pool(request.id);
  if (there) {
    return make_error(Code::AlreadyExists, "there is a pool '" + request.id.value + "'",
                      "choose another name, or delete that pool first");
  }
  if (there.error().code != Code::NotFound) return there.error();
  auto image = context.ports.images.find(request.image, "");
  if (!image) {
    Error error = image.error();
    if (error.field.empty()) error.field = "image";
    return error;
  }
  if (auto fits = check_shape(request, *image); !fits) return fits.error();
  const MovePolicy move_policy = changed({}, request.move_policy);
  if (auto good = check(move_policy); !good) return good.error();
  for (const auto& host : request.hosts) {
    auto row = tx.host(host);
    if (row) continue;
    Error error = row.error();
    if (error.code == Code::NotFound) error.field = "hosts";
    return error;
  }
  auto rooms = rooms_now(tx, request.hosts, {});
  if (!rooms) return rooms.error();
  auto grant = grant_of(tx, request.project);
  if (!grant) return grant.error();
  const auto places = place_granted(*grant, *rooms, request.memory, request.size);
  if (places.refusal) {
    return places.refusal
        ->during(std::to_string(places.hosts.size()) + " of " + std::to_string(request.size) +
                 " VMs fit")
        .during("pool '" + request.id.value + "' can't be made");
  }
  auto addresses = free_addresses(tx, context.settings, request.size);
  if (!addresses) return addresses.error();
  if (addresses->size() < places.hosts.size()) {
    return too_few_addresses(context.settings, addresses->size(), request.size);
  }

  Pool pool;
  pool.id = request.id;
  pool.image = image->name;
  pool.image_version = image->version;
  pool.size = request.size;
  pool.memory = request.memory;
  pool.vcpus = request.vcpus;
  pool.token = make_hex(context.ports.rng, 16);
  pool.hosts = request.hosts;
  pool.move_policy = move_policy;
  pool.project = request.project;
  pool.created = context.ports.clock.wall_now();
  auto kept = put_pool(tx, context.ports.clock, pool, "pool.created");
  if (!kept) return kept.error();
  std::vector<int> indices(places.hosts.size());
  std::iota(indices.begin(), indices.end(), 0);
  if (auto done = add_vms(tx, context.ports.clock, pool, indices, *addresses); !done) {
    return done.error();
  }
  Operation draft;
  draft.kind = OperationKind::PoolCreate;
  draft.target = request.id.value;
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context, const PoolDeleteRequest& request) {
  auto pool = tx.pool(request.id);
  if (!pool) return pool.error();
  auto jobs = tx.unfinished_jobs_of(request.id);
  if (!jobs) return jobs.error();
  if (!jobs->empty() && !request.force) {
    return make_error(Code::FailedPrecondition,
                      "pool '" + request.id.value + "' has " + std::to_string(jobs->size()) +
                          " unfinished jobs, among them " + jobs->front().id.value,
                      "wait for them, cancel them, or delete with force");
  }
  Operation draft;
  draft.kind = OperationKind::PoolDelete;
  draft.target = request.id.value;
  return insert_operation(tx, context.ports.clock, draft);
}

}  // namespace mare::engine
