// The guest port over the network: a client of mare-guestd (images/guest/protocol.h).
//
// One connection a guest is kept open and used by one call at a time; a broken one is made anew
// once, since every verb used here is idempotent. Threads: any. A call blocks for at most twice the
// call timeout and once the connect timeout, and waits for calls before it to the same guest.
#pragma once

#include <memory>

#include "hypervisor/guest_port.h"
#include "orchestrator/core/log.h"

namespace mare::guestlink {

struct GuestLinkOptions {
  std::uint16_t port = 7411;
  Milliseconds connect_timeout{2'000};
  Milliseconds call_timeout{5'000};
  Milliseconds idle_timeout{300'000};  // below the guest's own (MARE_GUEST_IDLE_TIMEOUT_S)
  std::size_t kept_connections = 512;  // beyond it, the longest unused one is closed
};

std::unique_ptr<GuestPort> make_guest_port(Clock& clock, Log& log, const GuestLinkOptions& options);

}  // namespace mare::guestlink
