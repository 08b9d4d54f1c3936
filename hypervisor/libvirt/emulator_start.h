// How long an emulator takes to start on this host, which is most of what goes by before the first
// page of a move to it: so a forecast has an idea of that before anything was moved.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
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
  /// Some are timed when it begins, then one in each of these, at first by the shorter.
  struct Pace {
    Milliseconds soon{20'000};
    Milliseconds later{600'000};
  };

  EmulatorStart() : EmulatorStart(Pace{}) {}
  explicit EmulatorStart(Pace pace) : pace_(pace) {}
  /// Waits for a start that is under way.
  ~EmulatorStart();
  EmulatorStart(const EmulatorStart&) = delete;
  EmulatorStart& operator=(const EmulatorStart&) = delete;

  /// Times some of them on a thread of its own, from the second on only while `moves_nothing`; once
  /// in its life. Clock, log and what the question is about must outlive it.
  void begin(const std::string& emulator, bool accelerated, const Clock& clock, Log& log,
             std::function<bool()> moves_nothing);
  /// The quickest of them: what a host takes that does nothing else. 0: none has ended yet.
  Microseconds quickest() const { return Microseconds{quickest_us_.load()}; }

 private:
  bool waits(Milliseconds span);
  bool times(const std::string& emulator, bool accelerated, const Clock& clock, Log& log);

  const Pace pace_;
  std::atomic<std::int64_t> quickest_us_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // under the mutex
  std::thread thread_;
};

}  // namespace mare::libvirt
