// The tables of the operations on checkpoints, in the shape of lifecycles.h. All pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mare {

enum class CheckpointTakeState : std::uint8_t {
  Planned,   // nothing was touched
  Holding,   // VMs may stand still for it; after a crash it is dropped
  Writing,   // every VM's state was taken and all go on; the files are being written
  Dropping,  // given up: captures are being ended, VMs go on
  Done,      // the checkpoint is complete
  Failed,    // there is none
};
enum class CheckpointTakeEvent : std::uint8_t { Hold, Taken, Complete, Drop, Dropped, GiveUp };

enum class CheckpointRestoreState : std::uint8_t {
  Planned,   // nothing was touched
  Clearing,  // what is left of the job's VMs is being ended; the rows name where that is
  Loading,   // no copy is left but those being loaded on the hosts that the rows name; none runs
  Resuming,  // every VM is loaded; they may run
  Cleaning,  // given up: what was loaded is being ended
  Done,
  Failed,         // none of the job's VMs runs
  NeedsOperator,  // a silent host may have a copy
};
enum class CheckpointRestoreEvent : std::uint8_t {
  Begin,
  Cleared,
  Loaded,
  Runs,
  Abort,
  Gone,
  GiveUp
};

enum class RecoveryRunState : std::uint8_t {
  Planned,     // nothing was touched
  Fencing,     // the try is counted; silent hosts of the job's VMs are being fenced
  Restarting,  // no VM of the job can run on a silent host; a child puts the job back
  Done,
  Failed,
};
enum class RecoveryRunEvent : std::uint8_t { Begin, Fenced, Runs, GiveUp };

std::string_view to_string(RecoveryRunState state);
std::string_view to_string(RecoveryRunEvent event);
std::optional<RecoveryRunState> next(RecoveryRunState from, RecoveryRunEvent event);
bool state_from(std::string_view text, RecoveryRunState& state);

std::string_view to_string(CheckpointTakeState state);
std::string_view to_string(CheckpointTakeEvent event);
std::optional<CheckpointTakeState> next(CheckpointTakeState from, CheckpointTakeEvent event);
bool state_from(std::string_view text, CheckpointTakeState& state);

std::string_view to_string(CheckpointRestoreState state);
std::string_view to_string(CheckpointRestoreEvent event);
std::optional<CheckpointRestoreState> next(CheckpointRestoreState from,
                                           CheckpointRestoreEvent event);
bool state_from(std::string_view text, CheckpointRestoreState& state);

}  // namespace mare
