#include "hypervisor/libvirt/starting.h"

#include <libvirt/libvirt.h>

#include <filesystem>
#include <system_error>

#include "hypervisor/libvirt/capture_file.h"
#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/device_state.h"
#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

Status check_files(const VmSpec& vm) {
  std::error_code ignored;
  for (const auto& path : {vm.kernel, vm.initrd}) {
    if (std::filesystem::exists(path, ignored)) continue;
    return make_error(Code::FailedPrecondition, "the image's file " + path + " is not on this host",
                      "images must be under the same path on every host");
  }
  return ok_status();
}

}  // namespace

Preloads Starting::preloads() const {
  return {parts_.watching.preload(), options_.deadman_library, options_.deadman_file};
}

DomainOptions Starting::options(const VmId& vm) const {
  DomainOptions out{accelerated_, options_.bridge, parts_.consoles.path(vm), preloads()};
  out.emulator = options_.emulator;
  out.tsc_khz = tsc_khz_;
  return out;
}

Status Starting::boot(const VmSpec& vm) {
  if (auto files = check_files(vm); !files) return files;
  auto connection = parts_.connection.get();
  if (!connection) return connection.error();
  if (auto begun = parts_.consoles.begin(vm.key()); !begun) return begun;
  const std::string xml = domain_xml(vm, options(vm.id));
  const DomainHandle made{virDomainCreateXML(connection->get(), xml.c_str(), VIR_DOMAIN_NONE)};
  if (made) return ok_status();
  return last_error("VM '" + vm.id.value + "' can't be started");
}

Status Starting::clone(const VmSpec& vm, const TemplateSpec& from, const std::string& hypervisor) {
  const auto files = parts_.templates.find(from, hypervisor);
  if (!files) {
    return make_error(Code::NotFound, "host '" + options_.host_name +
                                          "' has no template that VM '" + vm.id.value +
                                          "' could be a clone of");
  }
  if (auto begun = parts_.consoles.begin(vm.key()); !begun) return begun;
  DomainOptions how = options(vm.id);
  how.ram = Ram::Clone;
  how.ram_file = files->ram;
  VmSpec clone = vm;
  clone.memory = from.memory;
  clone.vcpus = from.vcpus;
  const auto load = [&](virDomainPtr domain) { return load_devices(domain, files->state, clock_); };
  auto loaded = launch(vm, {domain_xml(clone, how), from.memory, load, true});
  return loaded ? loaded : Status(loaded.error().during("clone of VM '" + vm.id.value + "'"));
}

Status Starting::map(const VmSpec& vm, const StandbyFiles& from) {
  auto saved = read_save_header(from.state);
  if (!saved) return saved.error();
  if (text_of(saved->xml, "uuid") != vm.uuid) {
    return make_error(Code::FailedPrecondition, "what is kept is of another VM");
  }
  if (auto begun = parts_.consoles.begin(vm.key()); !begun) return begun;
  DomainOptions how = options(vm.id);
  how.ram = Ram::Clone;
  how.ram_file = from.memory;
  const auto load = [&](virDomainPtr domain) {
    return load_stream(domain, from.state, saved->stream_at, clock_);
  };
  return launch(vm, {retarget(saved->xml, how), vm.memory, load, false});
}

/// A domain that maps its memory and waits for the rest; nothing is left of one that gets none.
Status Starting::launch(const VmSpec& vm, const Launch& how) {
  auto connection = parts_.connection.get();
  if (!connection) return connection.error();
  const DomainHandle made{
      virDomainCreateXML(connection->get(), how.xml.c_str(), VIR_DOMAIN_START_PAUSED)};
  if (!made) return last_error("VM '" + vm.id.value + "' can't be started");
  Status loaded = how.load(made.get());
  if (auto pid = find_qemu(pid_directory(options_.uri), vm.key())) {
    parts_.watching.prepare({*pid, how.memory});
  }
  if (loaded && how.runs && virDomainResume(made.get()) != 0) loaded = last_error("it can't go on");
  if (loaded) return loaded;
  const Error why = loaded.error();
  if (virDomainDestroyFlags(made.get(), VIR_DOMAIN_DESTROY_DEFAULT) == 0) return why;
  const Error left = last_error("what is left of it can't be ended");
  if (left.code == Code::NotFound) return why;
  return make_error(Code::OutcomeUnknown, why.message + "; " + left.message);
}

Status Starting::restore(const VmSpec& vm, const std::string& path, unsigned how) {
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) {
    return make_error(Code::NotFound, "no file " + path + " is on this host");
  }
  // A connection of its own: reading the memory takes long.
  auto connection = open_connection(options_.uri);
  if (!connection) return connection.error();
  const std::string xml =
      take_text(virDomainSaveImageGetXMLDesc(connection->get(), path.c_str(), 0));
  if (xml.empty()) return last_read_error(path + " can't be read");
  if (text_of(xml, "uuid") != vm.uuid) {
    return make_error(Code::FailedPrecondition, path + " holds VM '" + text_of(xml, "name") +
                                                    "' (" + text_of(xml, "uuid") + "), not '" +
                                                    vm.id.value + "' (" + vm.uuid + ")");
  }
  if (auto begun = parts_.consoles.begin(vm.key()); !begun) return begun;
  const std::string here = retarget(xml, options_.bridge, parts_.consoles.path(vm.id), preloads());
  if (virDomainRestoreFlags(connection->get(), path.c_str(), here.empty() ? nullptr : here.c_str(),
                            how) == 0) {
    return ok_status();
  }
  return last_error("VM '" + vm.id.value + "' can't be restored from " + path);
}

}  // namespace mare::libvirt
