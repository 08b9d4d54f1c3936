// The JSON value that REST bodies are made of. Members keep their order, so that answers read well.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace mare::wire {

using Json = nlohmann::ordered_json;

/// Text of a value. Foreign bytes that are not UTF-8 are shown as U+FFFD instead of being refused.
inline std::string to_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

inline Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace mare::wire
