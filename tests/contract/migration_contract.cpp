// Two hosts: what a migration shows while it goes, and what it leaves behind.
#include "tests/contract/driver_contract.h"

namespace mare::contract {
namespace {

TEST_P(DriverContract, PreparingMakesNoCopyRunAndCanBeRepeated) {
  const VmSpec made = started(0);
  const MigrationTicket t = ticket(made);
  auto first = at(1).prepare_incoming(t);
  ASSERT_TRUE(is_ok(first));
  auto again = at(1).prepare_incoming(t);
  ASSERT_TRUE(is_ok(again));
  EXPECT_EQ(first->uri, again->uri);
  EXPECT_NE(copy(1, made), Copy::Running);
  EXPECT_NE(copy(1, made), Copy::Paused);
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_EQ(copy(1, made), Copy::Absent);
  // It can be prepared anew, and then used.
  EXPECT_EQ(move(ticket(made), 0, 1).phase, OutgoingPhase::Completed);
  expect_only_copy(1, made);
}

TEST_P(DriverContract, AVmMovesThereAndBack) {
  const VmSpec made = started(0, {.wws = mebibytes(8)});
  double before = count(0, made);
  for (const int from : {0, 1}) {
    const int to = 1 - from;
    const MigrationTicket t = ticket(made);
    const OutgoingStatus status = move(t, from, to);
    EXPECT_EQ(status.phase, OutgoingPhase::Completed) << status.error;
    EXPECT_EQ(status.operation, t.operation);
    EXPECT_TRUE(wait_until([&] { return count(to, made) > before; }, kSoon));
    expect_only_copy(to, made);
    before = count(to, made);
    // The end is kept, and the same call again is not another migration.
    auto endpoint = at(to).prepare_incoming(t);
    ASSERT_TRUE(is_ok(endpoint));
    EXPECT_EQ(outgoing(from, made).phase, OutgoingPhase::Completed);
  }
}

TEST_P(DriverContract, BothEndsTellWhatAMigrationTook) {
  const VmSpec made = started(0, {.dirty_bytes_per_s = 16.0 * 1024 * 1024, .wws = mebibytes(16)});
  MigrationTicket t = ticket(made);
  t.bandwidth_limit = BytesPerSecond{64.0 * 1024 * 1024};
  const OutgoingStatus status = move(t, 0, 1);
  ASSERT_EQ(status.phase, OutgoingPhase::Completed) << status.error;
  EXPECT_GE(status.memory_total, made.memory);
  EXPECT_GT(status.transferred, mebibytes(1));
  EXPECT_EQ(status.remaining, Bytes{0});
  EXPECT_GT(status.elapsed, Microseconds{0});
  ASSERT_FALSE(status.rounds.empty());
  Bytes sent;
  int index = -1;
  for (const Round& round : status.rounds) {
    EXPECT_GT(round.index, index);
    index = round.index;
    sent = sent + round.sent;
  }
  EXPECT_EQ(status.rounds.front().index, 0);
  EXPECT_GT(sent, mebibytes(1));
  ASSERT_GT(status.paused_at.count(), 0);

  auto report = at(1).arrival(made.key());
  ASSERT_TRUE(is_ok(report));
  EXPECT_EQ(report->seen.copy, Copy::Running);
  ASSERT_TRUE(report->downtime);
  EXPECT_GT(*report->downtime, Microseconds{0});
  ASSERT_TRUE(report->total_time);
  EXPECT_GE(*report->total_time, *report->downtime);
  EXPECT_GT(report->transferred, mebibytes(1));
  EXPECT_GE(report->resumed_at, status.paused_at);
  auto again = at(1).arrival(made.key());
  ASSERT_TRUE(is_ok(again));
  EXPECT_EQ(again->downtime, report->downtime) << "told only once";
  EXPECT_EQ(again->total_time, report->total_time);
}

TEST_P(DriverContract, AnArrivalIsAnnouncedByItself) {
  const VmSpec made = started(0);
  ASSERT_EQ(move(ticket(made), 0, 1).phase, OutgoingPhase::Completed);
  EXPECT_TRUE(wait_until(
      [&] {
        auto report = at(1).arrival(made.key());
        return report && report->announcements > 0;
      },
      kSoon));
  auto report = at(1).arrival(made.key());
  ASSERT_TRUE(is_ok(report));
  EXPECT_GT(report->resumed_at.count(), 0);
  EXPECT_GE(report->announced_at, report->resumed_at);
  EXPECT_LT(report->announced_at - report->resumed_at, std::chrono::seconds{1});
}

TEST_P(DriverContract, AMigrationShowsAtBothEndsWhileItGoes) {
  const VmSpec made = half_way();
  EXPECT_EQ(copy(0, made), Copy::Running);
  EXPECT_TRUE(sending(0, made));
  EXPECT_EQ(copy(1, made), Copy::Incoming);
  const OutgoingStatus status = outgoing(0, made);
  EXPECT_EQ(status.phase, OutgoingPhase::PreCopying);
  EXPECT_GT(status.remaining, Bytes{0});
  EXPECT_EQ(status.paused_at.count(), 0);
  auto report = at(1).arrival(made.key());
  ASSERT_TRUE(is_ok(report));
  EXPECT_EQ(report->seen.copy, Copy::Incoming);
  EXPECT_EQ(report->announcements, 0);
  expect_alive(0, made);
  EXPECT_TRUE(
      wait_until([&] { return outgoing(0, made).transferred > status.transferred; }, kSoon));
  // What the sender or the receiver decides, nobody else may.
  EXPECT_TRUE(fails_with(at(1).resume(made.key()), Code::FailedPrecondition));
  EXPECT_TRUE(fails_with(at(1).start(made), Code::FailedPrecondition));
  EXPECT_TRUE(fails_with(at(0).pause(made.key()), Code::FailedPrecondition));
  EXPECT_FALSE(at(0).save(made.key(), hosts().new_file()).ok());
  EXPECT_EQ(copy(1, made), Copy::Incoming);
  EXPECT_TRUE(sending(0, made));
}

TEST_P(DriverContract, OneMigrationOfAVmAtATime) {
  const VmSpec made = started(0, busy_guest());
  MigrationTicket slow = ticket(made);
  slow.bandwidth_limit = kSlow;
  auto endpoint = at(1).prepare_incoming(slow);
  ASSERT_TRUE(is_ok(endpoint));
  ASSERT_TRUE(is_ok(at(0).begin_outgoing(slow, *endpoint)));
  EXPECT_TRUE(is_ok(at(0).begin_outgoing(slow, *endpoint))) << "twice is as good as once";
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(ticket(made), *endpoint), Code::Conflict));
  EXPECT_TRUE(wait_until([&] { return outgoing(0, made).transferred > mebibytes(2); }, kMove));
  EXPECT_TRUE(is_ok(at(0).begin_outgoing(slow, *endpoint)));
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(ticket(made), *endpoint), Code::Conflict));
  EXPECT_EQ(outgoing(0, made).operation, slow.operation);
}

TEST_P(DriverContract, SendingNeedsARunningCopyAndAPlaceToGo) {
  const VmSpec made = started(0);
  const MigrationTicket t = ticket(made);
  auto endpoint = at(1).prepare_incoming(t);
  ASSERT_TRUE(is_ok(endpoint));
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(t, {"nonsense"}), Code::InvalidArgument));
  EXPECT_TRUE(fails_with(at(1).begin_outgoing(t, *endpoint), Code::NotFound));
  const VmSpec none = vm();
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(ticket(none), *endpoint), Code::NotFound));
  ASSERT_TRUE(is_ok(at(0).pause(made.key())));
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(t, *endpoint), Code::FailedPrecondition));
  ASSERT_TRUE(is_ok(at(0).resume(made.key())));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, ACancelledMigrationLeavesTheVmAtItsSource) {
  const VmSpec made = half_way();
  EXPECT_TRUE(is_ok(at(0).cancel_outgoing(made.key())));
  EXPECT_TRUE(wait_until([&] { return ended(0, made) && !sending(0, made); }, kSoon));
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Cancelled);
  EXPECT_TRUE(is_ok(at(0).cancel_outgoing(made.key()))) << "ok also when none runs";
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(wait_until([&] { return copy(1, made) == Copy::Absent; }, kSoon));
  expect_only_copy(0, made);
  // And it can move another time, busy as it is, if it may stand still for long enough.
  MigrationTicket patient = ticket(made);
  patient.downtime_limit = Milliseconds{10'000};
  EXPECT_EQ(move(patient, 0, 1).phase, OutgoingPhase::Completed);
  expect_only_copy(1, made);
}

TEST_P(DriverContract, ACancelRightAfterTheBeginningIsNotLost) {
  const VmSpec made = started(0, busy_guest());
  for (const int pause_ms : {0, 40, 200}) {
    MigrationTicket slow = ticket(made);
    slow.bandwidth_limit = kSlow;
    begin(slow, 0, 1);
    if (pause_ms > 0) hosts().wait(Milliseconds{pause_ms});
    EXPECT_TRUE(is_ok(at(0).cancel_outgoing(made.key())));
    EXPECT_TRUE(wait_until([&] { return ended(0, made) && !sending(0, made); }, kSoon))
        << "it goes on, cancelled after " << pause_ms << " ms";
    EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Cancelled);
    EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
    EXPECT_TRUE(wait_until([&] { return copy(1, made) == Copy::Absent; }, kSoon));
    expect_only_copy(0, made);
  }
}

TEST_P(DriverContract, AnEndedMigrationIsNotBegunAgainByTheSameCall) {
  const VmSpec made = started(0, busy_guest());
  MigrationTicket slow = ticket(made);
  slow.bandwidth_limit = kSlow;
  auto endpoint = at(1).prepare_incoming(slow);
  ASSERT_TRUE(is_ok(endpoint));
  ASSERT_TRUE(is_ok(at(0).begin_outgoing(slow, *endpoint)));
  ASSERT_TRUE(is_ok(at(0).cancel_outgoing(made.key())));
  ASSERT_TRUE(wait_until([&] { return ended(0, made) && !sending(0, made); }, kSoon));
  // A call that was late on its way must not undo the cancel.
  EXPECT_TRUE(is_ok(at(0).begin_outgoing(slow, *endpoint)));
  hosts().wait(Milliseconds{500});
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Cancelled);
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(wait_until([&] { return copy(1, made) == Copy::Absent; }, kSoon));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, DiscardingAHalfReceivedCopyEndsItAndTheSourceGoesOn) {
  const VmSpec made = half_way();
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(wait_until([&] { return ended(0, made) && !sending(0, made); }, kSoon));
  const OutgoingStatus status = outgoing(0, made);
  EXPECT_EQ(status.phase, OutgoingPhase::Failed);
  EXPECT_FALSE(status.error.empty());
  EXPECT_TRUE(wait_until([&] { return copy(0, made) == Copy::Running; }, kSoon));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, DestroyingAHalfReceivedCopyEndsItAndTheSourceGoesOn) {
  const VmSpec made = half_way();
  EXPECT_TRUE(is_ok(at(1).destroy(made.key())));
  EXPECT_TRUE(wait_until([&] { return ended(0, made) && !sending(0, made); }, kSoon));
  EXPECT_TRUE(wait_until([&] { return copy(0, made) == Copy::Running; }, kSoon));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, DestroyingTheSourceEndsBoth) {
  const VmSpec made = half_way();
  EXPECT_TRUE(is_ok(at(0).destroy(made.key())));
  EXPECT_EQ(copy(0, made), Copy::Absent);
  EXPECT_TRUE(wait_until([&] { return copy(1, made) == Copy::Absent; }, kSoon));
  EXPECT_TRUE(wait_until([&] { return ended(0, made); }, kSoon));
  EXPECT_NE(outgoing(0, made).phase, OutgoingPhase::Completed);
}

TEST_P(DriverContract, DiscardingLeavesACopyThatHasRun) {
  const VmSpec made = started(0);
  EXPECT_TRUE(is_ok(at(0).discard_incoming(made.key())));
  expect_only_copy(0, made);
  ASSERT_EQ(move(ticket(made), 0, 1).phase, OutgoingPhase::Completed);
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  expect_only_copy(1, made);
}

TEST_P(DriverContract, ADestinationThatHasTheVmRefuses) {
  const VmSpec made = started(0);
  EXPECT_TRUE(fails_with(at(0).prepare_incoming(ticket(made)), Code::FailedPrecondition));
  EXPECT_TRUE(is_ok(at(0).discard_incoming(made.key())));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, AMigrationOutlivesTheSourcesAgent) {
  const VmSpec made = half_way();
  hosts().restart_agent(0);
  EXPECT_EQ(copy(0, made), Copy::Running);
  EXPECT_TRUE(sending(0, made));
  EXPECT_EQ(copy(1, made), Copy::Incoming);
  const OutgoingStatus status = outgoing(0, made);
  EXPECT_EQ(status.phase, OutgoingPhase::PreCopying);
  EXPECT_TRUE(status.operation.empty());
  EXPECT_GT(status.transferred, Bytes{0});
  EXPECT_TRUE(
      wait_until([&] { return outgoing(0, made).transferred > status.transferred; }, kSoon));
  auto endpoint = at(1).prepare_incoming(ticket(made));
  if (endpoint) {
    EXPECT_TRUE(fails_with(at(0).begin_outgoing(ticket(made), *endpoint), Code::Conflict));
  }
  EXPECT_TRUE(is_ok(at(0).cancel_outgoing(made.key())));
  EXPECT_TRUE(wait_until([&] { return ended(0, made) && !sending(0, made); }, kSoon));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(wait_until([&] { return copy(1, made) == Copy::Absent; }, kSoon));
  expect_only_copy(0, made);
}

TEST_P(DriverContract, AMigrationOutlivesTheDestinationsAgent) {
  const VmSpec made = started(0, {.dirty_bytes_per_s = 4.0 * 1024 * 1024, .wws = mebibytes(16)});
  MigrationTicket t = ticket(made);
  t.bandwidth_limit = kSlow;
  begin(t, 0, 1);
  EXPECT_TRUE(wait_until([&] { return copy(1, made) != Copy::Absent; }, kSoon));
  hosts().restart_agent(1);
  EXPECT_TRUE(wait_until([&] { return ended(0, made); }, kMove));
  EXPECT_EQ(outgoing(0, made).phase, OutgoingPhase::Completed) << outgoing(0, made).error;
  expect_only_copy(1, made);
}

}  // namespace
}  // namespace mare::contract
