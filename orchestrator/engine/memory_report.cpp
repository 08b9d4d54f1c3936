#include "orchestrator/engine/memory_report.h"

#include <cmath>

namespace mare::engine {
namespace {
constexpr double kMostAdded_s = 1e9;

Result<std::pair<Vm, Host>> whereabouts(const Context& context, const VmId& id) {
  using Found = std::pair<Vm, Host>;
  return query<Found>(context.ports.store, [&](const store::Reader& reader) -> Result<Found> {
    auto vm = reader.vm(id);
    if (!vm) return vm.error();
    if (!vm->host || vm->state != VmState::Running) {
      return make_error(Code::FailedPrecondition,
                        "VM '" + id.value + "' is " + std::string(to_string(vm->state)),
                        "only the memory of a running VM is watched");
    }
    auto host = reader.host(*vm->host);
    if (!host) return host.error();
    return Found{*vm, *host};
  });
}
}  // namespace

Result<Forecast> keep_report(Context& context, const OperationId& migration,
                             const MigrationReport& report) {
  const double added = report.added_job_time_s;
  if (!std::isfinite(added) || std::abs(added) > kMostAdded_s) {
    return field_error("added_job_time_s", "that is no time", "give seconds");
  }
  Result<Forecast> out = make_error(Code::Internal, "not looked up");
  auto done = context.ports.store.write([&](store::Transaction& tx) -> Status {
    if (auto known = tx.migration(migration); !known) return known.error();
    out = tx.forecast(migration);
    if (!out && out.error().code == Code::NotFound) {
      return make_error(Code::FailedPrecondition, migration.value + " was begun without a forecast",
                        "there is nothing to learn from it");
    }
    if (!out) return out.error();
    if (!out->outcome) {
      return make_error(Code::FailedPrecondition,
                        migration.value + " has not moved its VM, or shared its link with others",
                        "report what it cost when it has ended well, alone on its link");
    }
    out->outcome->added_job_time_s = added;
    return put_forecast(tx, context.ports.clock, *out);
  });
  if (!done) return done.error();
  return out;
}

void ask_memory_profile(Context& context, const VmId& vm,
                        std::function<void(Result<MemoryProfile>)> then) {
  auto found = whereabouts(context, vm);
  if (!found) return then(found.error());
  const auto& [row, host] = *found;
  auto driver = context.ports.drivers.driver(host.id, host.address);
  if (!driver) return then(driver.error());
  context.ports.executor.run("memory/" + host.id.value,
                             [driver = *driver, key = VmKey{row.id, row.uuid},
                              then = std::move(then)] { then(driver->memory_profile(key)); });
}

}  // namespace mare::engine
