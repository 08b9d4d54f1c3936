// Words for values of an enumeration, from tables of pairs of a value and its word.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace mare {

template <typename T>
using Name = std::pair<T, std::string_view>;

/// "?" for a value that is not in the table.
template <typename T, std::size_t N>
constexpr std::string_view name_of(const std::array<Name<T>, N>& table, T value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "?";
}

template <typename T, std::size_t N>
constexpr std::optional<T> value_of(const std::array<Name<T>, N>& table, std::string_view text) {
  for (const auto& [value, name] : table) {
    if (name == text) return value;
  }
  return std::nullopt;
}

}  // namespace mare
