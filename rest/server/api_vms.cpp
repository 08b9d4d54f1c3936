// VMs and their migrations.
#include "rest/server/api.h"

namespace mare::rest {
namespace {

VmId vm_id(const Call& call) {
  return VmId{call.captures.at("id")};
}
Response list_vms(const Api& api, const Call& call) {
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  const auto pool = query.text("pool");
  const auto host = query.text("host");
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  return page_of<Vm>(
      call, page, kAllRows,
      [&](std::size_t) {
        return ask<std::vector<Vm>>(api.store, [](const auto& r) { return r.vms(); });
      },
      [&](const Vm& vm) {
        return (!pool || vm.pool.value == *pool) && (!host || vm.host == HostId{*host});
      },
      [](const Vm& vm) { return vm.id.value; }, [](const Vm& vm) { return wire::to_json(vm); });
}

Response start_vm(Api& api, const Call& call) {
  wire::VmStartBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.submit(engine::VmStartRequest{vm_id(call), body.host}));
}

Response stop_vm(Api& api, const Call& call) {
  wire::VmStopBody body;
  if (auto refused = read_body(call, body)) return *refused;
  return accepted(call, api.engine.submit(engine::VmStopRequest{vm_id(call), body.force}));
}

Response migrate_vm(Api& api, const Call& call) {
  wire::MigrationBody body;
  if (auto refused = read_body(call, body)) return *refused;
  wire::Faults faults;
  const bool dry = dry_run(call, faults);
  if (!faults.empty()) return refuse(call, faults);
  if (dry) {
    return accepted(call, api.engine.submit(engine::ForecastRequest{vm_id(call), body.destination,
                                                                    body.policy, body.timing}));
  }
  return accepted(
      call, api.engine.submit(engine::MigrateRequest{vm_id(call), body.destination, body.policy,
                                                     body.timeout, body.force, body.timing}));
}

Result<wire::MigrationRecord> with_status(const store::Reader& reader, const Migration& migration) {
  wire::MigrationRecord out{migration, std::nullopt};
  const auto operation = reader.operation(migration.id);
  if (operation) {
    out.status = wire::status_of(*operation);
  } else if (operation.error().code != Code::NotFound) {  // Not found: pruned long ago.
    return operation.error();
  }
  return out;
}

Result<wire::MigrationRecord> find_migration(const store::Store& store, const OperationId& id) {
  using Record = wire::MigrationRecord;
  return ask<Record>(store, [&](const store::Reader& r) -> Result<Record> {
    const auto migration = r.migration(id);
    if (!migration) return migration.error();
    return with_status(r, *migration);
  });
}

Response list_migrations(const Api& api, const Call& call) {
  using Records = std::vector<wire::MigrationRecord>;
  wire::Faults faults;
  QueryReader query(call, faults);
  const auto page = read_page(query);
  const auto vm = query.text("vm");
  const auto outcome = query.name_of<Outcome>(
      "outcome", outcome_from, "pending, succeeded, failed, cancelled, needs_operator");
  query.finish();
  if (!faults.empty()) return refuse(call, faults);
  const auto fetch = [&](std::size_t n) {
    return ask<Records>(api.store, [n](const store::Reader& r) -> Result<Records> {
      const auto rows = r.migrations(n);
      if (!rows) return rows.error();
      Records out;
      for (const auto& row : *rows) {
        auto record = with_status(r, row);
        if (!record) return record.error();
        out.push_back(std::move(*record));
      }
      return out;
    });
  };
  return page_of<wire::MigrationRecord>(
      call, page, 256, fetch,
      [&](const auto& row) {
        return (!vm || row.migration.vm.value == *vm) &&
               (!outcome || (row.status && row.status->outcome == *outcome));
      },
      [](const auto& row) { return row.migration.id.value; },
      [](const auto& row) { return wire::to_json(row); });
}

Response cancel_migration(Api& api, const Call& call) {
  wire::EmptyBody body;
  if (auto refused = read_body(call, body)) return *refused;
  const auto found = find_migration(api.store, operation_id(call));
  if (!found) return refuse(call, found.error());
  return accepted(call, api.engine.cancel(found->migration.id));
}

}  // namespace

void add_vm_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/vms", "listVms",
      [&api](const Call& call) { return list_vms(api, call); });
  add(router, "GET", "/api/v1/vms/{id}", "getVm", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return entity(call, ask<Vm>(api.store, [&](const auto& r) { return r.vm(vm_id(call)); }));
  });
  add(router, "POST", "/api/v1/vms/{id}:start", "startVm",
      [&api](const Call& call) { return start_vm(api, call); });
  add(router, "POST", "/api/v1/vms/{id}:stop", "stopVm",
      [&api](const Call& call) { return stop_vm(api, call); });
  add(router, "POST", "/api/v1/vms/{id}/migrations", "migrateVm",
      [&api](const Call& call) { return migrate_vm(api, call); });
}

void add_migration_routes(Router& router, Api& api) {
  add(router, "GET", "/api/v1/migrations", "listMigrations",
      [&api](const Call& call) { return list_migrations(api, call); });
  add(router, "GET", "/api/v1/migrations/{id}", "getMigration", [&api](const Call& call) {
    if (auto refused = no_parameters(call)) return *refused;
    return entity(call, find_migration(api.store, operation_id(call)));
  });
  add(router, "POST", "/api/v1/migrations/{id}:cancel", "cancelMigration",
      [&api](const Call& call) { return cancel_migration(api, call); });
}

}  // namespace mare::rest
