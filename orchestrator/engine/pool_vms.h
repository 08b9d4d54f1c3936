// The rows of a pool's VMs: what making a pool and letting it grow have in common.
#pragma once

#include <vector>

#include "orchestrator/engine/context.h"

namespace mare::engine {

inline constexpr int kMostVms = 1024;  // of one pool

/// The lowest free addresses of the subnet; fewer than `count` if it has no more.
Result<std::vector<Ipv4Address>> free_addresses(const store::Reader& reader,
                                                const Settings& settings, int count);
Error too_few_addresses(const Settings& settings, std::size_t have, int need);

/// Rows of VMs that run nowhere yet, one for each index, with the address of the same place.
Status add_vms(store::Transaction& tx, const Clock& clock, const Pool& pool,
               const std::vector<int>& indices, const std::vector<Ipv4Address>& addresses);

}  // namespace mare::engine
