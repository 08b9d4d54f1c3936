// What can be said about an address before a server is put on it.
#pragma once

#include <cstdint>

#include "orchestrator/core/net.h"
#include "orchestrator/core/result.h"

namespace mare::rest {

/// The address to bind, "localhost" resolved. Refuses what is not this machine's own loopback
/// unless `allow_remote`: the API speaks plain HTTP.
Result<Endpoint> checked_listen(const Endpoint& listen, bool allow_remote);

/// Binds the address for a moment; answers its port (a free one for port 0), or why it can't be
/// had.
Result<std::uint16_t> probe_port(const Endpoint& listen);

}  // namespace mare::rest
