// A host's lease as its driver holds it: takes mared's words, keeps the watchdog alive, and ends
// the VMs itself as the watchdog would.
//
// Threads: any; one of its own. An agent that is started again finds the lease in its file.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "hypervisor/lease.h"
#include "hypervisor/leases/deadman.h"
#include "hypervisor/leases/enforcer.h"
#include "hypervisor/leases/watchdog.h"

namespace mare::leases {

/// Pure: what a ticket comes to.
struct Renewal {
  LeaseAnswer answer;
  std::optional<LeaseRecord> record;  // to be kept, when it was granted
};
/// `longest`: 0 leaves the term to mared, else no longer one is taken.
Renewal renew(const LeaseTicket& ticket, const LeaseRecord& before, const std::string& boot,
              MonotonicTime now, Milliseconds longest);

struct HostLeaseOptions {
  LeasePlaces places;
  std::string watchdog;  // the program
  Milliseconds longest{0};
};

class HostLease {
 public:
  HostLease(HostLeaseOptions options, Log& log);
  ~HostLease();
  HostLease(const HostLease&) = delete;
  HostLease& operator=(const HostLease&) = delete;

  /// Makes the directory, and begins to enforce what the file says.
  Status open();
  Result<LeaseAnswer> renew(const LeaseTicket& ticket);
  /// FailedPrecondition when no VM may be made or go on here.
  Status check() const;

 private:
  void run();
  void step();

  const HostLeaseOptions options_;
  Log& log_;
  const std::string boot_;
  const RecordFile file_;
  const std::unique_ptr<Clock> clock_;
  const std::unique_ptr<StorageVoice> storage_;
  std::optional<Deadman> deadman_;
  std::mutex stepping_;
  Enforcer enforcer_;
  std::mutex renewing_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace mare::leases
