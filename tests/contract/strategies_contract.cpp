// Every strategy on every backend that offers it, and what is refused where it does not.
#include <algorithm>

#include "tests/contract/driver_contract.h"

namespace mare::contract {
namespace {

// Some rounds of one that holds.
constexpr Milliseconds kHoldsFor{4000};

bool has(const std::vector<Strategy>& all, Strategy strategy) {
  return std::find(all.begin(), all.end(), strategy) != all.end();
}

bool moves_in_post_copy(Strategy strategy) {
  return strategy == Strategy::PostCopy || strategy == Strategy::Hybrid;
}

/// A backend that can take captures to leave by says so; the strategy is the engine's to compose.
TEST_P(DriverContract, OffersWhatItKnowsAndLeavesCheckpointRestartToTheEngine) {
  const auto strategies = offered();
  EXPECT_TRUE(has(strategies, Strategy::StopAndCopy)) << "a VM that stands still can always move";
  EXPECT_FALSE(has(strategies, Strategy::CheckpointRestart)) << "no driver can do it alone";
  auto facts = at(0).facts();
  ASSERT_TRUE(is_ok(facts));
  EXPECT_EQ(has(facts->strategies, Strategy::PreCopy), facts->live_migration);
}

TEST_P(DriverContract, EveryOfferedStrategyMovesTheVm) {
  const VmSpec made = started(0, {.dirty_bytes_per_s = 4.0 * 1024 * 1024, .wws = mebibytes(8)});
  int from = 0;
  for (const Strategy strategy : offered()) {
    SCOPED_TRACE(std::string(to_string(strategy)));
    const int to = 1 - from;
    const double before = count(from, made);
    const OutgoingStatus status = move(ticket(made, strategy), from, to);
    ASSERT_EQ(status.phase, OutgoingPhase::Completed) << status.error;
    EXPECT_GT(status.transferred, mebibytes(1));
    EXPECT_EQ(status.remaining, Bytes{0});
    EXPECT_GT(status.paused_at.count(), 0);
    ASSERT_FALSE(status.rounds.empty());
    EXPECT_LE(status.rounds.back().started + status.rounds.back().duration, status.elapsed);
    EXPECT_GT(status.rounds.back().sent, Bytes{0});
    EXPECT_TRUE(wait_until([&] { return count(to, made) > before; }, kSoon));
    auto report = at(to).arrival(made.key());
    ASSERT_TRUE(is_ok(report));
    EXPECT_GE(report->resumed_at, status.paused_at);
    EXPECT_GT(report->announcements, 0);
    expect_only_copy(to, made);
    from = to;
  }
}

TEST_P(DriverContract, AStrategyThatIsNotOfferedIsRefusedAtBothEnds) {
  const VmSpec made = started(0);
  const MigrationTicket wrong = ticket(made, Strategy::CheckpointRestart);
  EXPECT_TRUE(fails_with(at(1).prepare_incoming(wrong), Code::Unsupported));
  auto endpoint = at(1).prepare_incoming(ticket(made, Strategy::StopAndCopy));
  ASSERT_TRUE(is_ok(endpoint));
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(wrong, *endpoint), Code::Unsupported));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, InPostCopyTheDestinationRunsAndTheSourceIsStillNeeded) {
  if (!has(offered(), Strategy::PostCopy)) GTEST_SKIP() << "not offered here";
  const VmSpec made = started(0, busy_guest());
  MigrationTicket slow = ticket(made, Strategy::PostCopy);
  slow.bandwidth_limit = kSlow;
  begin(slow, 0, 1);
  ASSERT_TRUE(
      wait_until([&] { return outgoing(0, made).phase == OutgoingPhase::PostCopying; }, kMove));
  ASSERT_TRUE(wait_until([&] { return copy(1, made) == Copy::Running; }, kSoon));
  EXPECT_EQ(copy(0, made), Copy::Paused);
  EXPECT_TRUE(sending(0, made));
  EXPECT_FALSE(at(0).resume(made.key()).ok()) << "it would run twice";
  EXPECT_TRUE(is_ok(at(0).begin_outgoing(slow, *at(1).prepare_incoming(slow))));
  // A cancel changes nothing: there is no way back.
  EXPECT_TRUE(is_ok(at(0).cancel_outgoing(made.key())));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::PostCopying);
  EXPECT_EQ(copy(1, made), Copy::Running);
  EXPECT_TRUE(wait_until([&] { return ended(0, made); }, kMove));
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Completed) << outgoing(0, made).error;
  expect_only_copy(1, made);
}

TEST_P(DriverContract, APostCopyOutlivesTheSourcesAgent) {
  if (!has(offered(), Strategy::PostCopy)) GTEST_SKIP() << "not offered here";
  const VmSpec made = started(0, busy_guest());
  MigrationTicket slow = ticket(made, Strategy::PostCopy);
  slow.bandwidth_limit = kSlow;
  begin(slow, 0, 1);
  ASSERT_TRUE(
      wait_until([&] { return outgoing(0, made).phase == OutgoingPhase::PostCopying; }, kMove));
  hosts().restart_agent(0);
  const OutgoingStatus status = outgoing(0, made);
  EXPECT_EQ(status.phase, OutgoingPhase::PostCopying);
  EXPECT_TRUE(status.error.empty()) << status.error;
  EXPECT_TRUE(sending(0, made));
  EXPECT_TRUE(is_ok(at(0).cancel_outgoing(made.key())));
  EXPECT_TRUE(wait_until([&] { return copy(0, made) == Copy::Absent; }, kMove));
  expect_only_copy(1, made);
}

TEST_P(DriverContract, AMigrationThatDoesNotConvergeCanBeForced) {
  for (const auto how : {LimitAction::StopAndCopy, LimitAction::PostCopy}) {
    const bool post_copy = how == LimitAction::PostCopy;
    if (post_copy && !has(offered(), Strategy::PostCopy)) continue;
    if (!has(offered(), Strategy::PreCopy)) GTEST_SKIP() << "nothing moves live here";
    SCOPED_TRACE(std::string(to_string(how)));
    const VmSpec made = started(0, busy_guest());
    MigrationTicket slow = ticket(made, Strategy::PreCopy);
    slow.bandwidth_limit = kSlow;
    slow.sending.allow_post_copy = post_copy;
    begin(slow, 0, 1);
    ASSERT_TRUE(wait_until([&] { return outgoing(0, made).transferred > mebibytes(2); }, kMove));
    if (!post_copy) {
      EXPECT_TRUE(fails_with(at(0).force_outgoing(made.key(), LimitAction::PostCopy),
                             Code::FailedPrecondition))
          << "it was not allowed from the start";
    }
    EXPECT_TRUE(is_ok(at(0).force_outgoing(made.key(), how)));
    EXPECT_TRUE(is_ok(at(0).force_outgoing(made.key(), how)));
    ASSERT_TRUE(wait_until([&] { return ended(0, made); }, kMove)) << "it goes on";
    EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Completed) << outgoing(0, made).error;
    expect_only_copy(1, made);
    EXPECT_TRUE(is_ok(at(1).destroy(made.key())));
  }
  const VmSpec none = vm();
  EXPECT_TRUE(
      fails_with(at(0).force_outgoing(none.key(), LimitAction::StopAndCopy), Code::NotFound));
}

TEST_P(DriverContract, OneThatHoldsItsSwitchWaitsForItsRelease) {
  if (!has(offered(), Strategy::PreCopy)) GTEST_SKIP() << "nothing moves live here";
  const VmSpec made = started(0, {.dirty_bytes_per_s = 4.0 * 1024 * 1024, .wws = mebibytes(8)});
  begin_holding(made, 0, 1);
  const double before = count(0, made);
  ASSERT_TRUE(wait_until([&] { return count(0, made) > before + 2; }, kSoon));
  hosts().wait(kHoldsFor);
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::PreCopying);
  EXPECT_EQ(copy(0, made), Copy::Running);
  EXPECT_TRUE(is_ok(at(0).release_outgoing(made.key())));
  EXPECT_TRUE(is_ok(at(0).release_outgoing(made.key())));
  ASSERT_TRUE(wait_until([&] { return ended(0, made); }, kSoon));
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Completed) << outgoing(0, made).error;
  EXPECT_FALSE(outgoing(0, made).holds);
  expect_only_copy(1, made);
  EXPECT_TRUE(is_ok(at(0).release_outgoing(made.key()))) << "it is gone";

  // And back, cancelled meanwhile.
  begin_holding(made, 1, 0);
  EXPECT_TRUE(is_ok(at(1).cancel_outgoing(made.key())));
  ASSERT_TRUE(wait_until([&] { return ended(1, made); }, kSoon));
  EXPECT_EQ(outgoing(1, made).phase, OutgoingPhase::Cancelled);
  expect_only_copy(1, made);
}

/// An agent that was restarted meanwhile has forgotten that it holds; told so, it goes all the
/// same.
TEST_P(DriverContract, OneThatHoldsOutlivesItsAgentAndCanBeLetGo) {
  if (!has(offered(), Strategy::PreCopy)) GTEST_SKIP() << "nothing moves live here";
  const VmSpec made = started(0, {.dirty_bytes_per_s = 4.0 * 1024 * 1024, .wws = mebibytes(8)});
  begin_holding(made, 0, 1);
  hosts().restart_agent(0);
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::PreCopying);
  EXPECT_TRUE(outgoing(0, made).operation.value.empty());
  EXPECT_TRUE(is_ok(at(0).release_outgoing(made.key())));
  ASSERT_TRUE(wait_until([&] { return copy(1, made) == Copy::Running; }, kSoon));
  EXPECT_TRUE(wait_until([&] { return copy(0, made) == Copy::Absent; }, kSoon));
  expect_only_copy(1, made);
}

/// Cancelled while rounds are sent, of whatever strategy, the VM stays.
TEST_P(DriverContract, EveryStrategyCanBeCancelledBeforeItsSwitch) {
  const VmSpec made = started(0, busy_guest());
  for (const Strategy strategy : offered()) {
    if (strategy == Strategy::PostCopy) continue;  // it switches at once
    SCOPED_TRACE(std::string(to_string(strategy)));
    MigrationTicket slow = ticket(made, strategy);
    slow.bandwidth_limit = kSlow;
    slow.sending.rate_min = slow.sending.rate_max = kSlow;
    begin(slow, 0, 1);
    ASSERT_TRUE(wait_until([&] { return outgoing(0, made).transferred > Bytes{0}; }, kMove));
    const auto phase = outgoing(0, made).phase;
    EXPECT_TRUE(is_ok(at(0).cancel_outgoing(made.key())));
    ASSERT_TRUE(wait_until([&] { return ended(0, made) && !sending(0, made); }, kMove));
    // A VM that stands still for the last round is at the mercy of the race.
    if (phase == OutgoingPhase::PreCopying) {
      EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Cancelled);
    }
    if (outgoing(0, made).phase == OutgoingPhase::Completed) {
      expect_only_copy(1, made);
      ASSERT_EQ(move(ticket(made, Strategy::StopAndCopy), 1, 0).phase, OutgoingPhase::Completed);
      continue;
    }
    EXPECT_FALSE(moves_in_post_copy(strategy) && copy(1, made) == Copy::Running);
    EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
    EXPECT_TRUE(wait_until([&] { return copy(1, made) == Copy::Absent; }, kSoon));
    expect_only_copy(0, made);
  }
}

}  // namespace
}  // namespace mare::contract
