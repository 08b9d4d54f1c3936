#include "orchestrator/store/schema.h"

#include <array>
#include <string>

namespace mare::store {
namespace {

// Times are microseconds since 1970 UTC; 0 means "not yet". Lists that are never searched are JSON.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE host (
  id TEXT PRIMARY KEY, address TEXT NOT NULL, admin TEXT NOT NULL, health TEXT NOT NULL,
  health_reason TEXT NOT NULL, memory_bytes INTEGER NOT NULL, cpus INTEGER NOT NULL,
  vm_overhead_bytes INTEGER NOT NULL, hypervisor TEXT NOT NULL, live_migration INTEGER NOT NULL,
  added_us INTEGER NOT NULL, last_seen_us INTEGER NOT NULL
) STRICT;
CREATE TABLE pool (
  id TEXT PRIMARY KEY, image TEXT NOT NULL, image_version TEXT NOT NULL, size INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL, vcpus INTEGER NOT NULL, token TEXT NOT NULL, hosts TEXT NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;
CREATE TABLE vm (
  id TEXT PRIMARY KEY, pool TEXT NOT NULL REFERENCES pool(id), idx INTEGER NOT NULL, uuid TEXT NOT NULL,
  mac TEXT NOT NULL UNIQUE, ip INTEGER NOT NULL UNIQUE, memory_bytes INTEGER NOT NULL,
  vcpus INTEGER NOT NULL, state TEXT NOT NULL, host TEXT REFERENCES host(id), reason TEXT NOT NULL,
  created_us INTEGER NOT NULL, started_us INTEGER NOT NULL
) STRICT;
CREATE INDEX vm_by_host ON vm(host);
CREATE INDEX vm_by_pool ON vm(pool);
CREATE TABLE job (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, pool TEXT NOT NULL,
  command TEXT NOT NULL, environment TEXT NOT NULL, ranks INTEGER NOT NULL, state TEXT NOT NULL,
  exit_code INTEGER, reason TEXT NOT NULL, vms TEXT NOT NULL, output_bytes INTEGER NOT NULL,
  created_us INTEGER NOT NULL, started_us INTEGER NOT NULL, ended_us INTEGER NOT NULL
) STRICT;
CREATE TABLE operation (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
  target TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
  error_code TEXT NOT NULL, parent TEXT, cancel_requested INTEGER NOT NULL, attempt INTEGER NOT NULL,
  request TEXT NOT NULL, progress REAL NOT NULL, created_us INTEGER NOT NULL,
  started_us INTEGER NOT NULL, ended_us INTEGER NOT NULL, deadline_us INTEGER NOT NULL
) STRICT;
-- The rule that keeps two operations off one VM (host, pool, job), whatever the code above it does.
-- A host, a pool and a VM may share a name: the noun before the kind's dot tells them apart.
CREATE UNIQUE INDEX one_unfinished_operation
  ON operation(substr(kind, 1, instr(kind, '.') - 1), target) WHERE outcome = 'pending';
CREATE INDEX operation_by_parent ON operation(parent);
CREATE TABLE operation_event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, operation TEXT NOT NULL, at_us INTEGER NOT NULL,
  from_state TEXT NOT NULL, event TEXT NOT NULL, to_state TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
CREATE INDEX operation_event_by_operation ON operation_event(operation);
CREATE TABLE migration (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, vm TEXT NOT NULL,
  source TEXT NOT NULL, destination TEXT NOT NULL, bandwidth_limit_bytes_per_s INTEGER,
  downtime_limit_ms INTEGER, rounds TEXT NOT NULL, memory_total_bytes INTEGER NOT NULL,
  transferred_bytes INTEGER NOT NULL, remaining_bytes INTEGER NOT NULL, total_time_us INTEGER,
  downtime_hypervisor_us INTEGER, downtime_guest_us INTEGER, downtime_peers_us INTEGER,
  announce_delay_us INTEGER, announcements INTEGER NOT NULL, switched_us INTEGER NOT NULL,
  jobs TEXT NOT NULL
) STRICT;
CREATE INDEX migration_by_vm ON migration(vm);
CREATE TABLE reservation (
  operation TEXT PRIMARY KEY REFERENCES operation(id), host TEXT NOT NULL, memory_bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, topic TEXT NOT NULL,
  subject TEXT NOT NULL, type TEXT NOT NULL, data TEXT NOT NULL
) STRICT;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
)sql";

constexpr const char* kVersion2 = R"sql(
ALTER TABLE migration ADD COLUMN sending TEXT NOT NULL DEFAULT '{}';
ALTER TABLE migration ADD COLUMN planned_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE host ADD COLUMN strategies TEXT NOT NULL DEFAULT '[]';
ALTER TABLE host ADD COLUMN dirty_log TEXT NOT NULL DEFAULT '';
ALTER TABLE host ADD COLUMN dirty_log_why TEXT NOT NULL DEFAULT '';
ALTER TABLE host ADD COLUMN migration_tls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pool ADD COLUMN move_policy TEXT NOT NULL DEFAULT '{}';
-- What a move would cost, as it was known before its first page; its id is its operation's.
CREATE TABLE forecast (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, vm TEXT NOT NULL,
  source TEXT NOT NULL, destination TEXT NOT NULL, made_us INTEGER NOT NULL,
  has_job INTEGER NOT NULL, program TEXT NOT NULL, choice TEXT, reason TEXT NOT NULL,
  sending TEXT NOT NULL, policy TEXT NOT NULL, profile TEXT NOT NULL, link TEXT NOT NULL,
  strategies TEXT NOT NULL, outcome TEXT
) STRICT;
CREATE INDEX forecast_by_vm ON forecast(vm);
CREATE INDEX forecast_with_outcome ON forecast(seq) WHERE outcome IS NOT NULL;
-- Incarnations of VMs that are over. A host that was silent at the end may bring a copy back, long
-- after the VM's row has gone; this says that it was ours and must not be. Not by OR IGNORE: the
-- conflict rule of the statement that fires a trigger would override it.
CREATE TABLE ended_vm (uuid TEXT PRIMARY KEY, vm TEXT NOT NULL) STRICT;
CREATE TRIGGER vm_erased AFTER DELETE ON vm BEGIN
  INSERT INTO ended_vm SELECT old.uuid, old.id
    WHERE NOT EXISTS (SELECT 1 FROM ended_vm WHERE uuid = old.uuid);
END;
CREATE TRIGGER vm_begun_anew AFTER UPDATE OF uuid ON vm WHEN old.uuid <> new.uuid BEGIN
  INSERT INTO ended_vm SELECT old.uuid, old.id
    WHERE NOT EXISTS (SELECT 1 FROM ended_vm WHERE uuid = old.uuid);
END;
)sql";

constexpr const char* kVersion3 = R"sql(
-- The rule by which a pool's size follows a figure; its id is its pool's, and it goes with it.
CREATE TABLE autoscaler (
  id TEXT PRIMARY KEY REFERENCES pool(id) ON DELETE CASCADE, setting TEXT NOT NULL,
  posted TEXT NOT NULL, posted_us INTEGER NOT NULL, memory TEXT NOT NULL,
  looked_us INTEGER NOT NULL, metric TEXT NOT NULL, desired INTEGER NOT NULL,
  reason TEXT NOT NULL, operation TEXT NOT NULL
) STRICT;
ALTER TABLE pool ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
-- What the pools of a project may have together; its id is the project's name. NULL: no limit.
CREATE TABLE quota (id TEXT PRIMARY KEY, vms INTEGER, memory_bytes INTEGER, hosts INTEGER) STRICT;
)sql";

constexpr const char* kVersion4 = R"sql(
ALTER TABLE host ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN checkpoint_rule TEXT NOT NULL DEFAULT 'never';
ALTER TABLE job ADD COLUMN checkpoint_every_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN checkpoints_kept INTEGER NOT NULL DEFAULT 2;
ALTER TABLE job ADD COLUMN restarts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN recovery_from TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN recovery_tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE host ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE host ADD COLUMN fence TEXT NOT NULL DEFAULT 'none';
ALTER TABLE host ADD COLUMN fences INTEGER NOT NULL DEFAULT 0;
-- A row is there before the first file of its checkpoint and goes after the last: no file is without
-- one. The checkpoint itself is there from the transaction on that makes its state 'complete'.
CREATE TABLE checkpoint (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, job TEXT NOT NULL,
  operation TEXT NOT NULL, state TEXT NOT NULL, began_us INTEGER NOT NULL,
  completed_us INTEGER NOT NULL, pause_us INTEGER NOT NULL, skew_us INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL, parts TEXT NOT NULL
) STRICT;
CREATE INDEX checkpoint_by_job ON checkpoint(job);
CREATE INDEX checkpoint_by_state ON checkpoint(state) WHERE state <> 'complete';
)sql";

// Parts of checkpoints say themselves, in their JSON, what they are built on.
constexpr const char* kVersion5 = R"sql(
ALTER TABLE job ADD COLUMN safe_points INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN safe_point_wait_us INTEGER NOT NULL DEFAULT 1000000;
ALTER TABLE checkpoint ADD COLUMN safe_point TEXT NOT NULL DEFAULT 'not-asked';
-- How running VMs are kept well placed: one row, and none as long as nothing was asked or seen.
CREATE TABLE rebalancing (id TEXT PRIMARY KEY, setting TEXT NOT NULL, state TEXT NOT NULL) STRICT;
CREATE INDEX migration_by_switch ON migration(switched_us);
ALTER TABLE job ADD COLUMN checkpoint_mode TEXT NOT NULL DEFAULT 'incremental';
ALTER TABLE job ADD COLUMN checkpoint_chain INTEGER NOT NULL DEFAULT 8;
ALTER TABLE job ADD COLUMN checkpoints_max_age_us INTEGER NOT NULL DEFAULT 0;
)sql";

// Of a move through a file, for the moment when that is all there is of the VM.
constexpr const char* kVersion6 = R"sql(
ALTER TABLE migration ADD COLUMN file_path TEXT NOT NULL DEFAULT '';
ALTER TABLE migration ADD COLUMN file TEXT NOT NULL DEFAULT '{}';
CREATE INDEX migration_by_file ON migration(file_path) WHERE file_path <> '';
)sql";

constexpr const char* kVersion7 = R"sql(
ALTER TABLE migration ADD COLUMN held_us INTEGER;
ALTER TABLE migration ADD COLUMN switched_with INTEGER NOT NULL DEFAULT 0;
)sql";

// The last checkpoint and the last restart of each job are looked for twice a second.
constexpr const char* kVersion8 = R"sql(
CREATE INDEX operation_by_target ON operation(target, kind, seq);
)sql";

// Parts of checkpoints say themselves, in their JSON, who has them in its memory as well.
constexpr const char* kVersion9 = R"sql(
ALTER TABLE job ADD COLUMN checkpoint_partner INTEGER NOT NULL DEFAULT 0;
-- They are looked for once a second.
CREATE INDEX job_with_partner ON job(state) WHERE checkpoint_partner = 1;
)sql";

constexpr const char* kVersion10 = R"sql(
ALTER TABLE forecast ADD COLUMN job TEXT NOT NULL DEFAULT '';
)sql";

// Sendings that were given up for another one of the same move.
constexpr const char* kVersion11 = R"sql(
ALTER TABLE migration ADD COLUMN earlier TEXT NOT NULL DEFAULT '[]';
ALTER TABLE migration ADD COLUMN reconsiders TEXT NOT NULL DEFAULT '';
)sql";

constexpr const char* kVersion12 = R"sql(
ALTER TABLE host ADD COLUMN migration_address TEXT NOT NULL DEFAULT '';
)sql";

// Whether what was said of a move's end was right; also of moves that have no outcome.
constexpr const char* kVersion13 = R"sql(
ALTER TABLE forecast ADD COLUMN verdicts TEXT NOT NULL DEFAULT '[]';
CREATE INDEX forecast_with_verdict ON forecast(seq) WHERE verdicts <> '[]';
)sql";

// How fast hosts are against each other, and how tightly the ranks of jobs wait for each other; of
// forecasts, what was known of both.
constexpr const char* kVersion14 = R"sql(
ALTER TABLE host ADD COLUMN cpu_speed REAL NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN tightness REAL NOT NULL DEFAULT 1;
ALTER TABLE forecast ADD COLUMN destination_speed REAL NOT NULL DEFAULT 1;
ALTER TABLE forecast ADD COLUMN tightness REAL NOT NULL DEFAULT 1;
)sql";

constexpr std::array kSteps{kVersion1,  kVersion2,  kVersion3,  kVersion4, kVersion5,
                            kVersion6,  kVersion7,  kVersion8,  kVersion9, kVersion10,
                            kVersion11, kVersion12, kVersion13, kVersion14};

}  // namespace

Status migrate_schema(Connection& connection) {
  auto query = connection.prepare("PRAGMA user_version");
  if (!query) return query.error();
  auto row = query->step();
  if (!row) return row.error();
  const auto found = query->natural();
  if (found > kSteps.size()) {
    return make_error(Code::FailedPrecondition,
                      "the database has schema version " + std::to_string(found) +
                          ", this program knows versions up to " + std::to_string(kSteps.size()),
                      "use the newer program, or start with another state directory");
  }
  for (auto version = found; version < kSteps.size(); ++version) {
    const std::string step = std::string("BEGIN IMMEDIATE;") + kSteps.at(version) +
                             "PRAGMA user_version = " + std::to_string(version + 1) + ";COMMIT;";
    if (auto done = connection.execute(step); !done) {
      (void)connection.execute("ROLLBACK");
      return done.error();
    }
  }
  return ok_status();
}

}  // namespace mare::store
