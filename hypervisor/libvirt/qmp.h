// What libvirt has no call for, asked of QEMU itself through libvirt: templates and clones.
#pragma once

#include <libvirt/libvirt.h>

#include <string>
#include <string_view>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/result.h"

namespace mare::libvirt {

/// As JSON writes it, with its quotes. Pure.
std::string json_text(std::string_view text);
/// The word after "status" in query-migrate's answer, "" if there is none. Pure.
std::string migration_status(const std::string& answer);

/// Writes what is no RAM of a paused VM to a new file, and returns when it is there.
Status save_devices(virDomainPtr domain, const std::string& path, Clock& clock);
/// Into a VM that was started with "-incoming defer" and the same RAM. It is paused then, and as
/// any other.
Status load_devices(virDomainPtr domain, const std::string& path, Clock& clock);

}  // namespace mare::libvirt
