#include "hypervisor/dirtylog/send_queue.h"

#include <linux/pkt_sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace mare::dirtylog {
namespace {

constexpr double kLinkSeconds = 0.010;
constexpr Bytes kLeast{128 * 1024};
constexpr Bytes kMost{1024 * 1024};
constexpr Bytes kUnknown{256 * 1024};

bool is_tcp_connection(int socket) {
  int domain = 0;
  int protocol = 0;
  socklen_t size = sizeof domain;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return false;
  size = sizeof protocol;
  if (getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0) return false;
  if ((domain != AF_INET && domain != AF_INET6) || protocol != IPPROTO_TCP) return false;
  sockaddr_storage peer{};
  size = sizeof peer;
  return getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

}  // namespace

Bytes unsent_limit(BytesPerSecond link) {
  if (!(link.value > 0)) return kUnknown;
  const double wanted = std::min(kLinkSeconds * link.value, static_cast<double>(kMost.count));
  return std::max(kLeast, Bytes{static_cast<std::uint64_t>(wanted)});
}

void give_way(int socket) {
  const int bulk = TC_PRIO_BULK;
  (void)setsockopt(socket, SOL_SOCKET, SO_PRIORITY, &bulk, sizeof bulk);
}

Result<SendQueues> SendQueues::open(pid_t pid) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  return SendQueues(std::move(*process));
}

Result<int> SendQueues::bound(Bytes limit) {
  const int bytes = static_cast<int>(std::min<std::uint64_t>(limit.count, kMost.count));
  int bounded = 0;
  for (const auto& [number, name] : process_.sockets()) {
    if (seen_.count(name) != 0) continue;
    auto socket = process_.take(number);
    if (!socket && socket.error().code == Code::NotFound) continue;  // closed meanwhile
    if (!socket) return socket.error();
    // One that is not connected yet is looked at again.
    if (!is_tcp_connection(socket->get())) continue;
    if (setsockopt(socket->get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes) != 0) {
      return make_error(Code::Unavailable, system_text("TCP_NOTSENT_LOWAT"));
    }
    give_way(socket->get());
    seen_.insert(name);
    ++bounded;
  }
  return bounded;
}

}  // namespace mare::dirtylog
