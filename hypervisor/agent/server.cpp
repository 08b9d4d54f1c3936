#include "hypervisor/agent/server.h"

#include <grpcpp/grpcpp.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hypervisor/agent/service.h"

namespace mare::agent {
namespace {

/// Every call passes here before the service sees it.
class OnlyController final : public grpc::AuthMetadataProcessor {
 public:
  explicit OnlyController(std::string name) : name_(std::move(name)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata&, grpc::AuthContext* peer, OutputMetadata*,
                       OutputMetadata*) override {
    for (const auto& name : peer->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
      if (std::string_view(name.data(), name.size()) == name_) return grpc::Status::OK;
    }
    return {grpc::StatusCode::PERMISSION_DENIED,
            "only a certificate with the common name '" + name_ + "' may command this agent"};
  }

 private:
  const std::string name_;
};

std::shared_ptr<grpc::ServerCredentials> credentials(const ServerOptions& options) {
  if (!options.tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions ssl(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ssl.pem_root_certs = options.tls->ca;
  ssl.pem_key_cert_pairs.push_back({options.tls->key, options.tls->certificate});
  auto made = grpc::SslServerCredentials(ssl);
  made->SetAuthMetadataProcessor(std::make_shared<OnlyController>(options.controller));
  return made;
}

/// gRPC does not tell why it could not listen; trying once more by hand does.
std::string why_not(const Endpoint& listen) {
  std::string host = listen.host;
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(listen.port).c_str(), &hints, &found);
  if (failed != 0) return std::string("'") + host + "': " + gai_strerror(failed);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const int on = 1;  // as gRPC does: else a port in TIME_WAIT would look taken
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = ::bind(fd, found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd, 1) == 0;
  const int error = bound ? 0 : errno;
  ::close(fd);
  switch (error) {
    case 0:
      return "gRPC refused";
    case EADDRINUSE:
      return "port " + std::to_string(listen.port) + " is taken by another process";
    case EADDRNOTAVAIL:
      return host + " is not an address of this host";
    default:
      return std::strerror(error);
  }
}

class GrpcServer final : public Server {
 public:
  explicit GrpcServer(Driver& driver) : service_(driver) {}
  ~GrpcServer() override {
    if (server_) shutdown(Milliseconds{0});
  }

  Status start(const ServerOptions& options) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options.listen.text(), credentials(options), &port_);
    // Else a second agent would share the port with the first and each get half of the calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // The remote driver pings every 10 s while it waits for a long call.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    grpc::ResourceQuota quota("mare-agent");
    quota.SetMaxThreads(kMaxThreads);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ && port_ != 0) return ok_status();
    return make_error(Code::Unavailable,
                      "can't listen on " + options.listen.text() + ": " + why_not(options.listen),
                      "end the other process, or give another --listen");
  }

  int port() const override { return port_; }

  void shutdown(Milliseconds grace) override {
    server_->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                   gpr_time_from_millis(grace.count(), GPR_TIMESPAN)));
    server_->Wait();
    server_.reset();
  }

 private:
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<Server>> start_server(const ServerOptions& options, Driver& driver,
                                             Log& log) {
  auto server = std::make_unique<GrpcServer>(driver);
  if (auto started = server->start(options); !started) return started.error();
  log.info("agent", "listening on " + options.listen.host + ":" + std::to_string(server->port()) +
                        (options.tls ? ", for '" + options.controller + "' by mutual TLS"
                                     : ", WITHOUT TLS"));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace mare::agent
