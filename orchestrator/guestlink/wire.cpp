#include "orchestrator/guestlink/wire.h"

#include <charconv>

#include "images/guest/protocol.h"

namespace mare::guestlink {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Code code_of(std::string_view word) {
  if (word == MARE_GUEST_ERR_BAD_REQUEST) return Code::InvalidArgument;
  if (word == MARE_GUEST_ERR_DENIED) return Code::Unauthenticated;
  if (word == MARE_GUEST_ERR_NOT_FOUND) return Code::NotFound;
  if (word == MARE_GUEST_ERR_EXISTS) return Code::Conflict;
  if (word == MARE_GUEST_ERR_BUSY) return Code::Unavailable;
  return Code::Internal;
}

std::string_view take_word(std::string_view& rest) {
  const auto space = rest.find(' ');
  const auto word = rest.substr(0, space);
  rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  return word;
}

Error nonsense(std::string_view line) {
  return make_error(
      Code::Internal,
      "the guest answered '" + std::string(line.substr(0, 80)) + "', which is not its protocol",
      "is something else listening on the guest daemon's port?");
}

}  // namespace

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x21 || byte >= 0x7f || c == '%') {
      out.push_back('%');
      out.push_back(kHex[byte >> 4U]);
      out.push_back(kHex[byte & 0xfU]);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

Result<std::string> request_line(const std::string& token, std::string_view verb,
                                 const Fields& fields) {
  std::string line = std::string(MARE_GUEST_MAGIC) + " " + token + " " + std::string(verb);
  for (const auto& [key, value] : fields) line += " " + key + "=" + percent_encode(value);
  line += "\n";
  if (line.size() <= MARE_GUEST_LINE_MAX) return line;
  return make_error(
      Code::InvalidArgument,
      "a request of " + std::to_string(line.size()) + " bytes is too long for a guest",
      "shorten the job's command and environment");
}

std::uint64_t Answer::natural(const std::string& key) const {
  const auto value = number(key);
  return value && *value > 0 ? static_cast<std::uint64_t>(*value) : 0;
}

std::optional<std::int64_t> Answer::number(const std::string& key) const {
  const auto found = fields.find(key);
  if (found == fields.end()) return std::nullopt;
  std::int64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto parsed = std::from_chars(found->second.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

std::string Answer::text(const std::string& key) const {
  const auto found = fields.find(key);
  return found == fields.end() ? std::string() : found->second;
}

Result<Answer> parse_answer(std::string_view line) {
  std::string_view rest = line;
  const auto verdict = take_word(rest);
  if (verdict == "ERR") {
    const auto code = take_word(rest);
    const auto message = percent_decode(take_word(rest));
    if (!message) return nonsense(line);
    return make_error(code_of(code), "guest: " + *message);
  }
  if (verdict != "OK") return nonsense(line);
  Answer answer;
  while (!rest.empty()) {
    const auto word = take_word(rest);
    if (word.empty()) continue;
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) return nonsense(line);
    auto value = percent_decode(word.substr(equals + 1));
    if (!value) return nonsense(line);
    answer.fields.emplace(word.substr(0, equals), std::move(*value));
  }
  return answer;
}

}  // namespace mare::guestlink
