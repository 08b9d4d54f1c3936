#include "hypervisor/dirtylog/tcp_queues.h"

#include <linux/pkt_sched.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace mare::dirtylog {
namespace {

constexpr double kLinkSeconds = 0.010;
constexpr Bytes kLeast{128 * 1024};
constexpr Bytes kMost{1024 * 1024};
constexpr Bytes kUnknown{256 * 1024};

constexpr double kCopierLate_s = 0.015;
constexpr double kUnpackerLate_s = 0.005;
constexpr Bytes kLeastUnread{512 * 1024};
constexpr Bytes kMostUnread{4 * 1024 * 1024};
constexpr BytesPerSecond kFastLink{1.25e9};

int option_of(int socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
}

bool is_tcp(int socket) {
  const int domain = option_of(socket, SO_DOMAIN);
  return (domain == AF_INET || domain == AF_INET6) && option_of(socket, SO_PROTOCOL) == IPPROTO_TCP;
}

bool is_connected(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

Status send_at_once(int socket) {
  const int at_once = 1;
  if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once) == 0) {
    return ok_status();
  }
  return make_error(Code::Unavailable, system_text("TCP_NODELAY"));
}

/// The least so far, so not what a queue on the way added; 0 if the kernel does not tell.
Microseconds least_round_trip(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return Microseconds{0};
  const bool told = size >= offsetof(tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt;
  // Before its first sample it is ~0.
  const bool sampled = told && info.tcpi_min_rtt != ~std::uint32_t{0};
  return Microseconds{sampled ? info.tcpi_min_rtt : info.tcpi_rtt};
}

/// After a cut the kernel waits twice as long before each try, up to two minutes, and a VM in
/// post-copy stands still meanwhile: with a link that was gone for 40 s a move ended 30 s after it
/// was back, and so 17. The tries that it makes by default are over in half a minute at this pace,
/// so a time is set instead.
void try_again_soon(int socket) {
  constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS: Linux 6.15, newer than the headers
  const int longest_ms = 2000;
  const int give_up_ms = 10 * 60 * 1000;
  if (setsockopt(socket, IPPROTO_TCP, kRtoMaxMs, &longest_ms, sizeof longest_ms) != 0) return;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof give_up_ms);
}

Status set_unread(int socket, Bytes limit) {
  // The kernel takes it twice, for what it counts beside the bytes (socket(7)).
  const int half = static_cast<int>(limit.count / 2);
  if (setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &half, sizeof half) != 0 &&
      setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &half, sizeof half) != 0) {
    return make_error(Code::Unavailable, system_text("SO_RCVBUF"));
  }
  int got = 0;
  socklen_t size = sizeof got;
  if (getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &got, &size) == 0 && got < 2 * half) {
    return make_error(Code::Unavailable, "SO_RCVBUF: the host allows " + std::to_string(got / 2) +
                                             " bytes (net.core.rmem_max)");
  }
  // What was promised to the sender before: taken back as it comes, not first filled.
  (void)setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &half, sizeof half);
  return ok_status();
}

}  // namespace

Bytes unsent_limit(BytesPerSecond link, int connections) {
  const double known = std::min(kLinkSeconds * link.value, static_cast<double>(kMost.count));
  const double wanted = link.value > 0 ? known : static_cast<double>(kUnknown.count);
  return std::max(kLeast, Bytes{static_cast<std::uint64_t>(wanted / std::max(1, connections))});
}

std::optional<Bytes> unread_limit(BytesPerSecond link, Microseconds round_trip, int connections,
                                  Reader reader) {
  const double rate = link.value > 0 ? link.value : kFastLink.value;
  const double own_s = reader == Reader::Copies ? kCopierLate_s : kUnpackerLate_s;
  const double late_s = own_s + 2 * std::chrono::duration<double>(round_trip).count();
  const double wanted = 2 * late_s * rate / std::max(1, connections);
  if (wanted >= static_cast<double>(kMostUnread.count)) return std::nullopt;
  return std::max(kLeastUnread, Bytes{static_cast<std::uint64_t>(wanted)});
}

void give_way(int socket) {
  const int bulk = TC_PRIO_BULK;
  (void)setsockopt(socket, SOL_SOCKET, SO_PRIORITY, &bulk, sizeof bulk);
}

Result<TcpQueues> TcpQueues::open(pid_t pid) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  return TcpQueues(std::move(*process));
}

Result<int> TcpQueues::each_new(const std::function<Status(int socket)>& set,
                                const std::function<Status(int socket)>& listening) {
  int count = 0;
  for (const auto& [number, name] : process_.sockets()) {
    if (seen_.count(name) != 0) continue;
    auto socket = process_.take(number);
    if (!socket && socket.error().code == Code::NotFound) continue;  // closed meanwhile
    if (!socket) return socket.error();
    if (!is_tcp(socket->get())) {
      seen_.insert(name);  // and will be none: an inode is not given again so soon
      continue;
    }
    if (listening && option_of(socket->get(), SO_ACCEPTCONN) != 0) {
      if (auto done = listening(socket->get()); !done) return done.error();
    }
    // One that is not connected yet is looked at again.
    if (!is_connected(socket->get())) continue;
    if (auto done = set(socket->get()); !done) return done.error();
    seen_.insert(name);
    ++count;
  }
  return count;
}

Result<int> TcpQueues::bound_unsent(Bytes limit, Way way) {
  const int bytes = static_cast<int>(std::min<std::uint64_t>(limit.count, kMost.count));
  return each_new([&](int socket) -> Status {
    if (setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes) != 0) {
      return make_error(Code::Unavailable, system_text("TCP_NOTSENT_LOWAT"));
    }
    if (way == Way::Bulk) give_way(socket);
    try_again_soon(socket);
    return ok_status();
  });
}

Result<int> TcpQueues::bound_unread(BytesPerSecond link, int connections, Reader reader) {
  const auto bound = [&](int socket) -> Status {
    try_again_soon(socket);
    if (auto done = send_at_once(socket); !done) return done;
    const auto limit = unread_limit(link, least_round_trip(socket), connections, reader);
    return limit ? set_unread(socket, *limit) : ok_status();
  };
  // An accepted connection is as the socket that it came by; in post-copy the VM loads its devices,
  // and asks for their pages, before anybody looks at it.
  return each_new(bound, send_at_once);
}

}  // namespace mare::dirtylog
