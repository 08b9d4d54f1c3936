#include "orchestrator/model/checkpoint.h"

#include <gtest/gtest.h>

namespace mare {
namespace {

CheckpointPart part(std::int64_t stopped, std::int64_t resumed, std::uint64_t size) {
  CheckpointPart out;
  out.stopped = WallTime{stopped};
  out.resumed = WallTime{resumed};
  out.size = Bytes{size};
  return out;
}

TEST(Checkpoint, PauseIsFromTheFirstStopToTheLastResume) {
  Checkpoint checkpoint;
  checkpoint.parts = {part(1'010, 1'090, 5), part(1'000, 1'060, 7), part(1'004, 1'100, 11)};
  add_up(checkpoint);
  EXPECT_EQ(checkpoint.pause, Microseconds{100});
  EXPECT_EQ(checkpoint.skew, Microseconds{10});
  EXPECT_EQ(checkpoint.size, Bytes{23});
}

TEST(Checkpoint, ClocksThatDisagreeMakeNoNegativePause) {
  Checkpoint checkpoint;
  checkpoint.parts = {part(2'000, 1'500, 1)};
  add_up(checkpoint);
  EXPECT_EQ(checkpoint.pause, Microseconds{0});
  EXPECT_EQ(checkpoint.skew, Microseconds{0});
  checkpoint.parts.clear();
  add_up(checkpoint);
  EXPECT_EQ(checkpoint.size, Bytes{0});
}

TEST(Checkpoint, IsBuiltOnWhatAnyPartIsBuiltOn) {
  Checkpoint checkpoint;
  EXPECT_EQ(base_of(checkpoint), CheckpointId{});
  checkpoint.parts = {part(1, 2, 70), part(1, 2, 30)};
  EXPECT_EQ(base_of(checkpoint), CheckpointId{});
  EXPECT_EQ(written_by(checkpoint), Bytes{100}) << "an older version wrote the states as they are";
  checkpoint.parts[1].base = CheckpointId{"ck-3"};
  checkpoint.parts[1].written = Bytes{4};
  EXPECT_EQ(base_of(checkpoint).value, "ck-3");
  EXPECT_EQ(written_by(checkpoint), Bytes{74});
}

TEST(Checkpoint, NamesComeBack) {
  for (const auto rule : {CheckpointRule::Never, CheckpointRule::Every, CheckpointRule::Optimal}) {
    EXPECT_EQ(checkpoint_rule_from(to_string(rule)), rule);
  }
  for (const auto state : {CheckpointState::Writing, CheckpointState::Complete,
                           CheckpointState::Needed, CheckpointState::Dropping}) {
    EXPECT_EQ(checkpoint_state_from(to_string(state)), state);
  }
  for (const auto mode : {CheckpointMode::Full, CheckpointMode::Incremental}) {
    EXPECT_EQ(checkpoint_mode_from(to_string(mode)), mode);
  }
  EXPECT_FALSE(checkpoint_mode_from("some"));
  EXPECT_FALSE(checkpoint_rule_from("often"));
  EXPECT_FALSE(checkpoint_state_from(""));
}

}  // namespace
}  // namespace mare
