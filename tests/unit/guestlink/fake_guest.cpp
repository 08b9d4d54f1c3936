#include "fake_guest.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace mare::guestlink {

FakeGuest::FakeGuest(Answer answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (bind(listener_, any, size) != 0 || listen(listener_, 8) != 0 ||
      getsockname(listener_, any, &size) != 0 || pipe(wake_) != 0) {
    ADD_FAILURE() << "cannot listen on loopback";
    return;
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

FakeGuest::~FakeGuest() {
  if (wake_[1] >= 0) close(wake_[1]);  // its reader becomes readable
  if (thread_.joinable()) thread_.join();
  if (wake_[0] >= 0) close(wake_[0]);
  close(listener_);
}

void FakeGuest::serve() {
  while (true) {
    std::array<pollfd, 2> watched{{{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}}};
    if (poll(watched.data(), watched.size(), -1) < 0 || watched[1].revents != 0) return;
    const int fd = accept(listener_, nullptr, nullptr);
    if (fd < 0) return;
    converse(fd, ++connections_);
    close(fd);
  }
}

void FakeGuest::converse(int fd, int connection) {
  std::string received;
  std::array<char, 4096> chunk{};
  while (true) {
    const auto end = received.find('\n');
    if (end != std::string::npos) {
      bool keep = true;
      const std::string reply = answer_(received.substr(0, end), connection, keep);
      received.erase(0, end + 1);
      if (send(fd, reply.data(), reply.size(), MSG_NOSIGNAL) < 0 || !keep) return;
      continue;
    }
    std::array<pollfd, 2> watched{{{fd, POLLIN, 0}, {wake_[0], POLLIN, 0}}};
    if (poll(watched.data(), watched.size(), -1) < 0 || watched[1].revents != 0) return;
    const auto got = recv(fd, chunk.data(), chunk.size(), 0);
    if (got <= 0) return;
    received.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace mare::guestlink
