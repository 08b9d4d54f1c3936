#include "hypervisor/libvirt/emulator/ram_argument.h"

#include <nlohmann/json.hpp>

namespace mare::libvirt {
namespace {

constexpr std::string_view kShared = "shared:";
constexpr std::string_view kPrivate = "private:";
constexpr const char* kMainRam = "pc.ram";

/// libvirt's object for the main RAM, or nothing.
nlohmann::json main_ram(const std::string& text) {
  auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object() || object.value("id", "") != kMainRam) return {};
  return object.value("qom-type", "") == "memory-backend-ram" ? object : nlohmann::json{};
}

}  // namespace

std::string to_text(const RamFile& file) {
  return std::string(file.shared ? kShared : kPrivate) + file.path;
}

Result<RamFile> ram_file_from(std::string_view text) {
  for (const auto kind : {kShared, kPrivate}) {
    if (!text.starts_with(kind)) continue;
    const std::string path(text.substr(kind.size()));
    if (path.starts_with('/')) return RamFile{kind == kShared, path};
  }
  return make_error(Code::InvalidArgument,
                    std::string(kRamVariable) + "='" + std::string(text) + "' is no RAM",
                    "give shared: or private: and an absolute file name");
}

Result<std::vector<std::string>> with_ram_file(std::vector<std::string> arguments,
                                               const RamFile& file) {
  int found = 0;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] != "-object") continue;
    auto object = main_ram(arguments[i + 1]);
    if (object.is_null()) continue;
    object["qom-type"] = "memory-backend-file";
    object["mem-path"] = file.path;
    object["share"] = file.shared;
    if (!file.shared) {
      // Whatever QEMU does to its RAM, discards included, the file is other clones' memory, too.
      object["readonly"] = true;
      object["rom"] = "off";
    }
    arguments[i + 1] = object.dump();
    ++found;
  }
  if (found == 1) return arguments;
  return make_error(Code::FailedPrecondition,
                    "libvirt's command line has " + std::to_string(found) + " objects " + kMainRam,
                    "VMs start by booting with mared --no-clones");
}

}  // namespace mare::libvirt
