#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/plan.h"

namespace mare::engine {

Result<Operation> plan(store::Transaction& tx, Context& context, const HostAddRequest& request) {
  if (auto named = check_name("id", request.id.value); !named) return named.error();
  auto there = tx.host(request.id);
  if (there) {
    return make_error(Code::AlreadyExists,
                      "there is a host '" + request.id.value + "' at " + there->address,
                      "choose another name, or remove that host first");
  }
  if (there.error().code != Code::NotFound) return there.error();
  auto hosts = tx.hosts();
  if (!hosts) return hosts.error();
  for (const auto& host : *hosts) {
    if (host.address != request.address) continue;
    return make_error(
        Code::AlreadyExists,
        "host '" + host.id.value + "' has the address " + request.address + " already",
        "one agent is one host: give the other agent's address");
  }
  // Only made here, not called: a wrong address is refused at once, a silent one by the operation.
  auto driver = context.ports.drivers.driver(request.id, request.address);
  if (!driver) {
    Error error = driver.error();
    if (error.field.empty()) error.field = "address";
    return error;
  }
  Operation draft;
  draft.kind = OperationKind::HostAdd;
  draft.target = request.id.value;
  draft.request = request.address;
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context, const HostRemoveRequest& request) {
  auto host = tx.host(request.id);
  if (!host) return host.error();
  auto vms = tx.vms_on(request.id);
  if (!vms) return vms.error();
  if (!vms->empty()) {
    return make_error(
        Code::FailedPrecondition,
        "host '" + request.id.value + "' still has " + std::to_string(vms->size()) + " VMs",
        "drain it first with 'mare host drain " + request.id.value + "'");
  }
  Operation draft;
  draft.kind = OperationKind::HostRemove;
  draft.target = request.id.value;
  return insert_operation(tx, context.ports.clock, draft);
}

Result<std::vector<HostId>> find_destinations(const store::Reader& reader, const HostId& id) {
  auto host = reader.host(id);
  if (!host) return host.error();
  if (host->health != HostHealth::Up) {
    return make_error(Code::Unavailable,
                      "host '" + id.value + "' is " + std::string(to_string(host->health)) +
                          (host->health_reason.empty() ? "" : ": " + host->health_reason),
                      "its VMs can't be moved while its agent does not answer");
  }
  // The whole drain must fit before the first VM moves, so that it can't get stuck half-way for
  // room.
  auto vms = reader.vms_on(id);
  if (!vms) return vms.error();
  std::vector<Bytes> sizes;
  for (const auto& vm : *vms) sizes.push_back(vm.memory);
  auto alike = encrypting_alike(reader, *host);
  if (!alike) return alike.error();
  auto rooms = rooms_now(reader, *alike, id);
  if (!rooms) return rooms.error();
  auto places = policy::place_all(*rooms, sizes);
  if (!places) return places.error().during("host '" + id.value + "' can't be drained");
  return places;
}

Status check_on(const store::Reader& reader, const HostId& host, const PolicyChange& change) {
  auto vms = reader.vms_on(host);
  if (!vms) return vms.error();
  for (const auto& vm : *vms) {
    auto pool = reader.pool(vm.pool);
    if (!pool) return pool.error();
    if (auto good = check(changed(pool->move_policy, change)); !good) {
      return good.error().during("VM '" + vm.id.value + "'");
    }
  }
  return ok_status();
}

Result<Operation> plan(store::Transaction& tx, Context& context, const HostDrainRequest& request) {
  auto places = find_destinations(tx, request.id);
  if (!places) return places.error();
  if (auto good = check_on(tx, request.id, request.policy); !good) return good.error();
  Operation draft;
  draft.kind = OperationKind::HostDrain;
  draft.target = request.id.value;
  draft.request = text_of(request.policy);
  return insert_operation(tx, context.ports.clock, draft);
}

}  // namespace mare::engine
