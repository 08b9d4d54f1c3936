// Bounds what waits to be read in the connections of QEMUs that VMs come to.
//
// libvirt starts such a QEMU whenever the source asks for it, and its source connects one channel
// after the other: nothing tells when. So a thread of its own looks, while a VM is expected.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "hypervisor/dirtylog/tcp_queues.h"
#include "hypervisor/driver.h"
#include "orchestrator/core/log.h"

namespace mare::libvirt {

class IncomingQueues {
 public:
  /// Each is asked on the thread of its own.
  struct Host {
    std::function<Result<pid_t>(const VmKey& vm)> find;
    /// Is it still to come?
    std::function<bool(const std::string& uuid)> expected;
    /// What the link to this host was measured to carry last; 0: unknown.
    std::function<BytesPerSecond()> link;
  };

  IncomingQueues(Host host, Clock& clock, Log& log);
  ~IncomingQueues();
  IncomingQueues(const IncomingQueues&) = delete;
  IncomingQueues& operator=(const IncomingQueues&) = delete;

  /// Until it has come or is not expected any more, and once more then; or did not begin to come
  /// within 10 min. It fills the link with so many connections; `more` may come when it is to run
  /// here before its pages do (post-copy).
  void expect(const VmKey& vm, int connections, dirtylog::Reader reader, bool more);

 private:
  struct Coming {
    VmKey vm;
    int connections = 1;
    dirtylog::Reader reader = dirtylog::Reader::Copies;
    bool more = false;
    MonotonicTime since{0};
    int bounded = 0;
    std::optional<dirtylog::TcpQueues> queues;
    /// Channels that unpack come beside one of the VM's own.
    bool all_there() const {
      const int all = connections + (reader == dirtylog::Reader::Unpacks ? 1 : 0);
      return !more && bounded >= all;
    }
  };
  void look_after_them();
  /// False when there is nothing left to do for it.
  bool look_after(Coming& coming);

  const Host host_;
  Clock& clock_;
  Log& log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::map<std::string, Coming> expected_;  // by uuid; new ones, for the thread to take
  std::thread thread_;
};

}  // namespace mare::libvirt
