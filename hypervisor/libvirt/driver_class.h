// The class behind make_driver(). It joins the room's parts, each of which knows its own matter;
// what it does itself is in files by what is asked for: libvirt_driver.cpp (the host),
// driver_vms.cpp, driver_captures.cpp and driver_moves.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hypervisor/dirtylog/link.h"
#include "hypervisor/driver.h"
#include "hypervisor/leases/host_lease.h"
#include "hypervisor/libvirt/admission.h"
#include "hypervisor/libvirt/admitting.h"
#include "hypervisor/libvirt/arrivals.h"
#include "hypervisor/libvirt/capabilities.h"
#include "hypervisor/libvirt/captures.h"
#include "hypervisor/libvirt/connection.h"
#include "hypervisor/libvirt/console.h"
#include "hypervisor/libvirt/copies.h"
#include "hypervisor/libvirt/emulator_start.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/incoming_queues.h"
#include "hypervisor/libvirt/libvirt_driver.h"
#include "hypervisor/libvirt/outgoing.h"
#include "hypervisor/libvirt/route.h"
#include "hypervisor/libvirt/standbys.h"
#include "hypervisor/libvirt/starting.h"
#include "hypervisor/libvirt/switch_notice.h"
#include "hypervisor/libvirt/templates.h"
#include "hypervisor/libvirt/watching.h"

namespace mare::libvirt {

class LibvirtDriver final : public Driver {
 public:
  LibvirtDriver(LibvirtOptions options, Announcer& announcer, Clock& clock, Log& log);
  ~LibvirtDriver() override;
  LibvirtDriver(const LibvirtDriver&) = delete;
  LibvirtDriver& operator=(const LibvirtDriver&) = delete;

  Status open();
  Result<HostFacts> facts() override;

  // driver_vms.cpp
  Result<std::vector<VmObservation>> list() override;
  Result<VmObservation> observe(const VmKey& vm) override;
  Status start(const VmSpec& vm) override;
  Result<TemplateStatus> make_template(const TemplateSpec& what) override;
  Status start_clone(const VmSpec& vm, const TemplateSpec& from) override;
  Status destroy(const VmKey& vm) override;
  Status pause(const VmKey& vm) override;
  Status resume(const VmKey& vm) override;
  Status save(const VmKey& vm, const std::string& path) override;
  Status restore(const VmSpec& vm, const std::string& path) override;
  Result<VmStatistics> statistics(const VmKey& vm) override;

  // driver_captures.cpp
  Result<CaptureStatus> prepare_capture(const CaptureTicket& ticket) override;
  Result<CaptureStatus> begin_capture(const CaptureTicket& ticket) override;
  Result<CaptureStatus> capture(const VmKey& vm) override { return captures_.status(vm); }
  Result<CaptureStatus> release_capture(const VmKey& vm, const CheckpointId& checkpoint) override;
  Status drop_capture(const VmKey& vm, const CheckpointId& checkpoint,
                      const std::string& path) override;
  Result<CaptureLoad> load_capture(const VmSpec& vm, const CheckpointId& checkpoint,
                                   const CheckpointPart& part) override;
  Result<std::vector<StandbyAnswer>> keep_standby(
      const std::vector<CheckpointPart>& parts) override;
  Result<Bytes> merge_capture(const CheckpointPart& part, bool compress) override;

  // driver_moves.cpp
  Result<IncomingEndpoint> prepare_incoming(const MigrationTicket& ticket) override;
  Status begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) override;
  Result<OutgoingStatus> outgoing(const VmKey& vm) override;
  Status cancel_outgoing(const VmKey& vm) override;
  Status force_outgoing(const VmKey& vm, LimitAction how) override;
  Status release_outgoing(const VmKey& vm) override;
  Result<ArrivalReport> arrival(const VmKey& vm) override;
  Status discard_incoming(const VmKey& vm) override;
  Status announce(const VmSpec& vm) override;

  // libvirt_driver.cpp
  Result<MemoryProfile> memory_profile(const VmKey& vm) override;
  Result<Milliseconds> look_anew(const VmKey& vm) override { return watching_.look_anew(vm.uuid); }
  Result<IncomingEndpoint> open_link_sink() override;
  Result<LinkMeasurement> measure_link(const IncomingEndpoint& sink) override;
  Result<LeaseAnswer> renew_lease(const LeaseTicket& ticket) override;
  Status put_fence_note(const std::string& note) override { return leases::put_note(note); }
  Status remove_fence_note(const std::string& note) override { return leases::remove_note(note); }

 private:
  DomainEvents events();

  /// On the watcher's thread.
  Result<VmProcess> locate_vm(const std::string& uuid);

  /// VMs that arrived while no events came are announced now, late.
  void catch_up(virConnectPtr connection);

  /// False as well if libvirt does not tell its versions now: a move is then forecast without.
  bool takes_switchover_bandwidth();

  Bytes overhead() const;

  /// What does not change while QEMU is not installed anew.
  Status probe();

  /// libvirt asks each emulator what it can do before its first domain; this one now.
  std::string why_no_emulator(virConnectPtr connection) const;
  Status map_standby(const VmSpec& vm, const CheckpointPart& part);
  Status can_move(const Sending& sending);
  std::string why_no_mending();

  /// A copy whose pages stayed at a source that is out of reach can't go on.
  Status check_fed(const VmKey& vm, virDomainPtr domain);
  Route route(const VmSpec& vm);

  /// NotFound if that incarnation is not a domain here.
  Result<DomainHandle> find(const VmKey& vm);
  static Status absent_is_fine(const Error& error);
  void add_faults(VmObservation& to);
  Result<VmObservation> observe_domain(virDomainPtr domain);
  bool copies_on_write();

  /// After it was tried to make that copy. Of two that start the same VM at once, one fails, and
  /// yet it runs.
  Status made(const VmSpec& vm, const Status& tried);
  void forget(const std::string& uuid);

  const LibvirtOptions options_;
  Clock& clock_;
  Log& log_;
  const bool accelerated_;
  Machinery machinery_;  // set by open()
  Consoles consoles_;
  Templates templates_;
  Standbys standbys_;
  Admission admission_;
  Arrivals arrivals_;
  // Stopped before the others end, but it may hear of VMs until the connection is gone.
  Watching watching_;
  dirtylog::LinkSinks sinks_;
  NoticeListener notices_;
  IncomingQueues incoming_queues_;
  // In this order: the sampler of migrations uses the connection.
  Connection connection_;
  Admitting admitting_;
  Starting starting_;
  Outgoing outgoing_;
  Captures captures_;
  leases::HostLease lease_;
  EmulatorStart emulator_start_;  // asks the others
};

}  // namespace mare::libvirt
