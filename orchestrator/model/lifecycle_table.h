// How the tables of lifecycles are written down and read. Private to this room.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace mare::lifecycle {

template <typename State, typename Event>
struct Row {
  State from;
  Event event;
  State to;
};

template <typename T, std::size_t N>
std::string_view name_of(const std::array<std::pair<T, std::string_view>, N>& names, T value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "?";
}

template <typename T, std::size_t N>
bool value_of(const std::array<std::pair<T, std::string_view>, N>& names, std::string_view text,
              T& out) {
  for (const auto& [value, name] : names) {
    if (name == text) {
      out = value;
      return true;
    }
  }
  return false;
}

template <typename State, typename Event, std::size_t N>
std::optional<State> look_up(const std::array<Row<State, Event>, N>& table, State from,
                             Event event) {
  for (const auto& row : table) {
    if (row.from == from && row.event == event) return row.to;
  }
  return std::nullopt;
}

}  // namespace mare::lifecycle
