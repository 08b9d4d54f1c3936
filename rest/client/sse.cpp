#include "rest/client/sse.h"

namespace mare::rest {

bool SseParser::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (after_cr_ && c == '\n') {  // CR LF is one end of line
      after_cr_ = false;
      continue;
    }
    after_cr_ = c == '\r';
    if (c != '\n' && c != '\r') {
      line_.push_back(c);
      if (line_.size() + data_.size() > kMostBytes) {
        too_long_ = true;
        return false;
      }
      continue;
    }
    const std::string line = std::move(line_);
    line_.clear();
    if (!take_line(line)) return false;
  }
  return true;
}

bool SseParser::take_line(std::string_view line) {
  if (line.empty()) return dispatch();
  if (line.front() == ':') return true;  // a comment: the server's heartbeat
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    take_field(line, "");
    return true;
  }
  std::string_view value = line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  take_field(line.substr(0, colon), value);
  return true;
}

void SseParser::take_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  } else if (name == "event") {
    name_ = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    last_id_ = value;
  }
}

bool SseParser::dispatch() {
  ServerEvent event{last_id_, name_.empty() ? "message" : name_, std::move(data_)};
  const bool complete = has_data_;
  data_.clear();
  name_.clear();
  has_data_ = false;
  return !complete || on_event_(event);
}

}  // namespace mare::rest
