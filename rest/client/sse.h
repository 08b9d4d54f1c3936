// Server-sent events (WHATWG HTML, section 9.2): bytes in, events out. Pure; no limit is needed on
// the number of events, one is kept on the size of each.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "orchestrator/core/result.h"

namespace mare::rest {

struct ServerEvent {
  std::string id;    // the last one seen, as the standard wants
  std::string name;  // "message" when the server gave none
  std::string data;  // lines joined by '\n'
};

class SseParser {
 public:
  using OnEvent = std::function<bool(const ServerEvent&)>;  // false: no more, please

  explicit SseParser(OnEvent on_event) : on_event_(std::move(on_event)) {}

  /// Cut anywhere, also inside a line. False once the receiver wants no more or an event is too
  /// long.
  bool feed(std::string_view bytes);
  const std::string& last_id() const { return last_id_; }
  bool too_long() const { return too_long_; }

 private:
  bool take_line(std::string_view line);
  void take_field(std::string_view name, std::string_view value);
  bool dispatch();

  // An event of ours is some hundred bytes; this bounds what a broken server can make us hold.
  static constexpr std::size_t kMostBytes = 4 * 1024 * 1024;

  OnEvent on_event_;
  std::string line_;
  std::string data_;
  std::string name_;
  std::string last_id_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool too_long_ = false;
};

}  // namespace mare::rest
