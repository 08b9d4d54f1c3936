// How long an emulator takes to start on this host, which is most of what goes by before the first
// page of a move to it: so a forecast has an idea of that before anything was moved.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/log.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::libvirt {

/// From the order to start an emulator without a guest, of a VM's kind of machine, until it has
/// ended as it was told to on its monitor. Unavailable: it can't be started, or failed, or took
/// longer than `patience` and was killed.
Result<Microseconds> time_start(const std::string& emulator, bool accelerated, const Clock& clock,
                                Milliseconds patience = Milliseconds{10'000});

class EmulatorStart {
 public:
  EmulatorStart() = default;
  /// Waits for a start that is under way.
  ~EmulatorStart();
  EmulatorStart(const EmulatorStart&) = delete;
  EmulatorStart& operator=(const EmulatorStart&) = delete;

  /// Times some of them on a thread of its own; once in its life. Clock and log must outlive it.
  void begin(const std::string& emulator, bool accelerated, const Clock& clock, Log& log);
  /// The quickest of them: what a host takes that does nothing else. 0: none has ended yet.
  Microseconds quickest() const { return Microseconds{quickest_us_.load()}; }

 private:
  std::atomic<std::int64_t> quickest_us_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace mare::libvirt
