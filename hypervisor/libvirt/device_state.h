// The state of a VM but for its RAM: what of a template is not in the file that clones map.
#pragma once

#include <libvirt/libvirt.h>

#include <cstdint>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"

namespace mare::libvirt {

/// Writes what is no RAM of a paused VM to a new file, and returns when it is there.
Status save_devices(virDomainPtr domain, const std::string& path, Clock& clock);
/// Into a VM that was started with "-incoming defer" and the same RAM. It is paused then, and as
/// any other.
Status load_devices(virDomainPtr domain, const std::string& path, Clock& clock);
/// As that, of a stream that was made as any other and only lacks the pages of the RAM; it begins
/// so far into the file.
Status load_stream(virDomainPtr domain, const std::string& path, std::uint64_t from, Clock& clock);

}  // namespace mare::libvirt
