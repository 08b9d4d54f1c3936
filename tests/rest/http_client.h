// HTTP for tests: libcurl for whole requests and streams, a bare socket for what no client sends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rest/wire/json.h"

namespace mare::test {

struct Got {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string failure;  // libcurl's words, "" if all went well

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  /// Fails the test and answers null if the body is not JSON.
  wire::Json json() const;
};

struct Sending {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  bool with_body = false;
};
Got send(const Sending& what);

/// A reply that goes on: its bytes are gathered by a thread of its own.
class Follow {
 public:
  /// `small_window`: the kernel holds little of what is not read.
  Follow(const std::string& url, std::vector<std::string> headers, bool small_window = false);
  /// Leaves, as a client that is closed does.
  ~Follow();
  Follow(const Follow&) = delete;
  Follow& operator=(const Follow&) = delete;

  /// Waits until the bytes so far satisfy `enough`; false after 20 s.
  bool wait(const std::function<bool(const std::string&)>& enough);
  bool wait_for_text(const std::string& text);
  /// Waits for the end; false after 20 s.
  bool wait_end();
  std::string text();
  /// Valid after the end.
  Got result();
  /// From now on nothing more is read from the socket.
  void stop_reading();

 private:
  static std::size_t take(char* data, std::size_t size, std::size_t count, void* self);

  std::mutex mutex_;
  std::condition_variable changed_;
  Got got_;
  bool ended_ = false;
  bool leaving_ = false;
  bool stalled_ = false;
  std::thread thread_;
};

/// Sends bytes as they are and reads until the other side closes, or for at most `patience`.
std::string raw_exchange(int port, const std::string& bytes,
                         std::chrono::milliseconds patience = std::chrono::seconds{15});

}  // namespace mare::test
