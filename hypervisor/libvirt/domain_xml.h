// A VM as libvirt's XML. Pure.
#pragma once

#include <string>
#include <string_view>

#include "hypervisor/driver.h"
#include "hypervisor/libvirt/preloads.h"

namespace mare::libvirt {

/// Marks a domain as ours; libvirt keeps it through migrations.
inline constexpr const char* kMetadataUri = "urn:mare:vm:1";

/// Marks the guest of a template.
inline constexpr const char* kTemplateUri = "urn:mare:template:1";

/// What a VM's memory is. Of its own; a template's, in a file that its clones map; or a clone's,
/// that file until it writes.
enum class Ram : std::uint8_t { Own, Template, Clone };

struct DomainOptions {
  bool accelerated = false;
  std::string bridge;
  std::string console_path;
  Preloads preloads = {};
  Ram ram = Ram::Own;
  std::string ram_file = {};  // of a template or a clone
  std::string emulator = {};  // mare-qemu, for these two
  // Told to the kernel of an emulated guest, whose counter is the machine's own. One that has to
  // find out while it boots on a busy host takes a sixth of it, and its clock runs six times too
  // fast. 0: not told.
  unsigned long tsc_khz = 0;
};

/// Text for an attribute or an element; what XML can't hold at all (control characters) is dropped.
std::string escape(std::string_view text);
std::string domain_xml(const VmSpec& vm, const DomainOptions& options);
/// The same domain for another host: its bridge, its console's file and what QEMU preloads
/// replaced; the memory of a clone is its own there.
/// "" when it has no console.
std::string retarget(const std::string& xml, const std::string& bridge, const std::string& console,
                     const Preloads& preloads);
/// So, for an emulator that maps its memory and waits for the rest of its state (Ram::Clone).
std::string retarget(const std::string& xml, const DomainOptions& options);
/// The text of the first element of that name, unescaped only as far as names and uuids need; "" if
/// there is none.
std::string text_of(const std::string& xml, const std::string& element);
/// InvalidArgument for an id or a uuid that can't be a VM's: both become names of files.
Status check_key(const VmKey& vm);

}  // namespace mare::libvirt
