// What a QEMU loads besides itself, and what is told to it so. Pure.
#pragma once

#include <string>

namespace mare::libvirt {

struct Preloads {
  std::string dirty_log = {};     // libmare-dirtylog.so, "" for none
  std::string deadman = {};       // libmare-deadman.so, "" for none
  std::string deadman_file = {};  // its file (hypervisor/leases/deadman.h)
  bool operator==(const Preloads&) const = default;
};

/// LD_PRELOAD's value, "" for none.
inline std::string libraries_of(const Preloads& preloads) {
  const char* between = preloads.dirty_log.empty() || preloads.deadman.empty() ? "" : ":";
  return preloads.dirty_log + between + preloads.deadman;
}

/// Whether ld.so can be told that name: it takes both characters for its end.
inline bool can_preload(const std::string& library) {
  return library.find_first_of(" :") == std::string::npos;
}

}  // namespace mare::libvirt
