#include "orchestrator/guestlink/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "images/guest/protocol.h"

namespace mare::guestlink {
namespace {

/// Waits for `events`; false when the deadline passed.
bool wait_for(int fd, short events, Clock& clock, MonotonicTime deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - clock.now());
    if (left.count() < 0) return false;
    pollfd watched{fd, events, 0};
    const int ready = poll(&watched, 1, static_cast<int>(left.count()) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the next call on it tells what is wrong
  }
}

Error unreachable(const std::string& peer, const std::string& why) {
  return make_error(Code::Unavailable, "guest at " + peer + " does not answer: " + why);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}
Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

namespace {

/// Nothing is said of a segment to a guest that is not there yet, or is just being moved, and the
/// kernel sends the next one a second later. A new socket's first one goes out at once.
constexpr Milliseconds kFirstPatience{100};

/// A connected socket; nothing if it takes longer than until `deadline`.
Result<std::optional<Socket>> connect_by(const sockaddr_in& address, const std::string& peer,
                                         Clock& clock, MonotonicTime deadline) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) {
    return make_error(Code::ResourceExhausted,
                      std::string("cannot make a socket: ") + std::strerror(errno));
  }
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINPROGRESS) return unreachable(peer, std::strerror(errno));
    if (!wait_for(socket.fd(), POLLOUT, clock, deadline)) return std::optional<Socket>();
    int trouble = 0;
    socklen_t size = sizeof trouble;
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &trouble, &size);
    if (trouble != 0) return unreachable(peer, std::strerror(trouble));
  }
  return std::optional<Socket>(std::move(socket));
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(Ipv4Address ip, std::uint16_t port,
                                                     Clock& clock, Milliseconds timeout) {
  const std::string peer = ip.text() + ":" + std::to_string(port);
  const MonotonicTime deadline = clock.now() + timeout;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(ip.value);
  for (Milliseconds patience = kFirstPatience;; patience *= 2) {
    const MonotonicTime until = std::min<MonotonicTime>(clock.now() + patience, deadline);
    auto socket = connect_by(address, peer, clock, until);
    if (!socket) return socket.error();
    if (*socket) {
      const int on = 1;
      setsockopt((*socket)->fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return std::unique_ptr<Connection>(new Connection(std::move(**socket), peer, clock));
    }
    if (until >= deadline) return unreachable(peer, "time-out");
  }
}

void Connection::hang_up() const {
  (void)shutdown(socket_.fd(), SHUT_RDWR);
}

Error Connection::broken(const std::string& why) const {
  return unreachable(peer_, why);
}

Status Connection::send_all(const std::string& data, MonotonicTime deadline) {
  std::size_t done = 0;
  while (done < data.size()) {
    const auto sent = send(socket_.fd(), data.data() + done, data.size() - done, MSG_NOSIGNAL);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.fd(), POLLOUT, clock_, deadline)) return broken("time-out");
    } else if (errno != EINTR) {
      return broken(std::strerror(errno));
    }
  }
  return ok_status();
}

Status Connection::receive(MonotonicTime deadline) {
  std::array<char, 65536> chunk{};
  while (true) {
    const auto got = recv(socket_.fd(), chunk.data(), chunk.size(), 0);
    if (got > 0) {
      buffer_.append(chunk.data(), static_cast<std::size_t>(got));
      return ok_status();
    }
    if (got == 0) return broken("it closed the connection");
    if (errno == EAGAIN) {
      if (!wait_for(socket_.fd(), POLLIN, clock_, deadline)) return broken("time-out");
    } else if (errno != EINTR) {
      return broken(std::strerror(errno));
    }
  }
}

Result<Exchange> Connection::exchange(const std::string& line, Milliseconds timeout) {
  const MonotonicTime deadline = clock_.now() + timeout;
  buffer_.clear();
  if (auto sent = send_all(line, deadline); !sent) return sent.error();
  auto end = buffer_.find('\n');
  while (end == std::string::npos) {
    if (buffer_.size() > MARE_GUEST_LINE_MAX) return broken("its answer has no end");
    if (auto more = receive(deadline); !more) return more.error();
    end = buffer_.find('\n');
  }
  auto answer = parse_answer(std::string_view(buffer_).substr(0, end));
  if (!answer) return answer.error();
  Exchange out{std::move(*answer), buffer_.substr(end + 1)};
  const std::uint64_t length = out.answer.natural("len");
  if (length > MARE_GUEST_OUTPUT_MAX) return broken("its answer is larger than was asked for");
  buffer_ = std::move(out.payload);
  while (buffer_.size() < length) {
    if (auto more = receive(deadline); !more) return more.error();
  }
  out.payload = std::move(buffer_);
  return out;
}

}  // namespace mare::guestlink
