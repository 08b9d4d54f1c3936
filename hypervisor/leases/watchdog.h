// The watchdog: a process of its own that ends a host's VMs when its lease is over, also when the
// agent was killed. It lives as long as a lease is enforced, one for each lease directory.
#pragma once

#include <string>

#include "orchestrator/core/log.h"
#include "orchestrator/core/result.h"

namespace mare::leases {

/// Files of a lease: DIRECTORY/record and DIRECTORY/watchdog.lock, which the watchdog holds.
struct LeasePlaces {
  std::string directory;
  std::string vm_status_directory;  // libvirtd's status files
  std::string deadman = {};         // the file of the switches in the QEMUs, "" for none
  std::string record() const { return directory + "/record"; }
  std::string lock() const { return directory + "/watchdog.lock"; }
};

/// Whether one holds the lock.
bool watchdog_lives(const LeasePlaces& places);
/// Starts one unless one lives; it outlives who started it.
Status start_watchdog(const std::string& program, const LeasePlaces& places);
/// What the program does, until no lease is enforced any more. Its exit code.
int run_watchdog(const LeasePlaces& places, Log& log);

}  // namespace mare::leases
