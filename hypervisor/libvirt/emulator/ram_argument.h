// What mare-qemu changes in libvirt's command line for QEMU. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/result.h"

namespace mare::libvirt {

/// The environment variable that carries a RamFile to mare-qemu: "shared:" or "private:" and the
/// file's name.
inline constexpr const char* kRamVariable = "MARE_RAM";

/// A file that is a guest's RAM: a template's writes go into it, a clone's stay its own.
struct RamFile {
  bool shared = false;
  std::string path;  // absolute
};
std::string to_text(const RamFile& file);
/// InvalidArgument for what is no such text.
Result<RamFile> ram_file_from(std::string_view text);

/// The arguments with libvirt's main RAM as a mapping of that file. Its id stays, and with it its
/// name in migrations and its place as QEMU's first block. FailedPrecondition when there is not
/// exactly one such object: then this libvirt writes its command line in another way.
Result<std::vector<std::string>> with_ram_file(std::vector<std::string> arguments,
                                               const RamFile& file);

}  // namespace mare::libvirt
