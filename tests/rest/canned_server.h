// A small HTTP server in the test's process: one thread, one connection after the other, answers as
// a function says.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mare::test {

class CannedServer {
 public:
  /// The bytes to send for the first line of a request; "" says nothing and keeps the connection
  /// until the client leaves.
  using Answer = std::function<std::string(const std::string& request_line)>;
  explicit CannedServer(Answer answer);
  ~CannedServer();
  CannedServer(const CannedServer&) = delete;
  CannedServer& operator=(const CannedServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> request_lines() const;

  static std::string response(const std::string& status, const std::string& body);

 private:
  void serve();
  void talk(int connection);

  Answer answer_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  std::thread thread_;
};

}  // namespace mare::test
