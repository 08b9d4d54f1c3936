#include "ui/cli/table.h"

#include <algorithm>
#include <cctype>

#include "ui/cli/terminal.h"

namespace mare::cli {
namespace {

/// Code points, which is what most terminals advance by for the texts that we print.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::size_t have = width_of(text);
  const std::string blanks(have < width ? width - have : 0, ' ');
  return right ? blanks + text : text + blanks;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string list_text(const Columns& columns, const Json& items, bool wide, bool colour) {
  std::vector<const Column*> shown;
  for (const Column& column : columns) {
    if (column.shown == Shown::Always || (wide && column.shown == Shown::Wide)) {
      shown.push_back(&column);
    }
  }
  std::vector<std::vector<std::string>> cells;
  std::vector<std::size_t> widths;
  for (const Column* column : shown) widths.push_back(column->title.size());
  for (const Json& item : items) {
    auto& row = cells.emplace_back();
    for (std::size_t i = 0; i < shown.size(); ++i) {
      std::string value = printable(shown[i]->value(item));
      row.push_back(value.empty() ? "-" : std::move(value));
      widths[i] = std::max(widths[i], width_of(row.back()));
    }
  }
  std::string out;
  const auto add_line = [&](auto cell) {
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (i > 0) out += "  ";
      out += cell(i, i + 1 == shown.size() && !shown[i]->right ? 0 : widths[i]);
    }
    out += '\n';
  };
  add_line([&](std::size_t i, std::size_t width) {
    return coloured(padded(shown[i]->title, width, shown[i]->right), Colour::Bold, colour);
  });
  for (const auto& row : cells) {
    add_line([&](std::size_t i, std::size_t width) {
      const Colour paint = shown[i]->is_state ? colour_of_state(row[i]) : Colour::None;
      return coloured(padded(row[i], width, shown[i]->right), paint, colour);
    });
  }
  return out;
}

std::string object_text(const Columns& columns, const Json& object, bool colour) {
  std::size_t width = 0;
  for (const Column& column : columns) width = std::max(width, column.title.size());
  std::string out;
  for (const Column& column : columns) {
    const std::string value = printable(column.value(object));
    if (value.empty()) continue;
    const Colour paint = column.is_state ? colour_of_state(value) : Colour::None;
    out += coloured(padded(lower(column.title), width, false), Colour::Dim, colour) + "  " +
           coloured(value, paint, colour) + '\n';
  }
  return out;
}

}  // namespace mare::cli
