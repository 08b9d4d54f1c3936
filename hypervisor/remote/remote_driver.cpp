#include "hypervisor/remote/remote_driver.h"

#include <grpcpp/grpcpp.h>

#include "agent.grpc.pb.h"
#include "hypervisor/agent/convert.h"
#include "hypervisor/agent/tls_files.h"

namespace mare::remote {
namespace {

namespace pb = ::mare::agent::v1;
using agent::from_wire;
using agent::to_wire;

/// What a call to an agent that was just not there waits for it to be back. Refused connections are
/// tried again after 100 to 500 ms, with or without a call.
constexpr Milliseconds kRetryWait{300};

enum class Kind : std::uint8_t { Read, Change, Save };

/// Whether a call of that status may have been at the agent. These are gRPC's own words for a call
/// that found no connection; its code for them, UNAVAILABLE, is also that of a connection that
/// broke. Where the words are others, the worse is assumed.
bool never_left(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return false;
  const std::string& text = status.error_message();
  return text.starts_with("failed to connect") || text.starts_with("DNS resolution failed");
}

gpr_timespec from_now(Milliseconds limit) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(limit.count(), GPR_TIMESPAN));
}

class RemoteDriver final : public Driver {
 public:
  RemoteDriver(RemoteOptions options, std::shared_ptr<grpc::Channel> channel)
      : options_(std::move(options)),
        channel_(std::move(channel)),
        stub_(pb::Agent::NewStub(channel_)) {}

  Result<HostFacts> facts() override {
    return ask<HostFacts, pb::HostFacts>(&pb::Agent::Stub::Facts, pb::Empty{});
  }

  Result<std::vector<VmObservation>> list() override {
    pb::VmList reply;
    if (auto done = call(Kind::Read, &pb::Agent::Stub::List, pb::Empty{}, &reply); !done) {
      return done.error();
    }
    std::vector<VmObservation> out;
    for (const auto& vm : reply.vms()) out.push_back(from_wire(vm));
    return out;
  }

  Result<VmObservation> observe(const VmKey& vm) override {
    return ask<VmObservation, pb::VmObservation>(&pb::Agent::Stub::Observe, to_wire(vm));
  }
  Status start(const VmSpec& vm) override { return tell(&pb::Agent::Stub::Start, to_wire(vm)); }
  Status start_clone(const VmSpec& vm, const TemplateSpec& from) override {
    pb::StartCloneRequest request;
    *request.mutable_vm() = to_wire(vm);
    *request.mutable_from() = to_wire(from);
    return tell(&pb::Agent::Stub::StartClone, request);
  }
  Result<TemplateStatus> make_template(const TemplateSpec& what) override {
    pb::TemplateStatus reply;
    auto done = call(Kind::Change, &pb::Agent::Stub::MakeTemplate, to_wire(what), &reply);
    if (!done) return done.error();
    return from_wire(reply);
  }
  Status destroy(const VmKey& vm) override { return tell(&pb::Agent::Stub::Destroy, to_wire(vm)); }
  Status pause(const VmKey& vm) override { return tell(&pb::Agent::Stub::Pause, to_wire(vm)); }
  Status resume(const VmKey& vm) override { return tell(&pb::Agent::Stub::Resume, to_wire(vm)); }

  Status save(const VmKey& vm, const std::string& path) override {
    pb::SaveRequest request;
    *request.mutable_vm() = to_wire(vm);
    request.set_path(path);
    pb::Empty reply;
    return call(Kind::Save, &pb::Agent::Stub::Save, request, &reply);
  }

  Status restore(const VmSpec& vm, const std::string& path) override {
    pb::RestoreRequest request;
    *request.mutable_vm() = to_wire(vm);
    request.set_path(path);
    pb::Empty reply;
    return call(Kind::Save, &pb::Agent::Stub::Restore, request, &reply);
  }

  Result<CaptureStatus> prepare_capture(const CaptureTicket& ticket) override {
    pb::CaptureStatus reply;
    auto done = call(Kind::Change, &pb::Agent::Stub::PrepareCapture, to_wire(ticket), &reply);
    if (!done) return done.error();
    return from_wire(reply);
  }
  Result<CaptureStatus> begin_capture(const CaptureTicket& ticket) override {
    pb::CaptureStatus reply;
    auto done = call(Kind::Change, &pb::Agent::Stub::BeginCapture, to_wire(ticket), &reply);
    if (!done) return done.error();
    return from_wire(reply);
  }
  Result<CaptureStatus> capture(const VmKey& vm) override {
    return ask<CaptureStatus, pb::CaptureStatus>(&pb::Agent::Stub::Capture, to_wire(vm));
  }
  Result<CaptureStatus> release_capture(const VmKey& vm, const CheckpointId& checkpoint) override {
    pb::ReleaseCaptureRequest request;
    *request.mutable_vm() = to_wire(vm);
    request.set_checkpoint(checkpoint.value);
    pb::CaptureStatus reply;
    auto done = call(Kind::Change, &pb::Agent::Stub::ReleaseCapture, request, &reply);
    if (!done) return done.error();
    return from_wire(reply);
  }
  Status drop_capture(const VmKey& vm, const CheckpointId& checkpoint,
                      const std::string& path) override {
    pb::DropCaptureRequest request;
    *request.mutable_vm() = to_wire(vm);
    request.set_checkpoint(checkpoint.value);
    request.set_path(path);
    return tell(&pb::Agent::Stub::DropCapture, request);
  }
  Result<CaptureLoad> load_capture(const VmSpec& vm, const CheckpointId& checkpoint,
                                   const CheckpointPart& part) override {
    pb::LoadCaptureRequest request;
    *request.mutable_vm() = to_wire(vm);
    request.set_checkpoint(checkpoint.value);
    *request.mutable_part() = to_wire(part);
    pb::CaptureLoad reply;
    auto done = call(Kind::Save, &pb::Agent::Stub::LoadCapture, request, &reply);
    if (!done) return done.error();
    return from_wire(reply);
  }
  Result<Bytes> merge_capture(const CheckpointPart& part, bool compress) override {
    pb::MergeCaptureRequest request;
    *request.mutable_part() = to_wire(part);
    request.set_compress(compress);
    pb::MergeCaptureReply reply;
    auto done = call(Kind::Save, &pb::Agent::Stub::MergeCapture, request, &reply);
    if (!done) return done.error();
    return Bytes{reply.written_bytes()};
  }
  Result<std::vector<StandbyAnswer>> keep_standby(
      const std::vector<CheckpointPart>& parts) override {
    pb::KeepStandbyRequest request;
    for (const auto& part : parts) *request.add_parts() = to_wire(part);
    pb::KeepStandbyReply reply;
    auto done = call(Kind::Save, &pb::Agent::Stub::KeepStandby, request, &reply);
    if (!done) return done.error();
    std::vector<StandbyAnswer> out;
    for (const auto& one : reply.answers()) out.push_back(from_wire(one));
    return out;
  }

  // A renewal of which nothing is heard counts as none: who asked believes less than was granted.
  Result<LeaseAnswer> renew_lease(const LeaseTicket& ticket) override {
    return ask<LeaseAnswer, pb::LeaseAnswer>(&pb::Agent::Stub::RenewLease, to_wire(ticket));
  }
  Status put_fence_note(const std::string& note) override {
    pb::FenceNote request;
    request.set_path(note);
    return tell(&pb::Agent::Stub::PutFenceNote, request);
  }
  Status remove_fence_note(const std::string& note) override {
    pb::FenceNote request;
    request.set_path(note);
    return tell(&pb::Agent::Stub::RemoveFenceNote, request);
  }

  Result<VmStatistics> statistics(const VmKey& vm) override {
    return ask<VmStatistics, pb::VmStatistics>(&pb::Agent::Stub::Statistics, to_wire(vm));
  }

  Result<IncomingEndpoint> prepare_incoming(const MigrationTicket& ticket) override {
    pb::IncomingEndpoint reply;
    auto done = call(Kind::Change, &pb::Agent::Stub::PrepareIncoming, to_wire(ticket), &reply);
    if (!done) return done.error();
    return IncomingEndpoint{reply.uri()};
  }

  Status begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) override {
    pb::BeginOutgoingRequest request;
    *request.mutable_ticket() = to_wire(ticket);
    request.mutable_to()->set_uri(to.uri);
    return tell(&pb::Agent::Stub::BeginOutgoing, request);
  }

  Result<OutgoingStatus> outgoing(const VmKey& vm) override {
    return ask<OutgoingStatus, pb::OutgoingStatus>(&pb::Agent::Stub::Outgoing, to_wire(vm));
  }
  Status cancel_outgoing(const VmKey& vm) override {
    return tell(&pb::Agent::Stub::CancelOutgoing, to_wire(vm));
  }
  Status force_outgoing(const VmKey& vm, LimitAction how) override {
    pb::ForceRequest request;
    *request.mutable_vm() = to_wire(vm);
    request.set_how(std::string(to_string(how)));
    return tell(&pb::Agent::Stub::ForceOutgoing, request);
  }
  Status release_outgoing(const VmKey& vm) override {
    return tell(&pb::Agent::Stub::ReleaseOutgoing, to_wire(vm));
  }
  Result<ArrivalReport> arrival(const VmKey& vm) override {
    return ask<ArrivalReport, pb::ArrivalReport>(&pb::Agent::Stub::Arrival, to_wire(vm));
  }
  Status discard_incoming(const VmKey& vm) override {
    return tell(&pb::Agent::Stub::DiscardIncoming, to_wire(vm));
  }
  Status announce(const VmSpec& vm) override {
    return tell(&pb::Agent::Stub::Announce, to_wire(vm));
  }
  Result<MemoryProfile> memory_profile(const VmKey& vm) override {
    return ask<MemoryProfile, pb::MemoryProfileReply>(&pb::Agent::Stub::MemoryProfile, to_wire(vm));
  }
  Result<Milliseconds> look_anew(const VmKey& vm) override {
    pb::LookReply reply;
    auto done = call(Kind::Read, &pb::Agent::Stub::LookAnew, to_wire(vm), &reply);
    if (!done) return done.error();
    return Milliseconds{reply.wait_ms()};
  }
  Result<IncomingEndpoint> open_link_sink() override {
    pb::IncomingEndpoint reply;
    auto done = call(Kind::Read, &pb::Agent::Stub::OpenLinkSink, pb::Empty{}, &reply);
    if (!done) return done.error();
    return IncomingEndpoint{reply.uri()};
  }
  Result<LinkMeasurement> measure_link(const IncomingEndpoint& sink) override {
    pb::IncomingEndpoint request;
    request.set_uri(sink.uri);
    return ask<LinkMeasurement, pb::LinkMeasurement>(&pb::Agent::Stub::MeasureLink, request);
  }

 private:
  template <typename Request, typename Reply>
  using Method = grpc::Status (pb::Agent::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  template <typename Request, typename Reply>
  Status call(Kind kind, Method<Request, Reply> method, const Request& request, Reply* reply) {
    if (auto connected = await_connection(); !connected) return connected;
    grpc::ClientContext context;
    context.set_deadline(from_now(kind == Kind::Read     ? options_.read_deadline
                                  : kind == Kind::Change ? options_.change_deadline
                                                         : options_.save_deadline));
    const grpc::Status status = (stub_.get()->*method)(&context, request, reply);
    if (status.ok()) return ok_status();
    return failure(kind, context, status);
  }

  template <typename T, typename Reply, typename Request>
  Result<T> ask(Method<Request, Reply> method, const Request& request) {
    Reply reply;
    if (auto done = call(Kind::Read, method, request, &reply); !done) return done.error();
    return from_wire(reply);
  }

  template <typename Request>
  Status tell(Method<Request, pb::Empty> method, const Request& request) {
    pb::Empty reply;
    return call(Kind::Change, method, request, &reply);
  }

  /// Waits while a connection is being made, so that a deadline that passes afterwards means that
  /// the request had left, and one that passes here means that it had not.
  ///
  /// gRPC reads its sockets only while some thread waits in it. So this also looks whether a
  /// connection that counts as ready has ended since the last call, and lends its time to an
  /// attempt under way: of one that follows a failed one the channel shows nothing until it has
  /// succeeded, and calls that fail at once would leave it unread.
  Status await_connection() {
    const gpr_timespec connected_by = from_now(options_.connect_deadline);
    const gpr_timespec retried_by = from_now(kRetryWait);
    while (true) {
      const grpc_connectivity_state state = channel_->GetState(true);
      switch (state) {
        case GRPC_CHANNEL_READY:
          if (!channel_->WaitForStateChange(state, from_now(Milliseconds{0}))) return ok_status();
          break;
        case GRPC_CHANNEL_TRANSIENT_FAILURE:
          // The call itself then says why it can't be.
          if (!channel_->WaitForStateChange(state, retried_by)) return ok_status();
          break;
        default:
          if (!channel_->WaitForStateChange(state, connected_by)) {
            return unreachable("no connection within " +
                               std::to_string(options_.connect_deadline.count()) + " ms");
          }
      }
    }
  }

  std::string agent() const {
    return "the agent of host '" + options_.name + "' at " + options_.address;
  }

  Error unreachable(const std::string& why) const {
    return make_error(Code::Unavailable, agent() + " can't be reached: " + why,
                      "is mare-agent running there, with a certificate of the same CA that carries "
                      "the name '" +
                          options_.name + "'?");
  }

  Error failure(Kind kind, const grpc::ClientContext& context, const grpc::Status& status) const {
    const auto& trailer = context.GetServerTrailingMetadata();
    const auto detail = trailer.find(agent::kErrorKey);
    if (detail != trailer.end()) {
      auto error = agent::error_from_detail({detail->second.data(), detail->second.size()});
      if (error) return *error;
    }
    const std::string& why = status.error_message();
    switch (status.error_code()) {
      // gRPC's own refusals: the service was not called.
      case grpc::StatusCode::UNAUTHENTICATED:
      case grpc::StatusCode::PERMISSION_DENIED:
        return make_error(Code::Unauthenticated, agent() + " refuses this certificate: " + why,
                          "use the controller's certificate");
      case grpc::StatusCode::UNIMPLEMENTED:
        return make_error(Code::Unsupported, agent() + " does not know this call: " + why,
                          "install the same version on all hosts");
      default:
        break;
    }
    if (never_left(status)) return unreachable(why);
    if (kind == Kind::Read) {
      return make_error(Code::Unavailable, agent() + " did not answer: " + why,
                        "is the host up and mare-agent running there?");
    }
    return make_error(Code::OutcomeUnknown,
                      agent() + " did not answer: " + why + "; it may be done or not");
  }

  const RemoteOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<pb::Agent::Stub> stub_;
};

}  // namespace

Result<std::unique_ptr<Driver>> make_remote_driver(const RemoteOptions& options, Clock& clock,
                                                   Log& /*log*/) {
  if (auto address = Endpoint::parse(options.address); !address) {
    Error error = address.error();
    error.field = "address";
    return error;
  }
  auto credentials = grpc::InsecureChannelCredentials();
  if (!options.insecure) {
    auto tls =
        agent::load_tls({options.ca, options.certificate, options.key}, "", clock.wall_now());
    if (!tls) return tls.error();
    credentials = grpc::SslCredentials({tls->ca, tls->key, tls->certificate});
  }
  grpc::ChannelArguments arguments;
  // A restarted agent should be seen at once: gRPC's own back-off goes up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // Despite its name the time that one attempt may take, TLS on a busy host included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(options.connect_deadline.count()));
  // While a call waits, so that a host that lost its power is noticed during a long save().
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  // No retries under the hood: the engine decides what is asked twice.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A connection of its own: with another certificate or host name none may be shared.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!options.insecure) arguments.SetSslTargetNameOverride(options.name);
  auto channel = grpc::CreateCustomChannel(options.address, credentials, arguments);
  return std::unique_ptr<Driver>(std::make_unique<RemoteDriver>(options, std::move(channel)));
}

}  // namespace mare::remote
