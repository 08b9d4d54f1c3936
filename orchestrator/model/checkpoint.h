// A checkpoint of a job: one cut through all its VMs, complete or absent. Values only;
// docs/checkpoints.md tells how one comes to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"

namespace mare {

/// When checkpoints of a job are taken without being asked for.
enum class CheckpointRule : std::uint8_t {
  Never,
  Every,    // so often as the user said
  Optimal,  // so often as costs least, from what they cost and how often hosts fail
};
std::string_view to_string(CheckpointRule rule);  // "never", "every", "optimal"
std::optional<CheckpointRule> checkpoint_rule_from(std::string_view text);

/// What a checkpoint holds.
enum class CheckpointMode : std::uint8_t {
  Full,         // all of every VM's memory
  Incremental,  // what differs from the last one, where there is one
};
std::string_view to_string(CheckpointMode mode);  // "full", "incremental"
std::optional<CheckpointMode> checkpoint_mode_from(std::string_view text);

inline constexpr int kCheckpointsKept = 2;
inline constexpr int kCheckpointChain = 8;
struct CheckpointPlan {
  CheckpointRule rule = CheckpointRule::Never;
  Seconds every{0};  // Every: from the beginning of one to that of the next
  int keep = kCheckpointsKept;
  CheckpointMode mode = CheckpointMode::Incremental;
  int chain = kCheckpointChain;  // so many incremental ones on a full one at most
  Seconds max_age{0};            // older ones go, but never the last one; 0: of any age
  bool safe_points = false;      // the job announces when its ranks are in a collective
  Seconds safe_point_wait{1};    // then a checkpoint waits for that, at most so long
  bool partner = false;          // the newest is kept in the memory of partner hosts as well
};

/// How a checkpoint came to lie as to the collectives of its job.
enum class SafePoint : std::uint8_t {
  NotAsked,  // the job announces nothing
  Absent,    // nor do its programs, though the job should
  Hit,       // begun when every rank was in a collective or just past one
  Missed,    // begun because the wait was over
};
std::string_view to_string(SafePoint point);  // "not-asked", "absent", "hit", "missed"
std::optional<SafePoint> safe_point_from(std::string_view text);

enum class CheckpointState : std::uint8_t {
  Writing,   // its operation is at it; nobody may restart from it
  Complete,  // every part is durable and its checksum known
  Needed,    // would be gone, but that newer ones are built on it; nobody restarts from it
  Dropping,  // as good as gone: its files are being removed
};
std::string_view to_string(CheckpointState state);  // "writing", ...
std::optional<CheckpointState> checkpoint_state_from(std::string_view text);

/// The state of one VM in a file that every host sees.
struct CheckpointPart {
  VmId vm;
  std::string uuid;  // of the incarnation
  HostId host;       // that wrote it
  std::string path;
  Bytes size;                  // of the state, as a restart makes it again
  std::uint64_t checksum = 0;  // XXH64 of the state
  Bytes written;               // of the file; 0: from a version that wrote the state as it is
  CheckpointId base = {};      // whose part of the VM this one is built on, "" for a full one
  HostId partner = {};         // that has it in its memory as well, "" for none
  WallTime stopped{0};         // when the VM stood still, by its host's clock
  WallTime resumed{0};         // when it went on
};

struct Checkpoint {
  CheckpointId id;
  JobId job;
  OperationId operation;
  CheckpointState state = CheckpointState::Writing;
  WallTime began{0};
  WallTime completed{0};
  Microseconds pause{0};  // from the first stop to the last resume
  Microseconds skew{0};   // from the first stop to the last
  Bytes size;
  std::vector<CheckpointPart> parts;  // part i is rank i
  SafePoint safe_point = SafePoint::NotAsked;
};

/// The one that any of its parts is built on, "" if all are full: parts are built on those of one.
CheckpointId base_of(const Checkpoint& checkpoint);
/// Of its parts, those that a partner host has in its memory.
std::size_t parts_in_memory(const Checkpoint& checkpoint);
/// Of its files.
Bytes written_by(const Checkpoint& checkpoint);
/// Pause, skew and size of a checkpoint from its parts. Hosts' clocks may differ: nothing is below
/// zero.
void add_up(Checkpoint& checkpoint);

}  // namespace mare
