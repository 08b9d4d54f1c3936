// A TCP connection to one guest daemon: a line out, a line and perhaps a payload back. One thread
// at a time.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/net.h"
#include "orchestrator/core/units.h"
#include "orchestrator/guestlink/wire.h"

namespace mare::guestlink {

/// Owns a file descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct Exchange {
  Answer answer;
  std::string payload;
};

class Connection {
 public:
  /// Unavailable when nobody answers in time.
  static Result<std::unique_ptr<Connection>> open(Ipv4Address ip, std::uint16_t port, Clock& clock,
                                                  Milliseconds timeout);
  /// Unavailable: it broke or took too long, and this connection is of no more use.
  Result<Exchange> exchange(const std::string& line, Milliseconds timeout);
  /// From any thread: an exchange that waits ends at once, as broken.
  void hang_up() const;

 private:
  Connection(Socket socket, std::string peer, Clock& clock)
      : socket_(std::move(socket)), peer_(std::move(peer)), clock_(clock) {}
  Status send_all(const std::string& data, MonotonicTime deadline);
  /// Reads more into buffer_.
  Status receive(MonotonicTime deadline);
  Error broken(const std::string& why) const;

  Socket socket_;
  std::string peer_;
  Clock& clock_;
  std::string buffer_;
};

}  // namespace mare::guestlink
