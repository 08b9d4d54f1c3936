#include "hypervisor/agent/service.h"

namespace mare::agent {
namespace {

grpc::Status refuse(grpc::ServerContext* context, const Error& error) {
  context->AddTrailingMetadata(kErrorKey, error_detail(error));
  return to_status(error);
}

grpc::Status answer(grpc::ServerContext* context, const Status& status) {
  return status ? grpc::Status::OK : refuse(context, status.error());
}

template <typename T, typename Message>
grpc::Status answer(grpc::ServerContext* context, const Result<T>& result, Message* out) {
  if (!result) return refuse(context, result.error());
  *out = to_wire(*result);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status Service::Facts(Context* context, const pb::Empty*, pb::HostFacts* out) {
  return answer(context, driver_.facts(), out);
}

grpc::Status Service::List(Context* context, const pb::Empty*, pb::VmList* out) {
  auto vms = driver_.list();
  if (!vms) return refuse(context, vms.error());
  for (const auto& vm : *vms) *out->add_vms() = to_wire(vm);
  return grpc::Status::OK;
}

grpc::Status Service::Observe(Context* context, const pb::VmKey* vm, pb::VmObservation* out) {
  return answer(context, driver_.observe(from_wire(*vm)), out);
}

grpc::Status Service::Start(Context* context, const pb::VmSpec* vm, pb::Empty*) {
  auto spec = from_wire(*vm);
  if (!spec) return refuse(context, spec.error());
  return answer(context, driver_.start(*spec));
}

grpc::Status Service::MakeTemplate(Context* context, const pb::TemplateSpec* what,
                                   pb::TemplateStatus* out) {
  return answer(context, driver_.make_template(from_wire(*what)), out);
}

grpc::Status Service::StartClone(Context* context, const pb::StartCloneRequest* request,
                                 pb::Empty*) {
  auto spec = from_wire(request->vm());
  if (!spec) return refuse(context, spec.error());
  return answer(context, driver_.start_clone(*spec, from_wire(request->from())));
}

grpc::Status Service::Destroy(Context* context, const pb::VmKey* vm, pb::Empty*) {
  return answer(context, driver_.destroy(from_wire(*vm)));
}

grpc::Status Service::Pause(Context* context, const pb::VmKey* vm, pb::Empty*) {
  return answer(context, driver_.pause(from_wire(*vm)));
}

grpc::Status Service::Resume(Context* context, const pb::VmKey* vm, pb::Empty*) {
  return answer(context, driver_.resume(from_wire(*vm)));
}

grpc::Status Service::Save(Context* context, const pb::SaveRequest* request, pb::Empty*) {
  return answer(context, driver_.save(from_wire(request->vm()), request->path()));
}

grpc::Status Service::Restore(Context* context, const pb::RestoreRequest* request, pb::Empty*) {
  auto spec = from_wire(request->vm());
  if (!spec) return refuse(context, spec.error());
  return answer(context, driver_.restore(*spec, request->path()));
}

grpc::Status Service::Statistics(Context* context, const pb::VmKey* vm, pb::VmStatistics* out) {
  return answer(context, driver_.statistics(from_wire(*vm)), out);
}

grpc::Status Service::PrepareIncoming(Context* context, const pb::MigrationTicket* ticket,
                                      pb::IncomingEndpoint* out) {
  auto parsed = from_wire(*ticket);
  if (!parsed) return refuse(context, parsed.error());
  auto endpoint = driver_.prepare_incoming(*parsed);
  if (!endpoint) return refuse(context, endpoint.error());
  out->set_uri(endpoint->uri);
  return grpc::Status::OK;
}

grpc::Status Service::BeginOutgoing(Context* context, const pb::BeginOutgoingRequest* request,
                                    pb::Empty*) {
  auto ticket = from_wire(request->ticket());
  if (!ticket) return refuse(context, ticket.error());
  return answer(context, driver_.begin_outgoing(*ticket, {request->to().uri()}));
}

grpc::Status Service::Outgoing(Context* context, const pb::VmKey* vm, pb::OutgoingStatus* out) {
  return answer(context, driver_.outgoing(from_wire(*vm)), out);
}

grpc::Status Service::CancelOutgoing(Context* context, const pb::VmKey* vm, pb::Empty*) {
  return answer(context, driver_.cancel_outgoing(from_wire(*vm)));
}

grpc::Status Service::ForceOutgoing(Context* context, const pb::ForceRequest* request, pb::Empty*) {
  const auto how = limit_action_from(request->how());
  if (!how) {
    return refuse(context,
                  make_error(Code::Unsupported,
                             "this agent can't force a migration by '" + request->how() + "'",
                             "install the same version on all hosts"));
  }
  return answer(context, driver_.force_outgoing(from_wire(request->vm()), *how));
}

grpc::Status Service::ReleaseOutgoing(Context* context, const pb::VmKey* vm, pb::Empty*) {
  return answer(context, driver_.release_outgoing(from_wire(*vm)));
}

grpc::Status Service::Arrival(Context* context, const pb::VmKey* vm, pb::ArrivalReport* out) {
  return answer(context, driver_.arrival(from_wire(*vm)), out);
}

grpc::Status Service::DiscardIncoming(Context* context, const pb::VmKey* vm, pb::Empty*) {
  return answer(context, driver_.discard_incoming(from_wire(*vm)));
}

grpc::Status Service::Announce(Context* context, const pb::VmSpec* vm, pb::Empty*) {
  auto spec = from_wire(*vm);
  if (!spec) return refuse(context, spec.error());
  return answer(context, driver_.announce(*spec));
}

grpc::Status Service::MemoryProfile(Context* context, const pb::VmKey* vm,
                                    pb::MemoryProfileReply* out) {
  return answer(context, driver_.memory_profile(from_wire(*vm)), out);
}

grpc::Status Service::LookAnew(Context* context, const pb::VmKey* vm, pb::LookReply* out) {
  auto wait = driver_.look_anew(from_wire(*vm));
  if (!wait) return refuse(context, wait.error());
  out->set_wait_ms(wait->count());
  return grpc::Status::OK;
}

grpc::Status Service::OpenLinkSink(Context* context, const pb::Empty*, pb::IncomingEndpoint* out) {
  auto sink = driver_.open_link_sink();
  if (!sink) return refuse(context, sink.error());
  out->set_uri(sink->uri);
  return grpc::Status::OK;
}

grpc::Status Service::MeasureLink(Context* context, const pb::IncomingEndpoint* sink,
                                  pb::LinkMeasurement* out) {
  return answer(context, driver_.measure_link({sink->uri()}), out);
}

grpc::Status Service::PrepareCapture(Context* context, const pb::CaptureTicket* ticket,
                                     pb::CaptureStatus* out) {
  return answer(context, driver_.prepare_capture(from_wire(*ticket)), out);
}

grpc::Status Service::BeginCapture(Context* context, const pb::CaptureTicket* ticket,
                                   pb::CaptureStatus* out) {
  return answer(context, driver_.begin_capture(from_wire(*ticket)), out);
}

grpc::Status Service::Capture(Context* context, const pb::VmKey* vm, pb::CaptureStatus* out) {
  return answer(context, driver_.capture(from_wire(*vm)), out);
}

grpc::Status Service::ReleaseCapture(Context* context, const pb::ReleaseCaptureRequest* request,
                                     pb::CaptureStatus* out) {
  return answer(
      context,
      driver_.release_capture(from_wire(request->vm()), CheckpointId{request->checkpoint()}), out);
}

grpc::Status Service::DropCapture(Context* context, const pb::DropCaptureRequest* request,
                                  pb::Empty*) {
  return answer(context,
                driver_.drop_capture(from_wire(request->vm()), CheckpointId{request->checkpoint()},
                                     request->path()));
}

grpc::Status Service::LoadCapture(Context* context, const pb::LoadCaptureRequest* request,
                                  pb::CaptureLoad* out) {
  auto spec = from_wire(request->vm());
  if (!spec) return refuse(context, spec.error());
  return answer(
      context,
      driver_.load_capture(*spec, CheckpointId{request->checkpoint()}, from_wire(request->part())),
      out);
}

grpc::Status Service::MergeCapture(Context* context, const pb::MergeCaptureRequest* request,
                                   pb::MergeCaptureReply* out) {
  auto written = driver_.merge_capture(from_wire(request->part()), request->compress());
  if (!written) return refuse(context, written.error());
  out->set_written_bytes(written->count);
  return grpc::Status::OK;
}

grpc::Status Service::KeepStandby(Context* context, const pb::KeepStandbyRequest* request,
                                  pb::KeepStandbyReply* out) {
  std::vector<CheckpointPart> parts;
  for (const auto& part : request->parts()) parts.push_back(from_wire(part));
  auto answers = driver_.keep_standby(parts);
  if (!answers) return refuse(context, answers.error());
  for (const auto& one : *answers) *out->add_answers() = to_wire(one);
  return grpc::Status::OK;
}

grpc::Status Service::RenewLease(Context* context, const pb::LeaseTicket* ticket,
                                 pb::LeaseAnswer* out) {
  return answer(context, driver_.renew_lease(from_wire(*ticket)), out);
}

grpc::Status Service::PutFenceNote(Context* context, const pb::FenceNote* note, pb::Empty*) {
  return answer(context, driver_.put_fence_note(note->path()));
}

grpc::Status Service::RemoveFenceNote(Context* context, const pb::FenceNote* note, pb::Empty*) {
  return answer(context, driver_.remove_fence_note(note->path()));
}

}  // namespace mare::agent
