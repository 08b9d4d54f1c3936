#include "orchestrator/model/lifecycle_table.h"
#include "orchestrator/model/lifecycles.h"

namespace mare {
namespace {

using lifecycle::look_up;
using lifecycle::Row;
using lifecycle::value_of;

constexpr std::array<std::pair<PoolCreateState, std::string_view>, 5> kPoolCreateStates{{
    {PoolCreateState::Planned, "Planned"},
    {PoolCreateState::Starting, "Starting"},
    {PoolCreateState::RollingBack, "RollingBack"},
    {PoolCreateState::Done, "Done"},
    {PoolCreateState::Failed, "Failed"},
}};
constexpr std::array<std::pair<PoolCreateEvent, std::string_view>, 4> kPoolCreateEvents{{
    {PoolCreateEvent::Begin, "Begin"},
    {PoolCreateEvent::AllRun, "AllRun"},
    {PoolCreateEvent::GiveUp, "GiveUp"},
    {PoolCreateEvent::AllGone, "AllGone"},
}};
constexpr std::array<Row<PoolCreateState, PoolCreateEvent>, 5> kPoolCreateTable{{
    {PoolCreateState::Planned, PoolCreateEvent::Begin, PoolCreateState::Starting},
    {PoolCreateState::Starting, PoolCreateEvent::AllRun, PoolCreateState::Done},
    {PoolCreateState::Planned, PoolCreateEvent::GiveUp, PoolCreateState::RollingBack},
    {PoolCreateState::Starting, PoolCreateEvent::GiveUp, PoolCreateState::RollingBack},
    {PoolCreateState::RollingBack, PoolCreateEvent::AllGone, PoolCreateState::Failed},
}};

constexpr std::array<std::pair<PoolScaleState, std::string_view>, 7> kPoolScaleStates{{
    {PoolScaleState::Planned, "Planned"},
    {PoolScaleState::Growing, "Growing"},
    {PoolScaleState::Shrinking, "Shrinking"},
    {PoolScaleState::RollingBack, "RollingBack"},
    {PoolScaleState::Done, "Done"},
    {PoolScaleState::Partial, "Partial"},
    {PoolScaleState::Failed, "Failed"},
}};
constexpr std::array<std::pair<PoolScaleEvent, std::string_view>, 6> kPoolScaleEvents{{
    {PoolScaleEvent::Grow, "Grow"},
    {PoolScaleEvent::Shrink, "Shrink"},
    {PoolScaleEvent::GiveUp, "GiveUp"},
    {PoolScaleEvent::Reached, "Reached"},
    {PoolScaleEvent::PartlyReached, "PartlyReached"},
    {PoolScaleEvent::NothingReached, "NothingReached"},
}};
constexpr std::array<Row<PoolScaleState, PoolScaleEvent>, 12> kPoolScaleTable{{
    {PoolScaleState::Planned, PoolScaleEvent::Reached, PoolScaleState::Done},
    {PoolScaleState::Planned, PoolScaleEvent::Grow, PoolScaleState::Growing},
    {PoolScaleState::Planned, PoolScaleEvent::Shrink, PoolScaleState::Shrinking},
    {PoolScaleState::Growing, PoolScaleEvent::Reached, PoolScaleState::Done},
    {PoolScaleState::Growing, PoolScaleEvent::PartlyReached, PoolScaleState::Partial},
    {PoolScaleState::Growing, PoolScaleEvent::NothingReached, PoolScaleState::Failed},
    {PoolScaleState::Growing, PoolScaleEvent::GiveUp, PoolScaleState::RollingBack},
    {PoolScaleState::RollingBack, PoolScaleEvent::PartlyReached, PoolScaleState::Partial},
    {PoolScaleState::RollingBack, PoolScaleEvent::NothingReached, PoolScaleState::Failed},
    {PoolScaleState::Shrinking, PoolScaleEvent::Reached, PoolScaleState::Done},
    {PoolScaleState::Shrinking, PoolScaleEvent::PartlyReached, PoolScaleState::Partial},
    {PoolScaleState::Shrinking, PoolScaleEvent::NothingReached, PoolScaleState::Failed},
}};

constexpr std::array<std::pair<PoolDeleteState, std::string_view>, 5> kPoolDeleteStates{{
    {PoolDeleteState::Planned, "Planned"},
    {PoolDeleteState::EndingJobs, "EndingJobs"},
    {PoolDeleteState::Stopping, "Stopping"},
    {PoolDeleteState::Done, "Done"},
    {PoolDeleteState::Failed, "Failed"},
}};
constexpr std::array<std::pair<PoolDeleteEvent, std::string_view>, 4> kPoolDeleteEvents{{
    {PoolDeleteEvent::Begin, "Begin"},
    {PoolDeleteEvent::JobsEnded, "JobsEnded"},
    {PoolDeleteEvent::AllGone, "AllGone"},
    {PoolDeleteEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<PoolDeleteState, PoolDeleteEvent>, 6> kPoolDeleteTable{{
    {PoolDeleteState::Planned, PoolDeleteEvent::Begin, PoolDeleteState::EndingJobs},
    {PoolDeleteState::EndingJobs, PoolDeleteEvent::JobsEnded, PoolDeleteState::Stopping},
    {PoolDeleteState::Stopping, PoolDeleteEvent::AllGone, PoolDeleteState::Done},
    {PoolDeleteState::Planned, PoolDeleteEvent::GiveUp, PoolDeleteState::Failed},
    {PoolDeleteState::EndingJobs, PoolDeleteEvent::GiveUp, PoolDeleteState::Failed},
    {PoolDeleteState::Stopping, PoolDeleteEvent::GiveUp, PoolDeleteState::Failed},
}};

}  // namespace

std::string_view to_string(PoolCreateState state) {
  return name_of(kPoolCreateStates, state);
}
std::string_view to_string(PoolCreateEvent event) {
  return name_of(kPoolCreateEvents, event);
}
std::optional<PoolCreateState> next(PoolCreateState from, PoolCreateEvent event) {
  return look_up(kPoolCreateTable, from, event);
}
bool state_from(std::string_view text, PoolCreateState& state) {
  return value_of(kPoolCreateStates, text, state);
}

std::string_view to_string(PoolScaleState state) {
  return name_of(kPoolScaleStates, state);
}
std::string_view to_string(PoolScaleEvent event) {
  return name_of(kPoolScaleEvents, event);
}
std::optional<PoolScaleState> next(PoolScaleState from, PoolScaleEvent event) {
  return look_up(kPoolScaleTable, from, event);
}
bool state_from(std::string_view text, PoolScaleState& state) {
  return value_of(kPoolScaleStates, text, state);
}

std::string_view to_string(PoolDeleteState state) {
  return name_of(kPoolDeleteStates, state);
}
std::string_view to_string(PoolDeleteEvent event) {
  return name_of(kPoolDeleteEvents, event);
}
std::optional<PoolDeleteState> next(PoolDeleteState from, PoolDeleteEvent event) {
  return look_up(kPoolDeleteTable, from, event);
}
bool state_from(std::string_view text, PoolDeleteState& state) {
  return value_of(kPoolDeleteStates, text, state);
}

}  // namespace mare
