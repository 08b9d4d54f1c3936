#include "ui/cli/plan_view.h"

#include <cstdio>

#include "ui/cli/fields.h"
#include "ui/cli/terminal.h"

namespace mare::cli {

void print_moves(const Json& moves, const Columns& columns) {
  if (moves.empty()) return;
  std::fputs(list_text(columns, moves, false, wants_colour(1)).c_str(), stdout);
}

void show_planned_moves(Session& session, const Json& operation, const Columns& columns) {
  if (session.wants(Output::JsonText)) return session.print_json(operation);
  const Json& moves = member(member(member(operation, "request"), "plan"), "moves");
  if (session.wants(Output::Name)) {
    for (const Json& move : moves) std::printf("%s\n", printable(text(move, "vm")).c_str());
    return;
  }
  print_moves(moves, columns);
  std::printf("%s\n", printable(text(operation, "reason")).c_str());
}

}  // namespace mare::cli
