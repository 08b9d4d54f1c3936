#include "orchestrator/model/migration_state.h"

#include <array>

#include "orchestrator/model/names.h"

namespace mare {
namespace {
using S = MigrationState;
using E = MigrationEvent;

struct Transition {
  S from;
  E event;
  S to;
};

constexpr std::array kTable{
    Transition{S::Planned, E::Reserve, S::Reserved},
    Transition{S::Planned, E::Abort, S::Failed},
    Transition{S::Reserved, E::StartPreCopy, S::PreCopying},
    Transition{S::Reserved, E::Abort, S::Aborting},
    Transition{S::PreCopying, E::Switch, S::Switching},
    Transition{S::PreCopying, E::DestinationRuns, S::Committed},
    Transition{S::PreCopying, E::Abort, S::Aborting},
    Transition{S::PreCopying, E::PostCopy, S::PostCopying},
    Transition{S::PreCopying, E::Lost, S::Failed},
    Transition{S::PreCopying, E::Ambiguous, S::NeedsOperator},
    Transition{S::Switching, E::DestinationRuns, S::Committed},
    Transition{S::Switching, E::Abort, S::Aborting},
    Transition{S::Switching, E::PostCopy, S::PostCopying},
    Transition{S::Switching, E::Lost, S::Failed},
    Transition{S::Switching, E::Ambiguous, S::NeedsOperator},
    Transition{S::PostCopying, E::DestinationRuns, S::Committed},
    Transition{S::PostCopying, E::Lost, S::Failed},
    Transition{S::PostCopying, E::Ambiguous, S::NeedsOperator},
    Transition{S::Reserved, E::Save, S::Saving},
    Transition{S::Saving, E::EndSource, S::Restarting},
    Transition{S::Saving, E::Abort, S::Aborting},
    Transition{S::Restarting, E::Loaded, S::Committed},
    // Its copy was not ended, and went on.
    Transition{S::Restarting, E::Abort, S::Aborting},
    Transition{S::Restarting, E::Return, S::Returning},
    Transition{S::Restarting, E::Ambiguous, S::NeedsOperator},
    Transition{S::Returning, E::Loaded, S::Aborting},
    Transition{S::Returning, E::Lost, S::Failed},
    Transition{S::Returning, E::Ambiguous, S::NeedsOperator},
    Transition{S::Committed, E::Announced, S::Done},
    Transition{S::Aborting, E::SourceRuns, S::Failed},
    Transition{S::Aborting, E::Reconsider, S::Planned},
    // The abort lost the race: the switch was done when it arrived.
    Transition{S::Aborting, E::DestinationRuns, S::Committed},
    Transition{S::Aborting, E::PostCopy, S::PostCopying},
    Transition{S::Aborting, E::Lost, S::Failed},
    Transition{S::Aborting, E::Ambiguous, S::NeedsOperator},
};

constexpr std::array<Name<S>, 13> kStates{{
    {S::Planned, "Planned"},
    {S::Reserved, "Reserved"},
    {S::PreCopying, "PreCopying"},
    {S::Switching, "Switching"},
    {S::PostCopying, "PostCopying"},
    {S::Saving, "Saving"},
    {S::Restarting, "Restarting"},
    {S::Returning, "Returning"},
    {S::Committed, "Committed"},
    {S::Aborting, "Aborting"},
    {S::Done, "Done"},
    {S::Failed, "Failed"},
    {S::NeedsOperator, "NeedsOperator"},
}};
constexpr std::array<Name<E>, 15> kEvents{{
    {E::Reserve, "Reserve"},
    {E::StartPreCopy, "StartPreCopy"},
    {E::Switch, "Switch"},
    {E::PostCopy, "PostCopy"},
    {E::Save, "Save"},
    {E::EndSource, "EndSource"},
    {E::Return, "Return"},
    {E::Loaded, "Loaded"},
    {E::DestinationRuns, "DestinationRuns"},
    {E::Announced, "Announced"},
    {E::Abort, "Abort"},
    {E::SourceRuns, "SourceRuns"},
    {E::Reconsider, "Reconsider"},
    {E::Lost, "Lost"},
    {E::Ambiguous, "Ambiguous"},
}};
constexpr std::array<Name<Copy>, 5> kCopies{{
    {Copy::Absent, "absent"},
    {Copy::Incoming, "incoming"},
    {Copy::Running, "running"},
    {Copy::Paused, "paused"},
    {Copy::Unknown, "unknown"},
}};

/// In post-copy only the destination's copy can go on: what the source has is old. So nothing leads
/// back, and without the destination's copy, or without the pages that it waits for, the VM is
/// lost.
E recover_post_copy(CopyPair seen) {
  if (seen.source == Copy::Running) return E::Ambiguous;
  if (seen.source == Copy::Unknown || seen.destination == Copy::Unknown) return E::Ambiguous;
  if (seen.destination == Copy::Running) return E::DestinationRuns;
  if (seen.destination == Copy::Absent || seen.source == Copy::Absent) return E::Lost;
  return E::Ambiguous;  // Both are there and neither runs: the rest may come yet.
}

/// What was made from the file has not run before Committed, or before Aborting at the source. So a
/// copy that runs at the source was never ended, and none has been made at the destination.
E recover_from_file(S state, CopyPair seen) {
  if (seen.destination == Copy::Running || seen.source == Copy::Unknown) return E::Ambiguous;
  if (state == S::Restarting && seen.source != Copy::Absent) return E::Abort;
  if (seen.source == Copy::Running) return E::Ambiguous;
  return E::Loaded;  // What is left is to make it, once more if need be.
}
}  // namespace

std::string_view to_string(MigrationState value) {
  return name_of(kStates, value);
}
std::string_view to_string(MigrationEvent value) {
  return name_of(kEvents, value);
}
std::string_view to_string(Copy value) {
  return name_of(kCopies, value);
}
std::optional<MigrationState> migration_state_from(std::string_view text) {
  return value_of(kStates, text);
}
std::optional<Copy> copy_from(std::string_view text) {
  return value_of(kCopies, text);
}

std::optional<MigrationState> next(MigrationState from, MigrationEvent event) {
  for (const auto& row : kTable) {
    if (row.from == from && row.event == event) return row.to;
  }
  return std::nullopt;
}

MigrationEvent recover(MigrationState state, CopyPair seen) {
  if (state == S::Committed) return E::DestinationRuns;  // Only announcing and verifying are left.
  // Nothing was sent yet, so there is nothing at the destination that could matter.
  if (state == S::Planned || state == S::Reserved) return E::Abort;
  // The source's copy is the VM, and no other was made.
  if (state == S::Saving) return E::Abort;
  if (state == S::Restarting || state == S::Returning) return recover_from_file(state, seen);
  if (state == S::PostCopying) return recover_post_copy(seen);
  const bool source_runs = seen.source == Copy::Running;
  const bool destination_runs = seen.destination == Copy::Running;
  if (source_runs && destination_runs) return E::Ambiguous;
  if (seen.source == Copy::Unknown || seen.destination == Copy::Unknown) return E::Ambiguous;
  if (destination_runs) return E::DestinationRuns;
  if (seen.source == Copy::Absent && seen.destination == Copy::Absent) return E::Lost;
  // The source's copy is the only whole one until the destination runs; without it no step is safe.
  if (seen.source == Copy::Absent || seen.source == Copy::Incoming) return E::Ambiguous;
  if (state == S::Aborting && source_runs && seen.destination == Copy::Absent) {
    return E::SourceRuns;
  }
  return E::Abort;  // The source is whole; repeating an abort is harmless.
}

}  // namespace mare
