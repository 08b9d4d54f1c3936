// How much waits to be sent in another process's TCP connections.
//
// The kernel takes megabytes from a program long before they leave. For a migration that is harm:
// what the VM's last round sends stands behind them while the VM stands still, a page that the
// destination's guest waits for does too, and the hypervisor takes filling a buffer for bandwidth.
// So a sending QEMU's connections get a limit of their own (TCP_NOTSENT_LOWAT). Linux only.
#pragma once

#include <set>
#include <string>

#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::dirtylog {

/// What a link carries in 10 ms, at least 128 KiB and at most 1 MiB: a busy sender is late by some
/// milliseconds, and a link that idles meanwhile is lost time. 256 KiB for a link of unknown rate
/// (0). Pure.
Bytes unsent_limit(BytesPerSecond link);

class SendQueues {
 public:
  /// NotFound if there is no such process.
  static Result<SendQueues> open(pid_t pid);

  /// Bounds the connections that this has not seen before; how many those were. Unavailable
  /// without CAP_SYS_PTRACE.
  Result<int> bound(Bytes limit);

 private:
  explicit SendQueues(Process process) : process_(std::move(process)) {}
  Process process_;
  std::set<std::string> seen_;  // "socket:[inode]"
};

}  // namespace mare::dirtylog
