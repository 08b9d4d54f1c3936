#include "orchestrator/model/checkpoint.h"

#include <algorithm>

namespace mare {

std::string_view to_string(CheckpointRule rule) {
  switch (rule) {
    case CheckpointRule::Never:
      return "never";
    case CheckpointRule::Every:
      return "every";
    case CheckpointRule::Optimal:
      return "optimal";
  }
  return "?";
}

std::optional<CheckpointRule> checkpoint_rule_from(std::string_view text) {
  for (const auto rule : {CheckpointRule::Never, CheckpointRule::Every, CheckpointRule::Optimal}) {
    if (to_string(rule) == text) return rule;
  }
  return std::nullopt;
}

std::string_view to_string(CheckpointState state) {
  switch (state) {
    case CheckpointState::Writing:
      return "writing";
    case CheckpointState::Complete:
      return "complete";
    case CheckpointState::Dropping:
      return "dropping";
  }
  return "?";
}

std::optional<CheckpointState> checkpoint_state_from(std::string_view text) {
  for (const auto state :
       {CheckpointState::Writing, CheckpointState::Complete, CheckpointState::Dropping}) {
    if (to_string(state) == text) return state;
  }
  return std::nullopt;
}

void add_up(Checkpoint& checkpoint) {
  checkpoint.size = Bytes{0};
  checkpoint.pause = checkpoint.skew = Microseconds{0};
  if (checkpoint.parts.empty()) return;
  WallTime first = checkpoint.parts.front().stopped;
  WallTime last = first;
  WallTime resumed = checkpoint.parts.front().resumed;
  for (const auto& part : checkpoint.parts) {
    checkpoint.size = checkpoint.size + part.size;
    first = std::min(first, part.stopped);
    last = std::max(last, part.stopped);
    resumed = std::max(resumed, part.resumed);
  }
  checkpoint.skew = last - first;
  checkpoint.pause = std::max(Microseconds{0}, resumed - first);
}

}  // namespace mare
