// A strategy as what libvirt is asked for. Pure.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hypervisor/dirtylog/tcp_queues.h"
#include "hypervisor/driver.h"
#include "hypervisor/libvirt/route.h"

namespace mare::libvirt {

/// The flags of virDomainMigrateToURI3 and its named parameters, with libvirt's own types.
struct MigrateCall {
  using Value = std::variant<int, unsigned long long, std::string>;
  unsigned flags = 0;
  std::vector<std::pair<const char*, Value>> parameters;
};

/// `xml`: the domain as the destination is to have it, "" if it needs no change.
MigrateCall call_for(const MigrationTicket& ticket, const Route& route, const std::string& xml);
/// Takes up a post-copy that broke.
MigrateCall call_to_mend(const MigrationTicket& ticket, const Route& route);

/// So many connections fill the link.
int connections(const Sending& sending);
/// What the destination does with what comes by them.
dirtylog::Reader reader_of(const Sending& sending);
/// May this migration be switched to post-copy?
bool may_post_copy(const Sending& sending);
/// Did it fail since the VM's QEMU can't be told how fast its last round will be sent?
bool refuses_switchover_bandwidth(const Sending& sending, const std::string& error);
/// What to do about a migration that failed with these words of QEMU's or libvirt's; "": unknown.
std::string remedy_for(const Route& route, const std::string& error);
/// libvirt counts in whole MiB/s and takes 0 for no limit.
unsigned long long mebibytes_per_s(BytesPerSecond rate);
/// The wait of a guest that was at `place` so long after the last whole round was over.
Milliseconds wait_of(const SweepSwitch& how, double place, std::chrono::nanoseconds since);
/// From when it was at `place` until what then takes `rest` had best go on, so that it is at the
/// best place when that is over; 0 if that is longer than the longest hold.
std::chrono::nanoseconds hold_of(const SweepSwitch& how, double place,
                                 std::chrono::nanoseconds rest);
/// Refuses knobs that libvirt or QEMU would misread.
Status check(const Sending& sending);

}  // namespace mare::libvirt
