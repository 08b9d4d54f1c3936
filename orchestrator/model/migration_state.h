// The life of a migration (stages of Clark et al., NSDI'05) and the one pure function that decides,
// after any crash, what is true of it. Post-copy has a state of its own: it can't go back.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mare {

enum class MigrationState : std::uint8_t {
  Planned,      // checked and accepted; nothing reserved
  Reserved,     // memory at the destination is accounted for
  PreCopying,   // the source was or will be told to send; the VM runs at the source
  Switching,    // the source's copy was seen paused for the last round; can't be cancelled
  PostCopying,  // the destination's copy runs on pages that are still at the source; VM.host names
                // it, and there is no way back: the source's copy is never resumed
  Saving,      // the source's copy stands still, or will, and its state goes into a file; that copy
               // is the VM, and goes on there if this is given up
  Restarting,  // the file is the VM: the source's copy is ended, and only then the destination's is
               // made from the file, which stands still
  Returning,   // the destination can't make it: the source's is made from the file again
  Committed,   // the destination's copy is whole and needs nothing more; VM.host names it. It runs,
               // but one that was made from a file is only now told to
  Aborting,    // giving up: the destination's copy goes first, then the source goes on
  Done,        // announced and verified
  Failed,      // the VM runs at the source as before, or it is lost: its row tells which
  NeedsOperator,  // what was observed allows no safe step
};

enum class MigrationEvent : std::uint8_t {
  Reserve,          // room was found at the destination
  StartPreCopy,     // intent to send
  Switch,           // the source's copy paused
  PostCopy,         // the destination's copy runs, its pages follow
  Save,             // intent to stop it and to write its state into a file
  EndSource,        // the file is whole: intent to end the source's copy
  Return,           // intent to make it from the file at the source again
  Loaded,           // a copy was made from the file: the only one, and it has not run
  DestinationRuns,  // the destination's copy runs, the source's is gone
  Announced,        // ARP sent, guest verified
  Abort,            // refused, failed or cancelled
  SourceRuns,       // the source's copy runs, the destination's is gone
  Reconsider,       // the same, and it is to be begun anew: it had gone far beyond its forecast
  Lost,             // no copy is left that could ever run
  Ambiguous,        // two copies, or nobody can tell
};

/// Where one host's copy of a VM stands. A silent host is Unknown, not Absent.
enum class Copy : std::uint8_t {
  Absent,
  Incoming,  // being received; has not run
  Running,
  Paused,
  Unknown,
};

/// Both hosts' copies, read at about the same time with no migration job running at the source.
struct CopyPair {
  Copy source = Copy::Unknown;
  Copy destination = Copy::Unknown;
};

std::string_view to_string(MigrationState value);
std::string_view to_string(MigrationEvent value);
std::string_view to_string(Copy value);
std::optional<MigrationState> migration_state_from(std::string_view text);
std::optional<Copy> copy_from(std::string_view text);

constexpr bool is_final(MigrationState state) {
  return state == MigrationState::Done || state == MigrationState::Failed ||
         state == MigrationState::NeedsOperator;
}

/// The table; nothing when the event makes no sense in that state. Pure.
std::optional<MigrationState> next(MigrationState from, MigrationEvent event);

/// What a migration found in `state` must be told, from what both hosts show. Total and pure.
/// Never called while the source still sends: the engine waits for that job to end first. (A
/// post-copy that broke and may be mended still sends.)
MigrationEvent recover(MigrationState state, CopyPair seen);

}  // namespace mare
