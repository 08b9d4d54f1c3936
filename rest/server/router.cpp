#include "rest/server/router.h"

#include <algorithm>
#include <charconv>

namespace mare::rest {
namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> out;
  while (true) {
    const auto found = text.find(at);
    out.emplace_back(text.substr(0, found));
    if (found == std::string_view::npos) return out;
    text.remove_prefix(found + 1);
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(
    std::string_view query) {
  std::vector<std::pair<std::string, std::string>> out;
  if (query.empty()) return out;
  for (const auto& item : split(query, '&')) {
    if (item.empty()) continue;
    const auto equals = item.find('=');
    auto name = percent_decode(std::string_view(item).substr(0, equals), true);
    auto value = equals == std::string::npos
                     ? std::optional<std::string>{""}
                     : percent_decode(std::string_view(item).substr(equals + 1), true);
    if (!name || !value) return std::nullopt;
    out.emplace_back(std::move(*name), std::move(*value));
  }
  return out;
}

void Router::add(Route route) {
  parts_.push_back(parts_of(route.pattern));
  routes_.push_back(std::move(route));
}

std::vector<Router::Part> Router::parts_of(const std::string& pattern) {
  std::vector<Part> out;
  for (const auto& segment : split(pattern, '/')) {
    Part part;
    if (!segment.empty() && segment.front() == '{') {
      const auto end = segment.find('}');
      part.capture = true;
      part.text = segment.substr(1, end - 1);
      part.verb = segment.substr(end + 1);
    } else {
      part.text = segment;
    }
    out.push_back(std::move(part));
  }
  return out;
}

bool Router::fits(const std::vector<Part>& parts, const std::vector<std::string>& segments,
                  std::map<std::string, std::string>& captures) {
  if (parts.size() != segments.size()) return false;
  captures.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (!part.capture) {
      if (part.text != segments[i]) return false;
      continue;
    }
    // Ids hold no colon, so what follows one is a verb.
    const auto colon = segments[i].find(':');
    const std::string verb = colon == std::string::npos ? "" : segments[i].substr(colon);
    const auto id = percent_decode(std::string_view(segments[i]).substr(0, colon), false);
    if (verb != part.verb || !id || id->empty()) return false;
    captures[part.text] = *id;
  }
  return true;
}

Match Router::match(std::string_view method, std::string_view path) const {
  const auto segments = split(path, '/');
  Match out;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    std::map<std::string, std::string> captures;
    if (!fits(parts_[i], segments, captures)) continue;
    if (routes_[i].method == method) {
      return {&routes_[i], {}, std::move(captures)};
    }
    out.allowed.push_back(routes_[i].method);
  }
  return out;
}

std::optional<std::string> QueryReader::text(const std::string& name) {
  asked_.push_back(name);
  std::optional<std::string> out;
  for (const auto& [key, value] : call_.query) {
    if (key != name) continue;
    if (out) fault(name, "is given twice; give it once");
    out = value;
  }
  if (out && out->empty()) {
    fault(name, "is empty; give a value or leave it out");
    return std::nullopt;
  }
  return out;
}

std::optional<std::uint64_t> QueryReader::natural(const std::string& name, std::uint64_t least,
                                                  std::uint64_t most) {
  const auto written = text(name);
  if (!written) return std::nullopt;
  std::uint64_t value = 0;
  const char* end = written->data() + written->size();
  const auto parsed = std::from_chars(written->data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || value < least || value > most) {
    fault(name, "'" + *written + "' is out of range; give a whole number from " +
                    std::to_string(least) + " to " + std::to_string(most));
    return std::nullopt;
  }
  return value;
}

bool QueryReader::flag(const std::string& name) {
  const auto written = text(name);
  if (!written || *written == "false") return false;
  if (*written != "true") fault(name, "is '" + *written + "'; give true or false");
  return true;
}

void QueryReader::finish() {
  for (const auto& [key, value] : call_.query) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    std::string known;
    for (const auto& name : asked_) known += (known.empty() ? "" : ", ") + name;
    fault(key, "is not known here; known are: " + (known.empty() ? "no parameters" : known));
  }
}

}  // namespace mare::rest
