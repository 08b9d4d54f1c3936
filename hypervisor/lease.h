// What the driver port knows of leases: for how long a host may run VMs without hearing anything
// new. The calls are in driver.h, the rule is in docs/adr/0008.
#pragma once

#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/units.h"

namespace mare {

/// A word of mared's about the lease. It counts from the stamp, which is the agent's own: one that
/// comes late grants nothing.
struct LeaseTicket {
  std::string stamp;      // of the agent's last answer; "": only asks for one
  Milliseconds term{0};   // from the stamp on; a ticket whose stamp is older than that is void
  bool enforced = true;   // false: VMs need no lease here from now on
  std::string note = {};  // where the shared storage shows that this host is fenced
};

struct LeaseAnswer {
  std::string stamp;      // the host's clock, when it answered
  bool granted = false;   // the ticket counted
  bool enforced = false;  // VMs here need a lease now
};

}  // namespace mare
