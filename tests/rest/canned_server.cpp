#include "tests/rest/canned_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace mare::test {
namespace {

void must(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::abort();
}

}  // namespace

CannedServer::CannedServer(Answer answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  must(bind(listener_, generic, length) == 0, "bind");
  must(listen(listener_, 16) == 0, "listen");
  must(getsockname(listener_, generic, &length) == 0, "getsockname");
  port_ = ntohs(address.sin_port);
  must(pipe(stop_) == 0, "pipe");
  thread_ = std::thread([this] { serve(); });
}

CannedServer::~CannedServer() {
  close(stop_[1]);
  thread_.join();
  close(stop_[0]);
  close(listener_);
}

std::vector<std::string> CannedServer::request_lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

std::string CannedServer::response(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

void CannedServer::serve() {
  while (true) {
    pollfd waiting[2] = {{listener_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    poll(waiting, 2, -1);
    if (waiting[1].revents != 0) return;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    talk(connection);
    close(connection);
  }
}

void CannedServer::talk(int connection) {
  std::string request;
  char part[4096];
  const auto more = [&] {
    pollfd waiting[2] = {{connection, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    poll(waiting, 2, -1);
    if (waiting[1].revents != 0) return false;
    const auto n = recv(connection, part, sizeof part, 0);
    if (n > 0) request.append(part, static_cast<std::size_t>(n));
    return n > 0;
  };
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (!more()) return;
  }
  const std::string line = request.substr(0, request.find("\r\n"));
  {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  const std::string reply = answer_(line);
  std::size_t sent = 0;
  while (sent < reply.size()) {
    const auto n = send(connection, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
  while (reply.empty() && more()) {
  }
}

}  // namespace mare::test
