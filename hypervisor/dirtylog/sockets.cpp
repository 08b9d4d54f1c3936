#include "hypervisor/dirtylog/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

namespace mare::dirtylog {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Endpoint keeps the brackets of "[v6]".
std::string without_brackets(const std::string& host) {
  const bool in = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return in ? host.substr(1, host.size() - 2) : host;
}

Result<Addresses> resolve(const std::string& host, std::uint16_t port, int flags, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed =
      getaddrinfo(without_brackets(host).c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failed == 0) return Addresses(list);
  return make_error(Code::Unavailable, "address '" + host + "': " + gai_strerror(failed));
}

Fd make_socket(const addrinfo& address) {
  return Fd{socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                   address.ai_protocol)};
}

std::uint16_t port_of(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

Result<Fd> bound(const std::string& address, int type, std::uint16_t& port) {
  auto list = resolve(address, 0, AI_PASSIVE, type);
  if (!list) return list.error();
  Fd fd = make_socket(**list);
  if (fd && bind(fd.get(), (*list)->ai_addr, (*list)->ai_addrlen) == 0) {
    port = port_of(fd.get());
    return fd;
  }
  return make_error(Code::Unavailable, system_text("can't listen on " + address));
}

}  // namespace

Result<Fd> listen_on(const std::string& address, std::uint16_t& port) {
  Result<Fd> fd = bound(address, SOCK_STREAM, port);
  if (fd && listen(fd->get(), 1) == 0) return fd;
  return fd ? make_error(Code::Unavailable, system_text("can't listen on " + address)) : fd.error();
}

Result<Fd> datagrams_at(const std::string& address, std::uint16_t& port) {
  return bound(address, SOCK_DGRAM, port);
}

Result<Fd> datagrams_to(const Endpoint& to) {
  auto list = resolve(to.host, to.port, 0, SOCK_DGRAM);
  if (!list) return list.error();
  Fd fd = make_socket(**list);
  if (fd && connect(fd.get(), (*list)->ai_addr, (*list)->ai_addrlen) == 0) return fd;
  return make_error(Code::Unavailable, system_text("no way to " + to.text()));
}

Result<Fd> connect_to(const Endpoint& to, Clock& clock, MonotonicTime deadline) {
  auto list = resolve(to.host, to.port, 0, SOCK_STREAM);
  if (!list) return list.error();
  Fd fd = make_socket(**list);
  const std::string what = "no connection to " + to.text();
  if (!fd) return make_error(Code::Unavailable, system_text(what));
  if (connect(fd.get(), (*list)->ai_addr, (*list)->ai_addrlen) == 0) return fd;
  if (errno == EINPROGRESS) {
    if (!await(fd.get(), POLLOUT, -1, clock, deadline)) {
      return make_error(Code::Unavailable, what + ": it does not answer");
    }
    int failed = 0;
    socklen_t size = sizeof failed;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size) == 0 && failed == 0) return fd;
    if (failed != 0) errno = failed;
  }
  return make_error(Code::Unavailable, system_text(what));
}

bool await(int fd, short events, int stop, Clock& clock, MonotonicTime deadline) {
  std::array<pollfd, 2> both{{{fd, events, 0}, {stop, POLLIN, 0}}};
  while (true) {
    const MonotonicTime left = deadline - clock.now();
    if (left <= MonotonicTime{0}) return false;
    const auto ms = std::chrono::ceil<Milliseconds>(left).count();
    const int ready = poll(both.data(), both.size(), static_cast<int>(ms));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    if (both[1].revents != 0) return false;
    if (both[0].revents != 0) return true;
  }
}

bool send_all(int fd, std::span<const std::byte> bytes, int stop, Clock& clock,
              MonotonicTime deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!await(fd, POLLOUT, stop, clock, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool receive_all(int fd, std::span<std::byte> bytes, int stop, Clock& clock,
                 MonotonicTime deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      if (!await(fd, POLLIN, stop, clock, deadline)) return false;
    } else if (got == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

void make_prompt(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void ask_for_stamps(int fd) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

ssize_t receive_stamped(int fd, std::span<std::byte> bytes, std::chrono::nanoseconds& stamp) {
  iovec into{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(timespec))> extra{};
  msghdr message{};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = extra.data();
  message.msg_controllen = extra.size();
  stamp = std::chrono::nanoseconds{0};
  const ssize_t got = recvmsg(fd, &message, 0);
  if (got <= 0) return got;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec at{};
    std::memcpy(&at, CMSG_DATA(part), sizeof at);
    stamp = std::chrono::seconds{at.tv_sec} + std::chrono::nanoseconds{at.tv_nsec};
  }
  return got;
}

}  // namespace mare::dirtylog
