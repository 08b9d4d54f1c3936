// A VM as libvirt's XML. Pure.
#pragma once

#include <string>
#include <string_view>

#include "hypervisor/driver.h"

namespace mare::libvirt {

/// Marks a domain as ours; libvirt keeps it through migrations.
inline constexpr const char* kMetadataUri = "urn:mare:vm:1";

struct DomainOptions {
  bool accelerated = false;
  std::string bridge;
  std::string console_path;
};

/// Text for an attribute or an element; what XML can't hold at all (control characters) is dropped.
std::string escape(std::string_view text);
std::string domain_xml(const VmSpec& vm, const DomainOptions& options);
/// The same domain with its console's path replaced; "" when there is no such element.
std::string with_console(const std::string& xml, const std::string& path);

}  // namespace mare::libvirt
