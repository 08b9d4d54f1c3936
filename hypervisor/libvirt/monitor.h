// QEMU's own monitor, past libvirt, for what libvirt has no call for. libvirt marks such a domain
// as tainted (custom-monitor) and goes on as before.
#pragma once

#include <libvirt/libvirt.h>

#include <cstdint>
#include <optional>
#include <string>

#include "orchestrator/core/result.h"

namespace mare::libvirt {

/// One command; the whole reply. QEMU's refusal is Internal with its words, a VM that has ended is
/// NotFound.
Result<std::string> ask_monitor(virDomainPtr domain, const std::string& command);
/// Gives QEMU a copy of a descriptor under that name.
Status give_descriptor(virDomainPtr domain, const std::string& name, int descriptor);

/// The value of the first "key":"..." or "key":123 in a reply. Pure.
std::string text_in(const std::string& reply, const std::string& key);
std::optional<std::uint64_t> natural_in(const std::string& reply, const std::string& key);

}  // namespace mare::libvirt
