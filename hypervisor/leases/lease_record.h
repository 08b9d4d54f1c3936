// What was said last of this host's lease, in a file of its own: the agent writes it, the watchdog
// reads it, and an agent that is started anew finds it. All times are of BootClock; a file of
// another boot is none.
//
// The file has one size from its beginning on, so that a full disk can't keep a renewal out, and is
// written in place; a reader that meets half of a write sees it by the checksum.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::leases {

struct LeaseRecord {
  bool enforced = false;
  Milliseconds term{0};
  MonotonicTime said_until{0};  // mared's word counts so long
  std::string note = {};        // a path, no line breaks
  bool operator==(const LeaseRecord&) const = default;
};

/// Longer notes do not fit.
inline constexpr std::size_t kLongestNote = 1500;

/// Pure: the file's text, and back. Nothing when it is of another boot or damaged.
std::string record_text(const LeaseRecord& record, const std::string& boot);
std::optional<LeaseRecord> record_from(const std::string& text, const std::string& boot);

class RecordFile {
 public:
  RecordFile(std::string path, std::string boot) : path_(std::move(path)), boot_(std::move(boot)) {}
  Status write(const LeaseRecord& record) const;
  /// Not enforced when there is no file, or none of this boot. Unavailable when it can't be read.
  Result<LeaseRecord> read() const;

 private:
  const std::string path_;
  const std::string boot_;
};

}  // namespace mare::leases
