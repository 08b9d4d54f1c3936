// Lists as aligned columns, single objects as aligned names and values. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ui/cli/fields.h"

namespace mare::cli {

enum class Shown { Always, Wide, Alone };  // Alone: only when one object is shown

struct Column {
  std::string title;  // "MEMORY"
  std::function<std::string(const Json&)> value;
  Shown shown = Shown::Always;
  bool right = false;     // figures
  bool is_state = false;  // coloured by how good it is
};
using Columns = std::vector<Column>;

/// Heading and a line for each item; a dash stands for nothing.
std::string list_text(const Columns& columns, const Json& items, bool wide, bool colour);
/// "memory     192 MiB" a line for every column that has a value.
std::string object_text(const Columns& columns, const Json& object, bool colour);

}  // namespace mare::cli
