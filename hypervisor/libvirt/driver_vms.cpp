// What is asked of a VM that is here, or is to be.
#include <cstdlib>
#include <filesystem>

#include "hypervisor/libvirt/driver_class.h"
#include "hypervisor/libvirt/figures.h"
#include "hypervisor/libvirt/refusals.h"

namespace mare::libvirt {

Result<std::vector<VmObservation>> LibvirtDriver::list() {
  auto connection = connection_.get();
  if (!connection) return connection.error();
  virDomainPtr* raw = nullptr;
  const int count =
      virConnectListAllDomains(connection->get(), &raw, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
  if (count < 0) return last_read_error("the VMs of host '" + options_.host_name + "'");
  std::vector<DomainHandle> domains;
  for (int i = 0; i < count; ++i) domains.emplace_back(raw[i]);
  std::free(raw);
  std::vector<VmObservation> out;
  for (const auto& domain : domains) {
    if (!is_ours(domain.get())) continue;
    auto seen = observe_domain(domain.get());
    // A list that lacks a VM because it could not be read would say that it is gone.
    if (!seen) return seen.error();
    if (seen->copy != Copy::Absent) out.push_back(*seen);
  }
  return out;
}

Result<VmObservation> LibvirtDriver::observe(const VmKey& vm) {
  auto domain = find(vm);
  if (domain) return observe_domain(domain->get());
  if (domain.error().code != Code::NotFound) return domain.error();
  VmObservation absent;
  absent.key = vm;
  add_faults(absent);
  return absent;
}

Status LibvirtDriver::start(const VmSpec& vm) {
  auto fresh = admitting_.admit(vm);
  if (!fresh) return fresh.error();
  if (!*fresh) return ok_status();
  return made(vm, starting_.boot(vm));
}

Result<TemplateStatus> LibvirtDriver::make_template(const TemplateSpec& what) {
  auto known = facts();
  if (!known) return known.error();
  if (!known->cloning) return make_error(Code::Unsupported, known->cloning_why);
  auto connection = connection_.get();
  if (!connection) return connection.error();
  const auto room = [this](const VmSpec& guest) -> Status {
    auto fresh = admitting_.admit(guest);
    return fresh ? ok_status() : Status(fresh.error());
  };
  return templates_.make(connection->get(), what, known->hypervisor, starting_.options(VmId{}),
                         room, [this](const std::string& uuid) { admission_.release(uuid); });
}

Status LibvirtDriver::start_clone(const VmSpec& vm, const TemplateSpec& from) {
  auto known = facts();
  if (!known) return known.error();
  auto fresh = admitting_.admit(vm);
  if (!fresh) return fresh.error();
  if (!*fresh) return ok_status();
  return made(vm, starting_.clone(vm, from, known->hypervisor));
}

Status LibvirtDriver::destroy(const VmKey& vm) {
  forget(vm.uuid);
  auto domain = find(vm);
  if (!domain) return absent_is_fine(domain.error());
  if (virDomainDestroyFlags(domain->get(), VIR_DOMAIN_DESTROY_DEFAULT) == 0) return ok_status();
  return absent_is_fine(last_error("VM '" + vm.id.value + "' can't be ended"));
}

Status LibvirtDriver::pause(const VmKey& vm) {
  auto domain = find(vm);
  if (!domain) return domain.error();
  auto seen = observe_domain(domain->get());
  if (!seen) return seen.error();
  if (seen->copy == Copy::Absent) return no_copy(vm);
  if (captures_.holds(vm.uuid)) return held_for_capture(vm);
  if (seen->sending || seen->copy == Copy::Incoming) return busy_migrating(vm);
  if (seen->copy == Copy::Paused) return ok_status();
  if (virDomainSuspend(domain->get()) == 0) return ok_status();
  return last_error("VM '" + vm.id.value + "' can't be paused");
}

Status LibvirtDriver::resume(const VmKey& vm) {
  auto domain = find(vm);
  if (!domain) return domain.error();
  auto seen = observe_domain(domain->get());
  if (!seen) return seen.error();
  if (seen->copy == Copy::Absent) return no_copy(vm);
  if (seen->copy == Copy::Running) return ok_status();
  if (auto leased = lease_.check(); !leased) return leased;
  if (captures_.holds(vm.uuid)) return held_for_capture(vm);
  if (auto fed = check_fed(vm, domain->get()); !fed) return fed;
  // The other end may run it at any moment.
  if (seen->sending || seen->copy == Copy::Incoming) return busy_migrating(vm);
  if (virDomainResume(domain->get()) == 0) return ok_status();
  return last_error("VM '" + vm.id.value + "' can't go on");
}

Status LibvirtDriver::save(const VmKey& vm, const std::string& path) {
  std::error_code unreadable;
  if (std::filesystem::exists(path, unreadable)) {
    return make_error(Code::AlreadyExists, "there is a file " + path, "name a new one");
  }
  auto seen = observe(vm);
  if (!seen) return seen.error();
  if (seen->copy == Copy::Absent) return no_copy(vm);
  if (seen->sending || seen->copy == Copy::Incoming) return busy_migrating(vm);
  if (captures_.active(vm.uuid)) return being_captured(vm);
  // A connection of its own: writing the memory takes long.
  auto connection = open_connection(options_.uri);
  if (!connection) return connection.error();
  const DomainHandle domain{virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str())};
  if (!domain) return last_read_error("VM '" + vm.id.value + "'");
  if (virDomainSaveFlags(domain.get(), path.c_str(), nullptr, VIR_DOMAIN_SAVE_RUNNING) == 0) {
    arrivals_.forget(vm.uuid);
    return ok_status();
  }
  const Error error = last_error("VM '" + vm.id.value + "' can't be saved to " + path);
  // Only a copy that is seen to live makes its file worthless.
  auto after = observe(vm);
  const bool lives = after && (after->copy == Copy::Running || after->copy == Copy::Paused);
  if (lives && error.code != Code::OutcomeUnknown) std::filesystem::remove(path, unreadable);
  return error;
}

Status LibvirtDriver::restore(const VmSpec& vm, const std::string& path) {
  auto fresh = admitting_.admit(vm);
  if (!fresh) return fresh.error();
  if (!*fresh) return ok_status();
  return made(vm, starting_.restore(vm, path, VIR_DOMAIN_SAVE_RUNNING));
}

Result<VmStatistics> LibvirtDriver::statistics(const VmKey& vm) {
  auto domain = find(vm);
  if (!domain) return domain.error();
  return figures_of(domain->get(), vm);
}

Status LibvirtDriver::check_fed(const VmKey& vm, virDomainPtr domain) {
  auto seen = look_at(domain, false);
  if (!seen) return seen.error();
  if (!seen->starved) return ok_status();
  return make_error(Code::FailedPrecondition,
                    "VM '" + vm.id.value + "' waits for pages from the host that it came from");
}

Result<DomainHandle> LibvirtDriver::find(const VmKey& vm) {
  auto connection = connection_.get();
  if (!connection) return connection.error();
  DomainHandle domain{virDomainLookupByUUIDString(connection->get(), vm.uuid.c_str())};
  if (domain) return domain;
  const Error error = last_read_error("VM '" + vm.id.value + "'");
  // libvirt calls what is no uuid at all an invalid argument: no VM has it.
  if (error.code == Code::NotFound || !check_key(vm)) return no_copy(vm);
  return error;
}

Status LibvirtDriver::absent_is_fine(const Error& error) {
  return error.code == Code::NotFound ? ok_status() : Status(error);
}

void LibvirtDriver::add_faults(VmObservation& to) {
  const auto faults = consoles_.scan(to.key);
  to.console_faults = faults.count;
  to.console_first_fault = faults.first;
}

Result<VmObservation> LibvirtDriver::observe_domain(virDomainPtr domain) {
  VmObservation out;
  out.key = key_of(domain);
  auto seen = look_at(domain, arrivals_.expected(out.key.uuid));
  if (!seen) return seen.error();
  out.copy = seen->copy;
  out.memory = seen->memory;
  // A migration that has been asked for counts before libvirt has begun it.
  out.sending = seen->sending || (seen->copy != Copy::Absent && outgoing_.running(out.key.uuid));
  add_faults(out);
  return out;
}

Status LibvirtDriver::made(const VmSpec& vm, const Status& tried) {
  admission_.release(vm.uuid);
  if (tried) {
    watching_.arrived(vm.uuid);
    return tried;
  }
  auto seen = observe(vm.key());
  return seen && seen->copy == Copy::Running ? ok_status() : tried;
}

void LibvirtDriver::forget(const std::string& uuid) {
  arrivals_.forget(uuid);
  admission_.release(uuid);
  watching_.left(uuid);
}

}  // namespace mare::libvirt
