// The protocol's text: requests, answers, percent-encoding. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orchestrator/core/result.h"

namespace mare::guestlink {

std::string percent_encode(std::string_view text);
/// Nothing for a broken escape.
std::optional<std::string> percent_decode(std::string_view text);

using Fields = std::vector<std::pair<std::string, std::string>>;

/// "MARE1 TOKEN VERB key=value...\n". InvalidArgument if it is longer than a line may be.
Result<std::string> request_line(const std::string& token, std::string_view verb,
                                 const Fields& fields);

struct Answer {
  std::map<std::string, std::string> fields;
  std::uint64_t natural(const std::string& key) const;  // 0 if it is missing or no number
  std::optional<std::int64_t> number(const std::string& key) const;
  std::string text(const std::string& key) const;
};

/// The answer's line without its newline. An ERR becomes an Error with the guest's words.
Result<Answer> parse_answer(std::string_view line);

}  // namespace mare::guestlink
