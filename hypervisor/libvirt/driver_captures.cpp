// Checkpoints: what the parts of a capture are asked, in which order.
#include "hypervisor/libvirt/capture_file.h"
#include "hypervisor/libvirt/driver_class.h"
#include "hypervisor/libvirt/refusals.h"

namespace mare::libvirt {

Result<CaptureStatus> LibvirtDriver::prepare_capture(const CaptureTicket& ticket) {
  const VmKey& vm = ticket.vm;
  if (auto known = captures_.known(ticket)) return *known;
  auto domain = find(vm);
  if (!domain) return domain.error();
  auto seen = observe_domain(domain->get());
  if (!seen) return seen.error();
  if (seen->sending) {
    return make_error(Code::Conflict, "VM '" + vm.id.value + "' is being migrated");
  }
  if (seen->copy == Copy::Absent || seen->copy == Copy::Incoming) return no_copy(vm);
  if (seen->copy == Copy::Paused) {
    return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' is paused",
                      "resume it first");
  }
  const auto where = [&]() -> Result<VmProcess> {
    auto pid = find_qemu(pid_directory(options_.uri), vm);
    if (!pid) return pid.error();
    virDomainInfo info{};
    if (virDomainGetInfo(domain->get(), &info) != 0) {
      return last_read_error("VM '" + vm.id.value + "'");
    }
    return VmProcess{*pid, Bytes{info.maxMem * 1024}};
  };
  auto ready = captures_.prepare(ticket, copies_on_write(),
                                 [&] { return watching_.give_way(vm.uuid, where); });
  if (!ready) watching_.watch(vm.uuid);
  return ready;
}

Result<CaptureStatus> LibvirtDriver::begin_capture(const CaptureTicket& ticket) {
  auto ready = prepare_capture(ticket);
  if (!ready) return ready.error();
  return captures_.begin(ticket);
}

Result<CaptureStatus> LibvirtDriver::release_capture(const VmKey& vm,
                                                     const CheckpointId& checkpoint) {
  auto released = captures_.release(vm, checkpoint);
  if (released && captures_.left(vm.uuid)) forget(vm.uuid);
  return released;
}

Status LibvirtDriver::drop_capture(const VmKey& vm, const CheckpointId& checkpoint,
                                   const std::string& path) {
  return captures_.drop(vm, checkpoint, path);
}

Result<CaptureLoad> LibvirtDriver::load_capture(const VmSpec& vm, const CheckpointId& checkpoint,
                                                const CheckpointPart& part) {
  auto seen = observe(vm.key());
  if (!seen) return seen.error();
  if (seen->copy != Copy::Absent) {
    if (const auto before = captures_.was_loaded(vm.uuid, checkpoint)) return *before;
    return admitting_.has_copy(*seen);
  }
  const MonotonicTime began = clock_.now();
  if (part.partner.value == options_.host_name) {
    auto mapped = map_standby(vm, part);
    // Whatever it was, its file is there; unless nobody knows what is left of the VM.
    if (!mapped && mapped.error().code == Code::OutcomeUnknown) return mapped.error();
    if (mapped) return captures_.note_loaded(vm.uuid, checkpoint, began, began, true);
  }
  auto unpacked = UnpackedPart::make(options_.state_dir + "/unpacked", part);
  if (!unpacked) return unpacked.error();
  const MonotonicTime read = clock_.now();
  auto fresh = admitting_.admit(vm);
  if (!fresh) return fresh.error();
  Status loaded = made(vm, starting_.restore(vm, (*unpacked)->path(), VIR_DOMAIN_SAVE_PAUSED));
  if (!loaded) return loaded.error();
  return captures_.note_loaded(vm.uuid, checkpoint, began, read, false);
}

Result<std::vector<StandbyAnswer>> LibvirtDriver::keep_standby(
    const std::vector<CheckpointPart>& parts) {
  auto known = facts();
  if (!known) return known.error();
  if (!known->cloning) return make_error(Code::Unsupported, known->cloning_why);
  if (options_.standby_memory.empty()) return Driver::keep_standby(parts);
  for (const auto& part : parts) {
    if (auto good = check_key({part.vm, part.uuid}); !good) return good.error();
  }
  return standbys_.keep(
      parts, [this] { return admitting_.room(); }, admitting_.is_here());
}

Result<Bytes> LibvirtDriver::merge_capture(const CheckpointPart& part, bool compress) {
  return make_part_full(part, compress);
}

Status LibvirtDriver::map_standby(const VmSpec& vm, const CheckpointPart& part) {
  auto fresh = admitting_.admit(vm);
  if (!fresh) return fresh.error();
  if (!*fresh) return admitting_.has_copy({vm.key(), Copy::Running, false, vm.memory, 0, ""});
  auto room = admitting_.room();
  const auto files = room ? standbys_.take(part, vm.memory, *room) : std::optional<StandbyFiles>{};
  if (!files) {
    admission_.release(vm.uuid);
    return make_error(Code::NotFound, "it is not kept in this host's memory");
  }
  Status mapped = made(vm, starting_.map(vm, *files));
  if (!mapped) {
    log_.warn("libvirt", "VM '" + vm.id.value + "' can't be started from what is kept of it: " +
                             mapped.error().text());
  }
  return mapped;
}

bool LibvirtDriver::copies_on_write() {
  auto connection = connection_.get();
  unsigned long qemu = 0;
  if (!connection || virConnectGetVersion(connection->get(), &qemu) != 0) return false;
  return captures_by_copy_on_write(qemu, machinery_.userfaultfd);
}

}  // namespace mare::libvirt
