// The driver port for one simulated host. Internal; made by make_sim_driver().
#pragma once

#include "hypervisor/driver.h"
#include "hypervisor/sim/world.h"

namespace mare::sim {

class SimDriver final : public Driver {
 public:
  SimDriver(SimCluster& cluster, HostId host) : cluster_(cluster), host_(std::move(host)) {}

  Result<HostFacts> facts() override;
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
  Result<CaptureStatus> prepare_capture(const CaptureTicket& ticket) override;
  Result<CaptureStatus> begin_capture(const CaptureTicket& ticket) override;
  Result<CaptureStatus> capture(const VmKey& vm) override;
  Result<CaptureStatus> release_capture(const VmKey& vm, const CheckpointId& checkpoint) override;
  Status drop_capture(const VmKey& vm, const CheckpointId& checkpoint,
                      const std::string& path) override;
  Result<Bytes> merge_capture(const CheckpointPart& part, bool compress) override;
  Result<std::vector<StandbyAnswer>> keep_standby(
      const std::vector<CheckpointPart>& parts) override;
  Result<CaptureLoad> load_capture(const VmSpec& vm, const CheckpointId& checkpoint,
                                   const CheckpointPart& part) override;
  Result<IncomingEndpoint> prepare_incoming(const MigrationTicket& ticket) override;
  Status begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) override;
  Result<OutgoingStatus> outgoing(const VmKey& vm) override;
  Status cancel_outgoing(const VmKey& vm) override;
  Status force_outgoing(const VmKey& vm, LimitAction how) override;
  Status release_outgoing(const VmKey& vm) override;
  Result<ArrivalReport> arrival(const VmKey& vm) override;
  Status discard_incoming(const VmKey& vm) override;
  Status announce(const VmSpec& vm) override;
  Result<LeaseAnswer> renew_lease(const LeaseTicket& ticket) override;
  Status put_fence_note(const std::string& note) override;
  Status remove_fence_note(const std::string& note) override;
  Result<MemoryProfile> memory_profile(const VmKey& vm) override;
  Result<IncomingEndpoint> open_link_sink() override;
  Result<LinkMeasurement> measure_link(const IncomingEndpoint& sink) override;

 private:
  /// Runs `work` with the locked world and this host, through the faults of the way there.
  template <typename R>
  R call(const std::string& what, const std::function<R(World&, SimHost&)>& work);
  /// What stands against a new copy of that VM here, if anything does.
  Status check_room(World& world, SimHost& host, const VmSpec& vm) const;
  /// FailedPrecondition where no VM may run: the host's lease is over.
  Status check_lease(World& world, const SimHost& host) const;
  Error no_copy(const VmKey& vm) const;
  /// That checkpoint's capture, as it is or prepared now.
  Result<Capture*> find_or_prepare(World& world, SimHost& host, const CaptureTicket& ticket) const;
  /// FailedPrecondition while the copy here is at either end of a migration, or stands for a
  /// capture.
  Status check_settled(World& world, const VmKey& vm, const LocalCopy& copy) const;

  SimCluster& cluster_;
  HostId host_;
};

}  // namespace mare::sim
