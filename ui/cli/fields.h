// Members of a JSON answer, leniently: what is absent, null or of another kind reads as empty.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rest/wire/json.h"

namespace mare::cli {

using wire::Json;

inline const Json& member(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}
inline std::string text(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? std::string{} : wire::to_text(value);
}
inline std::optional<double> number(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_number() ? std::optional<double>{value.get<double>()} : std::nullopt;
}
inline bool flag(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_boolean() && value.get<bool>();
}
/// ["a","b"] -> "a,b"
inline std::string joined(const Json& object, const char* name, const char* separator = ",") {
  std::string all;
  const Json& list = member(object, name);
  if (!list.is_array()) return all;
  for (const Json& item : list) {
    if (!all.empty()) all += separator;
    all += item.is_string() ? item.get<std::string>() : wire::to_text(item);
  }
  return all;
}

}  // namespace mare::cli
