// The agent's gRPC service over a driver: one method a call, nothing else.
#pragma once

#include "agent.grpc.pb.h"
#include "hypervisor/agent/convert.h"

namespace mare::agent {

class Service final : public pb::Agent::Service {
 public:
  /// The driver must outlive the service.
  explicit Service(Driver& driver) : driver_(driver) {}

  using Context = grpc::ServerContext;
  grpc::Status Facts(Context*, const pb::Empty*, pb::HostFacts*) override;
  grpc::Status List(Context*, const pb::Empty*, pb::VmList*) override;
  grpc::Status Observe(Context*, const pb::VmKey*, pb::VmObservation*) override;
  grpc::Status Start(Context*, const pb::VmSpec*, pb::Empty*) override;
  grpc::Status Destroy(Context*, const pb::VmKey*, pb::Empty*) override;
  grpc::Status Pause(Context*, const pb::VmKey*, pb::Empty*) override;
  grpc::Status Resume(Context*, const pb::VmKey*, pb::Empty*) override;
  grpc::Status Save(Context*, const pb::SaveRequest*, pb::Empty*) override;
  grpc::Status Restore(Context*, const pb::RestoreRequest*, pb::Empty*) override;
  grpc::Status Statistics(Context*, const pb::VmKey*, pb::VmStatistics*) override;
  grpc::Status PrepareIncoming(Context*, const pb::MigrationTicket*,
                               pb::IncomingEndpoint*) override;
  grpc::Status BeginOutgoing(Context*, const pb::BeginOutgoingRequest*, pb::Empty*) override;
  grpc::Status Outgoing(Context*, const pb::VmKey*, pb::OutgoingStatus*) override;
  grpc::Status CancelOutgoing(Context*, const pb::VmKey*, pb::Empty*) override;
  grpc::Status ForceOutgoing(Context*, const pb::ForceRequest*, pb::Empty*) override;
  grpc::Status ReleaseOutgoing(Context*, const pb::VmKey*, pb::Empty*) override;
  grpc::Status Arrival(Context*, const pb::VmKey*, pb::ArrivalReport*) override;
  grpc::Status DiscardIncoming(Context*, const pb::VmKey*, pb::Empty*) override;
  grpc::Status Announce(Context*, const pb::VmSpec*, pb::Empty*) override;
  grpc::Status MemoryProfile(Context*, const pb::VmKey*, pb::MemoryProfileReply*) override;
  grpc::Status LookAnew(Context*, const pb::VmKey*, pb::LookReply*) override;
  grpc::Status OpenLinkSink(Context*, const pb::Empty*, pb::IncomingEndpoint*) override;
  grpc::Status MakeTemplate(Context*, const pb::TemplateSpec*, pb::TemplateStatus*) override;
  grpc::Status StartClone(Context*, const pb::StartCloneRequest*, pb::Empty*) override;
  grpc::Status MeasureLink(Context*, const pb::IncomingEndpoint*, pb::LinkMeasurement*) override;
  grpc::Status PrepareCapture(Context*, const pb::CaptureTicket*, pb::CaptureStatus*) override;
  grpc::Status BeginCapture(Context*, const pb::CaptureTicket*, pb::CaptureStatus*) override;
  grpc::Status Capture(Context*, const pb::VmKey*, pb::CaptureStatus*) override;
  grpc::Status ReleaseCapture(Context*, const pb::ReleaseCaptureRequest*,
                              pb::CaptureStatus*) override;
  grpc::Status DropCapture(Context*, const pb::DropCaptureRequest*, pb::Empty*) override;
  grpc::Status LoadCapture(Context*, const pb::LoadCaptureRequest*, pb::CaptureLoad*) override;
  grpc::Status MergeCapture(Context*, const pb::MergeCaptureRequest*,
                            pb::MergeCaptureReply*) override;
  grpc::Status KeepStandby(Context*, const pb::KeepStandbyRequest*, pb::KeepStandbyReply*) override;
  grpc::Status RenewLease(Context*, const pb::LeaseTicket*, pb::LeaseAnswer*) override;
  grpc::Status PutFenceNote(Context*, const pb::FenceNote*, pb::Empty*) override;
  grpc::Status RemoveFenceNote(Context*, const pb::FenceNote*, pb::Empty*) override;

 private:
  Driver& driver_;
};

}  // namespace mare::agent
