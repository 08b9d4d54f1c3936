// Until when a host's VMs may run at the latest, for the dead man's switch in each of its QEMUs
// (preload/deadman_preload.c): a timer of the kernel that ends the process unless it is put off,
// also when agent and watchdog were killed, or all of the host's processes were stopped.
//
// The file has three words of 8 bytes, in the host's order: "DEADMAN1", the agent's, and the
// watchdog's. A word is a time of CLOCK_BOOTTIME in ns; 0 says nothing, the largest: for ever. The
// later of the two counts, as either of them is enough to keep VMs running.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/result.h"

namespace mare::leases {

enum class DeadmanVoice : std::uint8_t { Agent = 1, Watchdog = 2 };

/// The switch fires so long after the lease, where the agent and the watchdog have had their time
/// (kLookEvery, kLastAnswer) and mared still waits for its margin (1 s).
inline constexpr std::chrono::milliseconds kDeadmanAfter{400};

class Deadman {
 public:
  /// Makes the file, and its directory, where there is none; what is in it stays. The file should
  /// be on a tmpfs: a word must not wait for a disk. Unavailable when it can't be made.
  static Result<Deadman> open(const std::string& path, DeadmanVoice voice);

  /// Until when the lease lasts by what this voice knows. Without a lease the agent's word is "for
  /// ever", and the watchdog has nothing to say. Thread-safe: a word is written at once.
  void say(std::optional<MonotonicTime> lease) const;
  /// What was said last by a process that is gone.
  void forget(DeadmanVoice voice) const;

 private:
  struct Unmap {
    void operator()(std::uint64_t* words) const;
  };
  Deadman(std::unique_ptr<std::uint64_t, Unmap> words, DeadmanVoice voice)
      : words_(std::move(words)), voice_(voice) {}
  void write(DeadmanVoice voice, std::uint64_t word) const;

  std::unique_ptr<std::uint64_t, Unmap> words_;
  DeadmanVoice voice_;
};

/// None where there is no path; none and a warning where it can't be opened: VMs run without their
/// switches then, and a lease is worth what agent and watchdog are.
std::optional<Deadman> deadman_at(const std::string& path, DeadmanVoice voice, Log& log);

}  // namespace mare::leases
