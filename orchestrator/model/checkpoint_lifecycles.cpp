#include "orchestrator/model/checkpoint_lifecycles.h"

#include "orchestrator/model/lifecycle_table.h"

namespace mare {
namespace {

using lifecycle::look_up;
using lifecycle::Row;
using lifecycle::value_of;
using Take = CheckpointTakeState;
using TakeEvent = CheckpointTakeEvent;
using Restore = CheckpointRestoreState;
using RestoreEvent = CheckpointRestoreEvent;
using Recovery = RecoveryRunState;
using RecoveryEvent = RecoveryRunEvent;

constexpr std::array<std::pair<Take, std::string_view>, 6> kTakeStates{{
    {Take::Planned, "Planned"},
    {Take::Holding, "Holding"},
    {Take::Writing, "Writing"},
    {Take::Dropping, "Dropping"},
    {Take::Done, "Done"},
    {Take::Failed, "Failed"},
}};
constexpr std::array<std::pair<TakeEvent, std::string_view>, 6> kTakeEvents{{
    {TakeEvent::Hold, "Hold"},
    {TakeEvent::Taken, "Taken"},
    {TakeEvent::Complete, "Complete"},
    {TakeEvent::Drop, "Drop"},
    {TakeEvent::Dropped, "Dropped"},
    {TakeEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<Take, TakeEvent>, 7> kTakeTable{{
    {Take::Planned, TakeEvent::Hold, Take::Holding},
    {Take::Planned, TakeEvent::GiveUp, Take::Failed},
    {Take::Holding, TakeEvent::Taken, Take::Writing},
    {Take::Holding, TakeEvent::Drop, Take::Dropping},
    {Take::Writing, TakeEvent::Complete, Take::Done},
    {Take::Writing, TakeEvent::Drop, Take::Dropping},
    {Take::Dropping, TakeEvent::Dropped, Take::Failed},
}};

constexpr std::array<std::pair<Restore, std::string_view>, 8> kRestoreStates{{
    {Restore::Planned, "Planned"},
    {Restore::Clearing, "Clearing"},
    {Restore::Loading, "Loading"},
    {Restore::Resuming, "Resuming"},
    {Restore::Cleaning, "Cleaning"},
    {Restore::Done, "Done"},
    {Restore::Failed, "Failed"},
    {Restore::NeedsOperator, "NeedsOperator"},
}};
constexpr std::array<std::pair<RestoreEvent, std::string_view>, 7> kRestoreEvents{{
    {RestoreEvent::Begin, "Begin"},
    {RestoreEvent::Cleared, "Cleared"},
    {RestoreEvent::Loaded, "Loaded"},
    {RestoreEvent::Runs, "Runs"},
    {RestoreEvent::Abort, "Abort"},
    {RestoreEvent::Gone, "Gone"},
    {RestoreEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<Restore, RestoreEvent>, 10> kRestoreTable{{
    {Restore::Planned, RestoreEvent::Begin, Restore::Clearing},
    {Restore::Planned, RestoreEvent::Abort, Restore::Failed},
    {Restore::Clearing, RestoreEvent::Cleared, Restore::Loading},
    {Restore::Clearing, RestoreEvent::Abort, Restore::Cleaning},
    {Restore::Loading, RestoreEvent::Loaded, Restore::Resuming},
    {Restore::Loading, RestoreEvent::Abort, Restore::Cleaning},
    {Restore::Resuming, RestoreEvent::Runs, Restore::Done},
    {Restore::Resuming, RestoreEvent::Abort, Restore::Cleaning},
    {Restore::Cleaning, RestoreEvent::Gone, Restore::Failed},
    {Restore::Cleaning, RestoreEvent::GiveUp, Restore::NeedsOperator},
}};

constexpr std::array<std::pair<Recovery, std::string_view>, 5> kRecoveryStates{{
    {Recovery::Planned, "Planned"},
    {Recovery::Fencing, "Fencing"},
    {Recovery::Restarting, "Restarting"},
    {Recovery::Done, "Done"},
    {Recovery::Failed, "Failed"},
}};
constexpr std::array<std::pair<RecoveryEvent, std::string_view>, 4> kRecoveryEvents{{
    {RecoveryEvent::Begin, "Begin"},
    {RecoveryEvent::Fenced, "Fenced"},
    {RecoveryEvent::Runs, "Runs"},
    {RecoveryEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<Recovery, RecoveryEvent>, 6> kRecoveryTable{{
    {Recovery::Planned, RecoveryEvent::Begin, Recovery::Fencing},
    {Recovery::Planned, RecoveryEvent::GiveUp, Recovery::Failed},
    {Recovery::Fencing, RecoveryEvent::Fenced, Recovery::Restarting},
    {Recovery::Fencing, RecoveryEvent::GiveUp, Recovery::Failed},
    {Recovery::Restarting, RecoveryEvent::Runs, Recovery::Done},
    {Recovery::Restarting, RecoveryEvent::GiveUp, Recovery::Failed},
}};

}  // namespace

std::string_view to_string(RecoveryRunState state) {
  return name_of(kRecoveryStates, state);
}
std::string_view to_string(RecoveryRunEvent event) {
  return name_of(kRecoveryEvents, event);
}
std::optional<RecoveryRunState> next(RecoveryRunState from, RecoveryRunEvent event) {
  return look_up(kRecoveryTable, from, event);
}
bool state_from(std::string_view text, RecoveryRunState& state) {
  return value_of(kRecoveryStates, text, state);
}

std::string_view to_string(CheckpointTakeState state) {
  return name_of(kTakeStates, state);
}
std::string_view to_string(CheckpointTakeEvent event) {
  return name_of(kTakeEvents, event);
}
std::optional<CheckpointTakeState> next(CheckpointTakeState from, CheckpointTakeEvent event) {
  return look_up(kTakeTable, from, event);
}
bool state_from(std::string_view text, CheckpointTakeState& state) {
  return value_of(kTakeStates, text, state);
}

std::string_view to_string(CheckpointRestoreState state) {
  return name_of(kRestoreStates, state);
}
std::string_view to_string(CheckpointRestoreEvent event) {
  return name_of(kRestoreEvents, event);
}
std::optional<CheckpointRestoreState> next(CheckpointRestoreState from,
                                           CheckpointRestoreEvent event) {
  return look_up(kRestoreTable, from, event);
}
bool state_from(std::string_view text, CheckpointRestoreState& state) {
  return value_of(kRestoreStates, text, state);
}

}  // namespace mare
