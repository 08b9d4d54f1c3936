// Memory promised to VMs that are not domains yet: those being started, and those expected from
// other hosts. Thread-safe, no I/O.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/units.h"

namespace mare::libvirt {

class Admission {
 public:
  explicit Admission(Clock& clock) : clock_(clock) {}

  /// Claims for a VM, and answers what others had claimed at that moment. List the host's VMs
  /// *after* this and count both: of two that claim at once, the later one then sees the earlier,
  /// never neither, and the earlier is not refused because of the later.
  std::map<std::string, Bytes> claim(const std::string& uuid, Bytes memory);
  std::map<std::string, Bytes> claims();
  void release(const std::string& uuid);

 private:
  struct Claim {
    Bytes memory;
    MonotonicTime since{0};
  };
  Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Claim> claims_;  // by uuid
};

}  // namespace mare::libvirt
