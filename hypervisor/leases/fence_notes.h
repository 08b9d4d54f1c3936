// Fence notes: files on the shared storage that say that a host is fenced. One host writes
// another's.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/core/result.h"

namespace mare::leases {

enum class NoteSeen : std::uint8_t {
  Absent,   // the storage answered just now, and has no such note
  Present,  // the host is fenced
  Unknown,  // the storage, or the notes' directory on it, is not there
};

/// Asks the storage and not its client's memory of it; blocks for as long as it hangs.
NoteSeen look_for_note(const std::string& note);
/// Makes the notes' directory if the directory that it is in is there: what is not mounted is not
/// made.
Status make_room_for_notes(const std::string& note);
/// Durable when it returns; ok if it is there.
Status put_note(const std::string& note);
/// Ok if there is none.
Status remove_note(const std::string& note);

}  // namespace mare::leases
