#include "orchestrator/model/lifecycles.h"

#include "orchestrator/model/lifecycle_table.h"

namespace mare {
namespace {

using lifecycle::look_up;
using lifecycle::Row;
using lifecycle::value_of;

constexpr std::array<std::pair<HostAddState, std::string_view>, 3> kHostAddStates{{
    {HostAddState::Planned, "Planned"},
    {HostAddState::Done, "Done"},
    {HostAddState::Failed, "Failed"},
}};
constexpr std::array<std::pair<HostAddEvent, std::string_view>, 2> kHostAddEvents{{
    {HostAddEvent::Connected, "Connected"},
    {HostAddEvent::Refused, "Refused"},
}};
constexpr std::array<Row<HostAddState, HostAddEvent>, 2> kHostAddTable{{
    {HostAddState::Planned, HostAddEvent::Connected, HostAddState::Done},
    {HostAddState::Planned, HostAddEvent::Refused, HostAddState::Failed},
}};

constexpr std::array<std::pair<HostRemoveState, std::string_view>, 3> kHostRemoveStates{{
    {HostRemoveState::Planned, "Planned"},
    {HostRemoveState::Done, "Done"},
    {HostRemoveState::Failed, "Failed"},
}};
constexpr std::array<std::pair<HostRemoveEvent, std::string_view>, 2> kHostRemoveEvents{{
    {HostRemoveEvent::Removed, "Removed"},
    {HostRemoveEvent::Refused, "Refused"},
}};
constexpr std::array<Row<HostRemoveState, HostRemoveEvent>, 2> kHostRemoveTable{{
    {HostRemoveState::Planned, HostRemoveEvent::Removed, HostRemoveState::Done},
    {HostRemoveState::Planned, HostRemoveEvent::Refused, HostRemoveState::Failed},
}};

constexpr std::array<std::pair<HostDrainState, std::string_view>, 4> kHostDrainStates{{
    {HostDrainState::Planned, "Planned"},
    {HostDrainState::Moving, "Moving"},
    {HostDrainState::Done, "Done"},
    {HostDrainState::Failed, "Failed"},
}};
constexpr std::array<std::pair<HostDrainEvent, std::string_view>, 3> kHostDrainEvents{{
    {HostDrainEvent::Begin, "Begin"},
    {HostDrainEvent::Emptied, "Emptied"},
    {HostDrainEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<HostDrainState, HostDrainEvent>, 4> kHostDrainTable{{
    {HostDrainState::Planned, HostDrainEvent::Begin, HostDrainState::Moving},
    {HostDrainState::Moving, HostDrainEvent::Emptied, HostDrainState::Done},
    {HostDrainState::Planned, HostDrainEvent::GiveUp, HostDrainState::Failed},
    {HostDrainState::Moving, HostDrainEvent::GiveUp, HostDrainState::Failed},
}};

constexpr std::array<std::pair<HostEvacuateState, std::string_view>, 5> kHostEvacuateStates{{
    {HostEvacuateState::Planned, "Planned"},
    {HostEvacuateState::Leaving, "Leaving"},
    {HostEvacuateState::Done, "Done"},
    {HostEvacuateState::Partial, "Partial"},
    {HostEvacuateState::Failed, "Failed"},
}};
constexpr std::array<std::pair<HostEvacuateEvent, std::string_view>, 4> kHostEvacuateEvents{{
    {HostEvacuateEvent::Begin, "Begin"},
    {HostEvacuateEvent::Safe, "Safe"},
    {HostEvacuateEvent::TimeIsUp, "TimeIsUp"},
    {HostEvacuateEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<HostEvacuateState, HostEvacuateEvent>, 5> kHostEvacuateTable{{
    {HostEvacuateState::Planned, HostEvacuateEvent::Begin, HostEvacuateState::Leaving},
    {HostEvacuateState::Planned, HostEvacuateEvent::GiveUp, HostEvacuateState::Failed},
    {HostEvacuateState::Leaving, HostEvacuateEvent::Safe, HostEvacuateState::Done},
    {HostEvacuateState::Leaving, HostEvacuateEvent::TimeIsUp, HostEvacuateState::Partial},
    {HostEvacuateState::Leaving, HostEvacuateEvent::GiveUp, HostEvacuateState::Failed},
}};

constexpr std::array<std::pair<VmStartState, std::string_view>, 7> kVmStartStates{{
    {VmStartState::Planned, "Planned"},
    {VmStartState::Placed, "Placed"},
    {VmStartState::Booting, "Booting"},
    {VmStartState::Cleaning, "Cleaning"},
    {VmStartState::Done, "Done"},
    {VmStartState::Failed, "Failed"},
    {VmStartState::NeedsOperator, "NeedsOperator"},
}};
constexpr std::array<std::pair<VmStartEvent, std::string_view>, 6> kVmStartEvents{{
    {VmStartEvent::Place, "Place"},
    {VmStartEvent::Created, "Created"},
    {VmStartEvent::Ready, "Ready"},
    {VmStartEvent::Abort, "Abort"},
    {VmStartEvent::Gone, "Gone"},
    {VmStartEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<VmStartState, VmStartEvent>, 8> kVmStartTable{{
    {VmStartState::Planned, VmStartEvent::Place, VmStartState::Placed},
    {VmStartState::Planned, VmStartEvent::Abort, VmStartState::Failed},
    {VmStartState::Placed, VmStartEvent::Created, VmStartState::Booting},
    {VmStartState::Placed, VmStartEvent::Abort, VmStartState::Cleaning},
    {VmStartState::Booting, VmStartEvent::Ready, VmStartState::Done},
    {VmStartState::Booting, VmStartEvent::Abort, VmStartState::Cleaning},
    {VmStartState::Cleaning, VmStartEvent::Gone, VmStartState::Failed},
    {VmStartState::Cleaning, VmStartEvent::GiveUp, VmStartState::NeedsOperator},
}};

constexpr std::array<std::pair<VmStopState, std::string_view>, 5> kVmStopStates{{
    {VmStopState::Planned, "Planned"},
    {VmStopState::PoweringOff, "PoweringOff"},
    {VmStopState::Destroying, "Destroying"},
    {VmStopState::Done, "Done"},
    {VmStopState::NeedsOperator, "NeedsOperator"},
}};
constexpr std::array<std::pair<VmStopEvent, std::string_view>, 4> kVmStopEvents{{
    {VmStopEvent::AskGuest, "AskGuest"},
    {VmStopEvent::Destroy, "Destroy"},
    {VmStopEvent::Gone, "Gone"},
    {VmStopEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<VmStopState, VmStopEvent>, 7> kVmStopTable{{
    {VmStopState::Planned, VmStopEvent::AskGuest, VmStopState::PoweringOff},
    {VmStopState::Planned, VmStopEvent::Destroy, VmStopState::Destroying},
    {VmStopState::Planned, VmStopEvent::Gone, VmStopState::Done},
    {VmStopState::PoweringOff, VmStopEvent::Destroy, VmStopState::Destroying},
    {VmStopState::PoweringOff, VmStopEvent::Gone, VmStopState::Done},
    {VmStopState::Destroying, VmStopEvent::Gone, VmStopState::Done},
    {VmStopState::Destroying, VmStopEvent::GiveUp, VmStopState::NeedsOperator},
}};

constexpr std::array<std::pair<JobRunState, std::string_view>, 6> kJobRunStates{{
    {JobRunState::Queued, "Queued"},
    {JobRunState::Starting, "Starting"},
    {JobRunState::Running, "Running"},
    {JobRunState::Stopping, "Stopping"},
    {JobRunState::Done, "Done"},
    {JobRunState::Failed, "Failed"},
}};
constexpr std::array<std::pair<JobRunEvent, std::string_view>, 5> kJobRunEvents{{
    {JobRunEvent::Assign, "Assign"},
    {JobRunEvent::Started, "Started"},
    {JobRunEvent::Stop, "Stop"},
    {JobRunEvent::Ended, "Ended"},
    {JobRunEvent::Abort, "Abort"},
}};
constexpr std::array<Row<JobRunState, JobRunEvent>, 10> kJobRunTable{{
    {JobRunState::Queued, JobRunEvent::Assign, JobRunState::Starting},
    {JobRunState::Queued, JobRunEvent::Abort, JobRunState::Failed},
    {JobRunState::Starting, JobRunEvent::Started, JobRunState::Running},
    {JobRunState::Starting, JobRunEvent::Stop, JobRunState::Stopping},
    {JobRunState::Starting, JobRunEvent::Abort, JobRunState::Failed},
    {JobRunState::Running, JobRunEvent::Stop, JobRunState::Stopping},
    {JobRunState::Running, JobRunEvent::Ended, JobRunState::Done},
    {JobRunState::Running, JobRunEvent::Abort, JobRunState::Failed},
    {JobRunState::Stopping, JobRunEvent::Ended, JobRunState::Done},
    {JobRunState::Stopping, JobRunEvent::Abort, JobRunState::Failed},
}};

constexpr std::array<std::pair<ForecastMakeState, std::string_view>, 4> kForecastMakeStates{{
    {ForecastMakeState::Planned, "Planned"},
    {ForecastMakeState::Measuring, "Measuring"},
    {ForecastMakeState::Done, "Done"},
    {ForecastMakeState::Failed, "Failed"},
}};
constexpr std::array<std::pair<ForecastMakeEvent, std::string_view>, 3> kForecastMakeEvents{{
    {ForecastMakeEvent::Begin, "Begin"},
    {ForecastMakeEvent::Made, "Made"},
    {ForecastMakeEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<ForecastMakeState, ForecastMakeEvent>, 4> kForecastMakeTable{{
    {ForecastMakeState::Planned, ForecastMakeEvent::Begin, ForecastMakeState::Measuring},
    {ForecastMakeState::Planned, ForecastMakeEvent::GiveUp, ForecastMakeState::Failed},
    {ForecastMakeState::Measuring, ForecastMakeEvent::Made, ForecastMakeState::Done},
    {ForecastMakeState::Measuring, ForecastMakeEvent::GiveUp, ForecastMakeState::Failed},
}};

constexpr std::array<std::pair<PlanningState, std::string_view>, 4> kPlanningStates{{
    {PlanningState::Planned, "Planned"},
    {PlanningState::Asking, "Asking"},
    {PlanningState::Done, "Done"},
    {PlanningState::Failed, "Failed"},
}};
constexpr std::array<std::pair<PlanningEvent, std::string_view>, 3> kPlanningEvents{{
    {PlanningEvent::Begin, "Begin"},
    {PlanningEvent::AllMade, "AllMade"},
    {PlanningEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<PlanningState, PlanningEvent>, 4> kPlanningTable{{
    {PlanningState::Planned, PlanningEvent::Begin, PlanningState::Asking},
    {PlanningState::Planned, PlanningEvent::GiveUp, PlanningState::Failed},
    {PlanningState::Asking, PlanningEvent::AllMade, PlanningState::Done},
    {PlanningState::Asking, PlanningEvent::GiveUp, PlanningState::Failed},
}};

constexpr std::array<std::pair<LayoutChangeState, std::string_view>, 6> kLayoutChangeStates{{
    {LayoutChangeState::Planned, "Planned"},
    {LayoutChangeState::Costing, "Costing"},
    {LayoutChangeState::Moving, "Moving"},
    {LayoutChangeState::Done, "Done"},
    {LayoutChangeState::Partial, "Partial"},
    {LayoutChangeState::Failed, "Failed"},
}};
constexpr std::array<std::pair<LayoutChangeEvent, std::string_view>, 5> kLayoutChangeEvents{{
    {LayoutChangeEvent::Ask, "Ask"},
    {LayoutChangeEvent::Move, "Move"},
    {LayoutChangeEvent::Reached, "Reached"},
    {LayoutChangeEvent::PartlyReached, "PartlyReached"},
    {LayoutChangeEvent::GiveUp, "GiveUp"},
}};
constexpr std::array<Row<LayoutChangeState, LayoutChangeEvent>, 8> kLayoutChangeTable{{
    {LayoutChangeState::Planned, LayoutChangeEvent::Ask, LayoutChangeState::Costing},
    {LayoutChangeState::Planned, LayoutChangeEvent::GiveUp, LayoutChangeState::Failed},
    {LayoutChangeState::Costing, LayoutChangeEvent::Move, LayoutChangeState::Moving},
    {LayoutChangeState::Costing, LayoutChangeEvent::Reached, LayoutChangeState::Done},
    {LayoutChangeState::Costing, LayoutChangeEvent::GiveUp, LayoutChangeState::Failed},
    {LayoutChangeState::Moving, LayoutChangeEvent::Reached, LayoutChangeState::Done},
    {LayoutChangeState::Moving, LayoutChangeEvent::PartlyReached, LayoutChangeState::Partial},
    {LayoutChangeState::Moving, LayoutChangeEvent::GiveUp, LayoutChangeState::Failed},
}};

}  // namespace

std::string_view to_string(HostAddState state) {
  return name_of(kHostAddStates, state);
}
std::string_view to_string(HostAddEvent event) {
  return name_of(kHostAddEvents, event);
}
std::optional<HostAddState> next(HostAddState from, HostAddEvent event) {
  return look_up(kHostAddTable, from, event);
}
bool state_from(std::string_view text, HostAddState& state) {
  return value_of(kHostAddStates, text, state);
}

std::string_view to_string(HostRemoveState state) {
  return name_of(kHostRemoveStates, state);
}
std::string_view to_string(HostRemoveEvent event) {
  return name_of(kHostRemoveEvents, event);
}
std::optional<HostRemoveState> next(HostRemoveState from, HostRemoveEvent event) {
  return look_up(kHostRemoveTable, from, event);
}
bool state_from(std::string_view text, HostRemoveState& state) {
  return value_of(kHostRemoveStates, text, state);
}

std::string_view to_string(HostDrainState state) {
  return name_of(kHostDrainStates, state);
}
std::string_view to_string(HostDrainEvent event) {
  return name_of(kHostDrainEvents, event);
}
std::optional<HostDrainState> next(HostDrainState from, HostDrainEvent event) {
  return look_up(kHostDrainTable, from, event);
}
bool state_from(std::string_view text, HostDrainState& state) {
  return value_of(kHostDrainStates, text, state);
}

std::string_view to_string(HostEvacuateState state) {
  return name_of(kHostEvacuateStates, state);
}
std::string_view to_string(HostEvacuateEvent event) {
  return name_of(kHostEvacuateEvents, event);
}
std::optional<HostEvacuateState> next(HostEvacuateState from, HostEvacuateEvent event) {
  return look_up(kHostEvacuateTable, from, event);
}
bool state_from(std::string_view text, HostEvacuateState& state) {
  return value_of(kHostEvacuateStates, text, state);
}

std::string_view to_string(VmStartState state) {
  return name_of(kVmStartStates, state);
}
std::string_view to_string(VmStartEvent event) {
  return name_of(kVmStartEvents, event);
}
std::optional<VmStartState> next(VmStartState from, VmStartEvent event) {
  return look_up(kVmStartTable, from, event);
}
bool state_from(std::string_view text, VmStartState& state) {
  return value_of(kVmStartStates, text, state);
}

std::string_view to_string(VmStopState state) {
  return name_of(kVmStopStates, state);
}
std::string_view to_string(VmStopEvent event) {
  return name_of(kVmStopEvents, event);
}
std::optional<VmStopState> next(VmStopState from, VmStopEvent event) {
  return look_up(kVmStopTable, from, event);
}
bool state_from(std::string_view text, VmStopState& state) {
  return value_of(kVmStopStates, text, state);
}

std::string_view to_string(JobRunState state) {
  return name_of(kJobRunStates, state);
}
std::string_view to_string(JobRunEvent event) {
  return name_of(kJobRunEvents, event);
}
std::optional<JobRunState> next(JobRunState from, JobRunEvent event) {
  return look_up(kJobRunTable, from, event);
}
bool state_from(std::string_view text, JobRunState& state) {
  return value_of(kJobRunStates, text, state);
}

std::string_view to_string(ForecastMakeState state) {
  return name_of(kForecastMakeStates, state);
}
std::string_view to_string(ForecastMakeEvent event) {
  return name_of(kForecastMakeEvents, event);
}
std::optional<ForecastMakeState> next(ForecastMakeState from, ForecastMakeEvent event) {
  return look_up(kForecastMakeTable, from, event);
}
bool state_from(std::string_view text, ForecastMakeState& state) {
  return value_of(kForecastMakeStates, text, state);
}

std::string_view to_string(PlanningState state) {
  return name_of(kPlanningStates, state);
}
std::string_view to_string(PlanningEvent event) {
  return name_of(kPlanningEvents, event);
}
std::optional<PlanningState> next(PlanningState from, PlanningEvent event) {
  return look_up(kPlanningTable, from, event);
}
bool state_from(std::string_view text, PlanningState& state) {
  return value_of(kPlanningStates, text, state);
}

std::string_view to_string(LayoutChangeState state) {
  return name_of(kLayoutChangeStates, state);
}
std::string_view to_string(LayoutChangeEvent event) {
  return name_of(kLayoutChangeEvents, event);
}
std::optional<LayoutChangeState> next(LayoutChangeState from, LayoutChangeEvent event) {
  return look_up(kLayoutChangeTable, from, event);
}
bool state_from(std::string_view text, LayoutChangeState& state) {
  return value_of(kLayoutChangeStates, text, state);
}

}  // namespace mare
