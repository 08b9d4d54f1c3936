// Samples a guest's echo by UDP in a thread of its own.
#pragma once

#include <memory>

#include "hypervisor/guest_port.h"

namespace mare::guestlink {

Result<std::unique_ptr<GuestProbe>> start_udp_probe(Ipv4Address ip, std::uint16_t port,
                                                    Microseconds period, Clock& clock);

}  // namespace mare::guestlink
