#include "rest/server/listen_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mare::rest {
namespace {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error bind_error(const Endpoint& listen, int number) {
  const std::string where = listen.text();
  if (number == EADDRINUSE) {
    return make_error(Code::FailedPrecondition,
                      "the REST address " + where + " is taken by another program",
                      "end that program (is another mared running? 'ss -ltnp' names it), or give "
                      "another port with --listen");
  }
  if (number == EADDRNOTAVAIL) {
    return make_error(Code::FailedPrecondition,
                      "no interface of this machine has the REST address " + listen.host,
                      "give an address of this machine with --listen");
  }
  if (number == EACCES) {
    return make_error(Code::FailedPrecondition, "the REST address " + where + " is privileged",
                      "give a port above 1023 with --listen, or run as root");
  }
  return make_error(Code::FailedPrecondition,
                    "the REST address " + where + " can't be used: " + std::strerror(number),
                    "give another one with --listen");
}

}  // namespace

Result<Endpoint> checked_listen(const Endpoint& listen, bool allow_remote) {
  const std::string host = listen.host == "localhost" ? "127.0.0.1" : listen.host;
  const auto address = Ipv4Address::parse(host);
  if (!address) {
    return field_error("listen", "the REST address '" + listen.text() + "' is no IPv4 address",
                       "write it as 127.0.0.1:7410");
  }
  const bool loopback = (address->value >> 24U) == 127;
  if (!loopback && !allow_remote) {
    return make_error(Code::FailedPrecondition,
                      "the REST API would speak plain HTTP on " + listen.text() +
                          ", where others can read its token",
                      "listen on 127.0.0.1 with a TLS proxy in front (docs/api.md), or force it "
                      "with --allow-remote");
  }
  return Endpoint{host, listen.port};
}

Result<std::uint16_t> probe_port(const Endpoint& listen) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(listen.port);
  if (inet_pton(AF_INET, listen.host.c_str(), &address.sin_addr) != 1) {
    return bind_error(listen, EADDRNOTAVAIL);
  }
  const Socket probe{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (probe.fd() < 0) return bind_error(listen, errno);
  // As the server itself does: connections of a former process in TIME_WAIT don't count.
  const int on = 1;
  setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(probe.fd(), raw, sizeof address) != 0) return bind_error(listen, errno);
  // Two sockets with SO_REUSEADDR may both be bound; only listen() tells that a server is there.
  if (::listen(probe.fd(), 1) != 0) return bind_error(listen, errno);
  socklen_t size = sizeof address;
  if (getsockname(probe.fd(), raw, &size) != 0) return bind_error(listen, errno);
  return ntohs(address.sin_port);
}

}  // namespace mare::rest
