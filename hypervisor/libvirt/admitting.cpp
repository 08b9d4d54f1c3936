#include "hypervisor/libvirt/admitting.h"

#include <libvirt/libvirt.h>

#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

Bytes sum_of(const std::map<std::string, Bytes>& used) {
  Bytes sum;
  for (const auto& [uuid, bytes] : used) sum = sum + bytes;
  return sum;
}

}  // namespace

Result<bool> Admitting::admit(const VmSpec& vm) {
  if (auto good = check_key(vm.key()); !good) return good.error();
  if (auto leased = parts_.lease.check(); !leased) return leased.error();
  const Bytes needed = vm.memory + overhead_;
  std::map<std::string, Bytes> used = parts_.admission.claim(vm.uuid, needed);
  auto checked = check(vm, needed, used);
  if (!checked || !*checked) parts_.admission.release(vm.uuid);
  return checked;
}

Result<bool> Admitting::check(const VmSpec& vm, Bytes needed,
                              std::map<std::string, Bytes>& used) const {
  auto here = list_();
  if (!here) return here.error();
  for (const auto& other : *here) {
    used[other.key.uuid] = other.memory + overhead_;
    if (other.key.uuid != vm.uuid) continue;
    if (other.copy == Copy::Running) return false;
    return has_copy(other);
  }
  if (auto name = check_name_is_free(vm); !name) return name.error();
  Bytes sum = sum_of(used);
  if (!options_.standby_memory.empty()) {
    parts_.standbys.give_way({options_.memory, sum + needed}, vm.uuid);
    sum = sum + parts_.standbys.mapped(is_here());
  }
  if (sum + needed <= options_.memory) return true;
  return make_error(Code::ResourceExhausted,
                    "host '" + options_.host_name + "' has " + mib_text(options_.memory - sum) +
                        " of " + mib_text(options_.memory) + " left for VMs; '" + vm.id.value +
                        "' needs " + mib_text(needed),
                    "end a VM there, or choose another host");
}

/// Among all domains, ours or not, running or only defined: libvirt has one of a name.
Status Admitting::check_name_is_free(const VmSpec& vm) const {
  auto connection = parts_.connection.get();
  if (!connection) return connection.error();
  const DomainHandle same{virDomainLookupByName(connection->get(), vm.id.value.c_str())};
  if (!same) {
    const Error error = last_read_error("VM '" + vm.id.value + "'");
    return error.code == Code::NotFound ? ok_status() : Status(error);
  }
  const VmKey other = key_of(same.get());
  if (other.uuid == vm.uuid) return ok_status();
  return make_error(Code::AlreadyExists,
                    "host '" + options_.host_name + "' has another VM named '" + vm.id.value +
                        "' (" + other.uuid + (is_ours(same.get()) ? ")" : ", not Maré's)"),
                    "end that one, or choose another name");
}

Result<Standbys::Room> Admitting::room() const {
  std::map<std::string, Bytes> used = parts_.admission.claims();
  auto here = list_();
  if (!here) return here.error();
  for (const auto& one : *here) used[one.key.uuid] = one.memory + overhead_;
  return Standbys::Room{options_.memory, sum_of(used)};
}

Standbys::IsHere Admitting::is_here() const {
  return [&connection = parts_.connection](const std::string& uuid) {
    auto open = connection.get();
    // What can't be asked may be here.
    if (!open) return true;
    const DomainHandle domain{virDomainLookupByUUIDString(open->get(), uuid.c_str())};
    return domain != nullptr;
  };
}

Error Admitting::has_copy(const VmObservation& seen) const {
  return make_error(Code::FailedPrecondition, "a copy of VM '" + seen.key.id.value +
                                                  "' is on host '" + options_.host_name + "' (" +
                                                  std::string(to_string(seen.copy)) + ")");
}

}  // namespace mare::libvirt
