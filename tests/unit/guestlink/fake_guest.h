// A TCP peer on loopback that plays a guest daemon of the test's making.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace mare::guestlink {

/// Serves one connection after another, in its own thread. `answer` gets a request line without
/// its newline and the connection's number (from 1); it returns what to send, and says by `keep`
/// whether the connection stays open.
class FakeGuest {
 public:
  using Answer = std::function<std::string(const std::string& line, int connection, bool& keep)>;
  explicit FakeGuest(Answer answer);
  ~FakeGuest();
  std::uint16_t port() const { return port_; }
  int connections() const { return connections_.load(); }

 private:
  void serve();
  void converse(int fd, int connection);

  Answer answer_;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::thread thread_;
};

}  // namespace mare::guestlink
