// The tables of all other kinds, each tried over all its states and events.
#include "orchestrator/model/lifecycles.h"

#include "orchestrator/model/checkpoint_lifecycles.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace mare {
namespace {

/// One kind of operation: its types, how many values they have, and where it starts and ends.
template <typename StateT, typename EventT, int States, int Events>
struct Kind {
  using State = StateT;
  using Event = EventT;
  static constexpr int kStates = States;
  static constexpr int kEvents = Events;
};

using Kinds = ::testing::Types<
    Kind<HostAddState, HostAddEvent, 3, 2>, Kind<HostRemoveState, HostRemoveEvent, 3, 2>,
    Kind<HostDrainState, HostDrainEvent, 4, 3>, Kind<PoolCreateState, PoolCreateEvent, 5, 4>,
    Kind<PoolScaleState, PoolScaleEvent, 7, 6>, Kind<PoolDeleteState, PoolDeleteEvent, 5, 4>,
    Kind<VmStartState, VmStartEvent, 7, 6>, Kind<VmStopState, VmStopEvent, 5, 4>,
    Kind<JobRunState, JobRunEvent, 6, 5>, Kind<ForecastMakeState, ForecastMakeEvent, 4, 3>,
    Kind<PlanningState, PlanningEvent, 4, 3>, Kind<LayoutChangeState, LayoutChangeEvent, 6, 5>,
    Kind<CheckpointTakeState, CheckpointTakeEvent, 6, 6>,
    Kind<CheckpointRestoreState, CheckpointRestoreEvent, 8, 7>,
    Kind<RecoveryRunState, RecoveryRunEvent, 5, 4>,
    Kind<HostEvacuateState, HostEvacuateEvent, 5, 4>>;

template <typename T>
class Lifecycle : public ::testing::Test {
 protected:
  using State = typename T::State;
  using Event = typename T::Event;

  static std::vector<State> states() {
    std::vector<State> all;
    for (int i = 0; i < T::kStates; ++i) all.push_back(static_cast<State>(i));
    return all;
  }
  static std::vector<Event> events() {
    std::vector<Event> all;
    for (int i = 0; i < T::kEvents; ++i) all.push_back(static_cast<Event>(i));
    return all;
  }
  static std::set<State> reachable(State from) {
    std::set<State> found{from};
    std::vector<State> open{from};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      for (const Event event : events()) {
        const auto to = next(state, event);
        if (to && found.insert(*to).second) open.push_back(*to);
      }
    }
    return found;
  }
  static bool ends(State state) { return reachable(state).size() == 1; }
};
TYPED_TEST_SUITE(Lifecycle, Kinds);

TYPED_TEST(Lifecycle, HasANameForEveryStateAndEventAndNoMore) {
  std::set<std::string_view> names;
  for (const auto state : this->states()) {
    const auto name = to_string(state);
    EXPECT_NE(name, "?");
    names.insert(name);
    auto back = static_cast<typename TypeParam::State>(0);
    EXPECT_TRUE(state_from(name, back));
    EXPECT_EQ(back, state);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(TypeParam::kStates));
  std::set<std::string_view> events;
  for (const auto event : this->events()) events.insert(to_string(event));
  EXPECT_EQ(events.size(), static_cast<std::size_t>(TypeParam::kEvents));
  EXPECT_FALSE(events.contains("?"));
  // The counts above are all there are.
  EXPECT_EQ(to_string(static_cast<typename TypeParam::State>(TypeParam::kStates)), "?");
  EXPECT_EQ(to_string(static_cast<typename TypeParam::Event>(TypeParam::kEvents)), "?");
}

TYPED_TEST(Lifecycle, AnUnknownNameIsRefused) {
  auto state = static_cast<typename TypeParam::State>(0);
  EXPECT_FALSE(state_from("", state));
  EXPECT_FALSE(state_from("done", state));
}

TYPED_TEST(Lifecycle, EveryStateIsReachedFromTheFirst) {
  const auto first = static_cast<typename TypeParam::State>(0);
  EXPECT_EQ(this->reachable(first).size(), static_cast<std::size_t>(TypeParam::kStates));
}

TYPED_TEST(Lifecycle, EveryStateCanEnd) {
  for (const auto state : this->states()) {
    bool can_end = false;
    for (const auto reached : this->reachable(state)) can_end = can_end || this->ends(reached);
    EXPECT_TRUE(can_end) << to_string(state);
  }
}

TYPED_TEST(Lifecycle, OnlyEndsHaveEndNames) {
  const std::set<std::string_view> kEnds{"Done", "Partial", "Failed", "NeedsOperator"};
  for (const auto state : this->states()) {
    EXPECT_EQ(this->ends(state), kEnds.contains(to_string(state))) << to_string(state);
  }
}

TYPED_TEST(Lifecycle, NoStateComesBack) {
  // A state that could be entered twice would need a limit of its own on how often.
  for (const auto state : this->states()) {
    for (const auto event : this->events()) {
      const auto to = next(state, event);
      if (to) {
        EXPECT_FALSE(this->reachable(*to).contains(state)) << to_string(state);
      }
    }
  }
}

TEST(VmStart, ACopyThatMayExistIsCleanedUpBeforeItFails) {
  for (const auto from : {VmStartState::Placed, VmStartState::Booting}) {
    EXPECT_EQ(next(from, VmStartEvent::Abort), VmStartState::Cleaning);
  }
  EXPECT_EQ(next(VmStartState::Planned, VmStartEvent::Abort), VmStartState::Failed);
  EXPECT_EQ(next(VmStartState::Cleaning, VmStartEvent::Ready), std::nullopt);
}

TEST(PoolCreate, FailsOnlyAfterRollingBack) {
  for (const auto from : {PoolCreateState::Planned, PoolCreateState::Starting}) {
    EXPECT_EQ(next(from, PoolCreateEvent::GiveUp), PoolCreateState::RollingBack);
  }
  EXPECT_EQ(next(PoolCreateState::RollingBack, PoolCreateEvent::AllRun), std::nullopt);
}

TEST(CheckpointTake, WhatHoldsVmsUpEndsBeforeItFails) {
  using Event = CheckpointTakeEvent;
  for (const auto from : {CheckpointTakeState::Holding, CheckpointTakeState::Writing}) {
    EXPECT_EQ(next(from, Event::Drop), CheckpointTakeState::Dropping);
    EXPECT_EQ(next(from, Event::GiveUp), std::nullopt);
  }
  EXPECT_EQ(next(CheckpointTakeState::Holding, Event::Complete), std::nullopt);
  EXPECT_EQ(next(CheckpointTakeState::Dropping, Event::Complete), std::nullopt);
}

TEST(RecoveryRun, NothingIsRestartedBeforeWhatIsSilentIsFenced) {
  using Event = RecoveryRunEvent;
  EXPECT_EQ(next(RecoveryRunState::Planned, Event::Fenced), std::nullopt) << "the try is counted";
  EXPECT_EQ(next(RecoveryRunState::Fencing, Event::Runs), std::nullopt);
  EXPECT_EQ(next(RecoveryRunState::Fencing, Event::Fenced), RecoveryRunState::Restarting);
}

TEST(CheckpointRestore, NothingIsLoadedBeforeWhatWasThereIsGone) {
  using Event = CheckpointRestoreEvent;
  EXPECT_EQ(next(CheckpointRestoreState::Planned, Event::Loaded), std::nullopt);
  EXPECT_EQ(next(CheckpointRestoreState::Clearing, Event::Loaded), std::nullopt);
  for (const auto from : {CheckpointRestoreState::Clearing, CheckpointRestoreState::Loading,
                          CheckpointRestoreState::Resuming}) {
    EXPECT_EQ(next(from, Event::Abort), CheckpointRestoreState::Cleaning);
  }
}

TEST(PoolScale, WhatCameIsNotGivenUpWithoutRollingBack) {
  EXPECT_EQ(next(PoolScaleState::Growing, PoolScaleEvent::GiveUp), PoolScaleState::RollingBack);
  EXPECT_EQ(next(PoolScaleState::RollingBack, PoolScaleEvent::Reached), std::nullopt);
  EXPECT_EQ(next(PoolScaleState::Shrinking, PoolScaleEvent::GiveUp), std::nullopt)
      << "a VM that has ended does not come back";
}

TEST(JobRun, AStoppedJobWaitsForItsEnd) {
  for (const auto from : {JobRunState::Starting, JobRunState::Running}) {
    EXPECT_EQ(next(from, JobRunEvent::Stop), JobRunState::Stopping);
  }
  EXPECT_EQ(next(JobRunState::Queued, JobRunEvent::Ended), std::nullopt);
}

}  // namespace
}  // namespace mare
