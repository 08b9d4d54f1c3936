#include "orchestrator/model/checkpoint.h"

#include <algorithm>
#include <array>

#include "orchestrator/model/names.h"

namespace mare {
namespace {

constexpr std::array kCheckpointRules{Name<CheckpointRule>{CheckpointRule::Never, "never"},
                                      Name<CheckpointRule>{CheckpointRule::Every, "every"},
                                      Name<CheckpointRule>{CheckpointRule::Optimal, "optimal"}};
constexpr std::array kCheckpointModes{
    Name<CheckpointMode>{CheckpointMode::Full, "full"},
    Name<CheckpointMode>{CheckpointMode::Incremental, "incremental"}};
constexpr std::array kCheckpointStates{
    Name<CheckpointState>{CheckpointState::Writing, "writing"},
    Name<CheckpointState>{CheckpointState::Complete, "complete"},
    Name<CheckpointState>{CheckpointState::Needed, "needed"},
    Name<CheckpointState>{CheckpointState::Dropping, "dropping"}};
constexpr std::array kSafePoints{
    Name<SafePoint>{SafePoint::NotAsked, "not-asked"}, Name<SafePoint>{SafePoint::Absent, "absent"},
    Name<SafePoint>{SafePoint::Hit, "hit"}, Name<SafePoint>{SafePoint::Missed, "missed"}};

}  // namespace

std::string_view to_string(CheckpointRule rule) {
  return name_of(kCheckpointRules, rule);
}
std::optional<CheckpointRule> checkpoint_rule_from(std::string_view text) {
  return value_of(kCheckpointRules, text);
}

std::string_view to_string(CheckpointMode mode) {
  return name_of(kCheckpointModes, mode);
}
std::optional<CheckpointMode> checkpoint_mode_from(std::string_view text) {
  return value_of(kCheckpointModes, text);
}

std::string_view to_string(CheckpointState state) {
  return name_of(kCheckpointStates, state);
}
std::optional<CheckpointState> checkpoint_state_from(std::string_view text) {
  return value_of(kCheckpointStates, text);
}

std::string_view to_string(SafePoint point) {
  return name_of(kSafePoints, point);
}
std::optional<SafePoint> safe_point_from(std::string_view text) {
  return value_of(kSafePoints, text);
}

CheckpointId base_of(const Checkpoint& checkpoint) {
  for (const auto& part : checkpoint.parts) {
    if (!part.base.value.empty()) return part.base;
  }
  return {};
}

std::size_t parts_in_memory(const Checkpoint& checkpoint) {
  return static_cast<std::size_t>(
      std::count_if(checkpoint.parts.begin(), checkpoint.parts.end(),
                    [](const CheckpointPart& part) { return !part.partner.value.empty(); }));
}

Bytes written_by(const Checkpoint& checkpoint) {
  Bytes all;
  for (const auto& part : checkpoint.parts) {
    all = all + (part.written.count > 0 ? part.written : part.size);
  }
  return all;
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
