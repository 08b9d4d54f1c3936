// Where VMs go. Pure arithmetic on values: the engine reads the rows, this decides, the engine
// commits.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"
#include "orchestrator/model/entities.h"

namespace mare::policy {

/// What a host has left.
struct Room {
  HostId host;
  Bytes free;
  Bytes vm_overhead;  // added to each VM's memory on that host
  int vms = 0;        // that count against it now
};

struct Claim {
  HostId host;
  Bytes memory;
};

/// Hosts that may take VMs: Active and Up, in `allowed` unless that is empty, not `except`.
/// `claims` is memory promised by running operations (reservations).
std::vector<Room> rooms(const std::vector<Host>& hosts, const std::vector<Vm>& vms,
                        const std::vector<Claim>& claims, const std::vector<HostId>& allowed,
                        const std::optional<HostId>& except);

/// Spreads: the host with the fewest VMs that has room, then the one with most memory free, then by
/// name. ResourceExhausted tells what was asked and what the best host has.
Result<HostId> place(const std::vector<Room>& rooms, Bytes memory);

/// Hosts that a project's VMs are on, and how many these may become.
struct HostCap {
  std::set<HostId> used;
  std::size_t most = 0;
};
/// Of these rooms the ones where one more VM of the project may go.
std::vector<Room> within(std::vector<Room> rooms, const HostCap& cap);

struct Placing {
  std::vector<HostId> hosts;     // of the VMs that fit, in order
  std::optional<Error> refusal;  // of the first that does not
};
/// Hosts for `count` VMs of this size, or for as many as fit.
Placing place_most(std::vector<Room> rooms, Bytes memory, int count,
                   std::optional<HostCap> cap = {});

/// Hosts for VMs of these sizes, in order; all or an error that tells which one did not fit.
Result<std::vector<HostId>> place_all(std::vector<Room> rooms, const std::vector<Bytes>& memories);

}  // namespace mare::policy
