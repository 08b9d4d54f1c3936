// What goes wrong in a campaign, and what puts it right again. One object a seed.
#pragma once

#include <map>

#include "tests/sim/sim_world.h"

namespace mare::test {

class Faults {
 public:
  /// Draws how rough this seed's world is.
  explicit Faults(SimWorld& world);

  /// One fault now, or none.
  void strike();
  /// Ends every fault: hosts up, networks whole, no more chance of any.
  void heal();
  /// How many of each kind there were, for the report.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  HostId some_host();
  /// A VM with a copy somewhere; empty if there is none.
  VmId some_vm();
  void host_fault();
  void vm_fault();

  SimWorld& world_;
  Rng& rng_;
  std::map<HostId, MonotonicTime> busy_until_;  // one outage of a host at a time
  std::map<HostId, MonotonicTime> dead_since_;
  std::map<std::string, int> counts_;
};

}  // namespace mare::test
