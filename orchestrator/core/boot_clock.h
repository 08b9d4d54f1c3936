// A clock for deadlines that several processes of one machine share, and that go on while it
// sleeps.
#pragma once

#include "orchestrator/core/clock.h"

namespace mare {

/// now() is the time since the machine's boot, its sleep included: the same in every process, and
/// after the sleep later than before by all of it.
class BootClock final : public Clock {
 public:
  MonotonicTime now() const override;
  WallTime wall_now() const override;
  void sleep_for(std::chrono::nanoseconds duration) override;
};

/// Differs after every boot; "" where the kernel does not tell.
std::string boot_id();

}  // namespace mare
