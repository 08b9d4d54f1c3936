// How much waits to be sent in another process's TCP connections.
//
// The kernel takes megabytes from a program long before they leave. For a migration that is harm:
// what the VM's last round sends stands behind them while the VM stands still, a page that the
// destination's guest waits for does too, and the hypervisor takes filling a buffer for bandwidth.
// So a sending QEMU's connections get a limit of their own (TCP_NOTSENT_LOWAT).
//
// On their way out of the host they also let others pass (SO_PRIORITY): a message of a rank or a
// request to the shared root that waits behind 20 ms of pages costs the job more than the pages'
// move gains by those. Linux only.
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

/// The host sends what all others have first, where its queueing discipline goes by priorities
/// (pfifo_fast, prio; a fair queue needs no telling).
void give_way(int socket);

class SendQueues {
 public:
  /// NotFound if there is no such process.
  static Result<SendQueues> open(pid_t pid);

  /// Bounds the connections that this has not seen before, and has them give way; how many those
  /// were. Unavailable without CAP_SYS_PTRACE.
  Result<int> bound(Bytes limit);

 private:
  explicit SendQueues(Process process) : process_(std::move(process)) {}
  Process process_;
  std::set<std::string> seen_;  // "socket:[inode]"
};

}  // namespace mare::dirtylog
