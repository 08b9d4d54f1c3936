// Between the driver port's values and the wire's messages; used by the agent and by the remote
// driver. Pure.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>

#include "agent.pb.h"
#include "hypervisor/driver.h"

namespace mare::agent {

namespace pb = ::mare::agent::v1;

inline constexpr const char* kErrorKey = "mare-error-bin";

pb::VmKey to_wire(const VmKey& value);
pb::VmSpec to_wire(const VmSpec& value);
pb::HostFacts to_wire(const HostFacts& value);
pb::TemplateSpec to_wire(const TemplateSpec& value);
pb::TemplateStatus to_wire(const TemplateStatus& value);
pb::VmObservation to_wire(const VmObservation& value);
pb::VmStatistics to_wire(const VmStatistics& value);
pb::Sending to_wire(const Sending& value);
pb::MigrationTicket to_wire(const MigrationTicket& value);
pb::OutgoingStatus to_wire(const OutgoingStatus& value);
pb::ArrivalReport to_wire(const ArrivalReport& value);
pb::MemoryProfileReply to_wire(const MemoryProfile& value);
pb::LinkMeasurement to_wire(const LinkMeasurement& value);
pb::CaptureTicket to_wire(const CaptureTicket& value);
pb::CaptureStatus to_wire(const CaptureStatus& value);
pb::CheckpointPart to_wire(const CheckpointPart& value);
pb::CaptureLoad to_wire(const CaptureLoad& value);
pb::StandbyAnswer to_wire(const StandbyAnswer& value);
pb::LeaseTicket to_wire(const LeaseTicket& value);
pb::LeaseAnswer to_wire(const LeaseAnswer& value);

VmKey from_wire(const pb::VmKey& value);
/// InvalidArgument for a MAC that is none; the rest has no wrong values.
Result<VmSpec> from_wire(const pb::VmSpec& value);
HostFacts from_wire(const pb::HostFacts& value);
TemplateSpec from_wire(const pb::TemplateSpec& value);
/// A phase that this version does not know is a failure.
TemplateStatus from_wire(const pb::TemplateStatus& value);
VmObservation from_wire(const pb::VmObservation& value);
VmStatistics from_wire(const pb::VmStatistics& value);
/// Unsupported for a strategy that this version does not know.
Result<Sending> from_wire(const pb::Sending& value);
Result<MigrationTicket> from_wire(const pb::MigrationTicket& value);
/// Internal for a phase that this version does not know: guessing could end a migration twice.
Result<OutgoingStatus> from_wire(const pb::OutgoingStatus& value);
ArrivalReport from_wire(const pb::ArrivalReport& value);
MemoryProfile from_wire(const pb::MemoryProfileReply& value);
LinkMeasurement from_wire(const pb::LinkMeasurement& value);
CaptureTicket from_wire(const pb::CaptureTicket& value);
/// Internal for a phase that this version does not know: guessing could let a VM go on too early.
Result<CaptureStatus> from_wire(const pb::CaptureStatus& value);
CheckpointPart from_wire(const pb::CheckpointPart& value);
CaptureLoad from_wire(const pb::CaptureLoad& value);
StandbyAnswer from_wire(const pb::StandbyAnswer& value);
LeaseTicket from_wire(const pb::LeaseTicket& value);
LeaseAnswer from_wire(const pb::LeaseAnswer& value);

/// Our error as a status; the detail is for kErrorKey. Both are cut to what fits into a trailer.
grpc::Status to_status(const Error& error);
std::string error_detail(const Error& error);
std::optional<Error> error_from_detail(const std::string& detail);

}  // namespace mare::agent
