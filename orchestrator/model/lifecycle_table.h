// How the tables of lifecycles are written down and read. Private to this room.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "orchestrator/model/names.h"

namespace mare::lifecycle {

template <typename State, typename Event>
struct Row {
  State from;
  Event event;
  State to;
};

/// Nothing if the event means nothing there.
template <typename State, typename Event, std::size_t N>
std::optional<State> look_up(const std::array<Row<State, Event>, N>& table, State from,
                             Event event) {
  for (const auto& row : table) {
    if (row.from == from && row.event == event) return row.to;
  }
  return std::nullopt;
}

/// False, and `out` as it was, for a word that is not in the table.
template <typename T, std::size_t N>
bool value_of(const std::array<Name<T>, N>& table, std::string_view text, T& out) {
  const auto found = mare::value_of(table, text);
  if (found) out = *found;
  return found.has_value();
}

}  // namespace mare::lifecycle
