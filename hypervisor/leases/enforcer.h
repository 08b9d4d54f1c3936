// Ends a host's VMs when neither mared nor the shared storage has said within the term that they
// may run (docs/adr/0008). Two of them run for a host, in the agent and in the watchdog; both know
// the same and do the same, so that either is enough.
//
// Threads: step() from one at a time, the rest from any. Keeps nothing that a restart would lose:
// the record is a file, and the storage is asked again.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "hypervisor/leases/fence_notes.h"
#include "hypervisor/leases/lease_record.h"
#include "orchestrator/core/log.h"

namespace mare::leases {

/// Between two looks; a fence waits for mared's margin (1 s), in which some of them fit.
inline constexpr std::chrono::milliseconds kLookEvery{50};
/// A process that did not run for a while has not asked the storage either: before it judges it
/// asks once more, and waits so long for the answer.
inline constexpr std::chrono::milliseconds kLastAnswer{100};

/// Asks the storage without ever blocking who wants to know.
class StorageVoice {
 public:
  struct Answer {
    std::string note;
    MonotonicTime asked{0};
    NoteSeen seen = NoteSeen::Unknown;
  };
  virtual ~StorageVoice() = default;
  /// Nothing happens while a question is open.
  virtual void ask(const std::string& note, MonotonicTime now) = 0;
  /// What was answered since the last call.
  virtual std::optional<Answer> take() = 0;
};

/// What the lease depends on and what it does; tests give their own.
struct Surroundings {
  std::function<Result<LeaseRecord>()> record;
  std::function<int()> end_all;  // ends every VM of ours here, and says how many there were
  /// Told with every step until when the lease runs by what is known now; nothing: there is none.
  std::function<void(std::optional<MonotonicTime>)> runs_until = {};
};

class Enforcer {
 public:
  Enforcer(const Clock& boot_clock, Log& log, Surroundings around, StorageVoice& storage)
      : clock_(boot_clock), log_(log), around_(std::move(around)), storage_(storage) {}

  void step();
  /// Whether a VM may be made or go on here now.
  bool may_run() const;
  /// As the last look found it.
  bool enforced() const;

 private:
  void tell() const;
  void hear_storage(MonotonicTime now);
  bool is_over(MonotonicTime now);

  const Clock& clock_;
  Log& log_;
  const Surroundings around_;
  StorageVoice& storage_;
  mutable std::mutex mutex_;
  LeaseRecord record_;
  MonotonicTime storage_until_{0};
  std::optional<MonotonicTime> late_since_;
  bool denied_since_late_ = false;
};

}  // namespace mare::leases
