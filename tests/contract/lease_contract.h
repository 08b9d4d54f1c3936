// Leases of hosts. Apart from the others: the end of a lease is the end of all VMs on its host.
#pragma once

#include "tests/contract/driver_contract.h"

namespace mare::contract {

class HostLeases : public DriverContract {
 protected:
  static constexpr Milliseconds kTerm{2000};

  void SetUp() override;
  void TearDown() override;

  LeaseAnswer say(const std::string& stamp, bool enforced = true);
  std::string stamp() { return say("").stamp; }
  /// mared's word, from a stamp that was just asked for.
  bool renew(bool enforced = true) { return say(stamp(), enforced).granted; }
  void let_pass(Milliseconds time) { hosts().wait(time); }

  std::string note;
};

}  // namespace mare::contract
