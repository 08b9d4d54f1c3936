// Entities as JSON and back. Names carry their units; null stands for "not known" or "not yet".
// Reading is lenient about members that it does not know: a newer server may say more.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/result.h"
#include "orchestrator/model/entities.h"
#include "rest/wire/json.h"

namespace mare::wire {

/// What VMs take of a host, by the rows.
struct HostUse {
  int vms = 0;
  Bytes memory_allocated;  // with the hypervisor's overhead of each
};
struct HostRecord {
  Host host;
  HostUse use;
};

/// The part of a migration that its operation knows. The operation may be pruned, the migration
/// not.
struct MigrationStatus {
  std::string state;  // to_string(MigrationState)
  Outcome outcome = Outcome::Pending;
  std::string reason;
  std::string error_code;
  double progress = 0;
  WallTime created{0};
  WallTime started{0};
  WallTime ended{0};
};
struct MigrationRecord {
  Migration migration;
  std::optional<MigrationStatus> status;
};
MigrationStatus status_of(const Operation& operation);

struct Image {
  std::string name;
  std::string version;
  Bytes min_memory;
  std::uint64_t size_bytes = 0;
  std::vector<std::string> packages;
  WallTime created{0};
};

Json to_json(const HostRecord& record);
Json to_json(const Pool& pool);  // without its token
Json to_json(const Vm& vm);
Json to_json(const Job& job);
Json to_json(const Operation& operation);
Json to_json(const OperationEvent& event);
Json to_json(const std::vector<EarlierTry>& tries);  // an array
Json to_json(const MigrationRecord& record);
Json to_json(const Event& event);
Json to_json(const Image& image);

Result<HostRecord> host_from(const Json& json);
Result<Pool> pool_from(const Json& json);
Result<Vm> vm_from(const Json& json);
Result<Job> job_from(const Json& json);
Result<Operation> operation_from(const Json& json);
Result<OperationEvent> operation_event_from(const Json& json);
Result<MigrationRecord> migration_from(const Json& json);
Result<Event> event_from(const Json& json);
Result<Image> image_from(const Json& json);

}  // namespace mare::wire
