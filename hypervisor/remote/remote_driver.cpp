#include "hypervisor/remote/remote_driver.h"

#include <grpcpp/grpcpp.h>

#include <fstream>
#include <sstream>

#include "agent.grpc.pb.h"
#include "hypervisor/agent/convert.h"

namespace mare::remote {
namespace {

namespace pb = ::mare::agent::v1;
using agent::from_wire;
using agent::to_wire;

enum class Kind : std::uint8_t { Read, Change, Save };

Result<std::string> read_pem(const std::string& path, const char* what) {
  const std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.str().find("-----BEGIN") == std::string::npos) {
    return make_error(Code::InvalidArgument,
                      std::string("the ") + what + " '" + path + "' can't be read as PEM",
                      "make certificates as docs/agent.md says; the lab makes its own");
  }
  return text.str();
}

Result<std::shared_ptr<grpc::ChannelCredentials>> credentials(const RemoteOptions& options) {
  if (options.insecure) return grpc::InsecureChannelCredentials();
  auto ca = read_pem(options.ca, "CA certificate");
  if (!ca) return ca.error();
  auto certificate = read_pem(options.certificate, "certificate");
  if (!certificate) return certificate.error();
  auto key = read_pem(options.key, "key");
  if (!key) return key.error();
  return grpc::SslCredentials({*ca, *key, *certificate});
}

class RemoteDriver final : public Driver {
 public:
  RemoteDriver(RemoteOptions options, std::shared_ptr<grpc::Channel> channel)
      : options_(std::move(options)), stub_(pb::Agent::NewStub(std::move(channel))) {}

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
  Result<ArrivalReport> arrival(const VmKey& vm) override {
    return ask<ArrivalReport, pb::ArrivalReport>(&pb::Agent::Stub::Arrival, to_wire(vm));
  }
  Status discard_incoming(const VmKey& vm) override {
    return tell(&pb::Agent::Stub::DiscardIncoming, to_wire(vm));
  }
  Status announce(const VmSpec& vm) override {
    return tell(&pb::Agent::Stub::Announce, to_wire(vm));
  }

 private:
  template <typename Request, typename Reply>
  using Method = grpc::Status (pb::Agent::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  template <typename Request, typename Reply>
  Status call(Kind kind, Method<Request, Reply> method, const Request& request, Reply* reply) {
    grpc::ClientContext context;
    const Milliseconds limit = kind == Kind::Read     ? options_.read_deadline
                               : kind == Kind::Change ? options_.change_deadline
                                                      : options_.save_deadline;
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                      gpr_time_from_millis(limit.count(), GPR_TIMESPAN)));
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

  Error failure(Kind kind, const grpc::ClientContext& context, const grpc::Status& status) const {
    const auto& trailer = context.GetServerTrailingMetadata();
    const auto detail = trailer.find(agent::kErrorKey);
    if (detail != trailer.end()) {
      auto error = agent::error_from_detail({detail->second.data(), detail->second.size()});
      if (error) return *error;
    }
    const std::string where = "agent of '" + options_.name + "' at " + options_.address;
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
        status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
      return make_error(Code::Unauthenticated, where + ": " + status.error_message());
    }
    // gRPC's own text for a call that found no connection; everything else may have reached the
    // agent.
    const bool never_left = status.error_code() == grpc::StatusCode::UNAVAILABLE &&
                            status.error_message().starts_with("failed to connect");
    if (never_left || kind == Kind::Read) {
      return make_error(Code::Unavailable, where + " does not answer: " + status.error_message(),
                        "is mare-agent running there, with certificates of the same CA?");
    }
    return make_error(Code::OutcomeUnknown,
                      where + " broke off: " + status.error_message() + "; it may be done or not");
  }

  const RemoteOptions options_;
  const std::unique_ptr<pb::Agent::Stub> stub_;
};

}  // namespace

Result<std::unique_ptr<Driver>> make_remote_driver(const RemoteOptions& options, Clock& /*clock*/,
                                                   Log& /*log*/) {
  auto with = credentials(options);
  if (!with) return with.error();
  grpc::ChannelArguments arguments;
  // A restarted agent should be seen at once: gRPC's own back-off goes up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  // One connection an agent, even when two drivers of one address exist for a moment.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!options.insecure) arguments.SetSslTargetNameOverride(options.name);
  auto channel = grpc::CreateCustomChannel(options.address, *with, arguments);
  return std::unique_ptr<Driver>(std::make_unique<RemoteDriver>(options, std::move(channel)));
}

}  // namespace mare::remote
