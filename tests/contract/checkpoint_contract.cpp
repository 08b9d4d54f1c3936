// Captures: the parts of a checkpoint. A backend that has none says so and is asked no more.
#include <gtest/gtest.h>

#include "tests/contract/driver_contract.h"

namespace mare::contract {
namespace {

constexpr Milliseconds kWrite{60'000};
constexpr Milliseconds kCaptureMoment{20};
const CheckpointId kFirst{"ck-1"};
const CheckpointId kSecond{"ck-2"};
const CheckpointId kThird{"ck-3"};

/// One VM's captures on its host.
class Part {
 public:
  Part(Hosts& hosts, int host, VmSpec vm, const CheckpointId& id)
      : hosts_(hosts), host_(host), vm_(std::move(vm)) {
    ticket = {id, vm_.key(), hosts.new_file(), kWrite, {}, true};
  }

  /// False where the backend prepares nothing.
  bool prepare() {
    auto ready = driver().prepare_capture(ticket);
    if (!ready && ready.error().code == Code::Unsupported) return false;
    EXPECT_TRUE(is_ok(ready));
    if (!ready) return true;
    EXPECT_EQ(ready->phase, CapturePhase::Ready);
    EXPECT_EQ(ready->checkpoint, ticket.checkpoint);
    EXPECT_EQ(ready->stopped.count(), 0);
    return true;
  }
  /// False where the backend has no captures.
  bool begin() {
    auto begun = driver().begin_capture(ticket);
    if (!begun && begun.error().code == Code::Unsupported) return false;
    EXPECT_TRUE(is_ok(begun));
    if (!begun) return true;
    EXPECT_EQ(begun->checkpoint, ticket.checkpoint);
    EXPECT_GT(begun->stopped.count(), 0);
    EXPECT_TRUE(begun->phase == CapturePhase::Holding || begun->phase == CapturePhase::Taken);
    return true;
  }
  CaptureStatus status() {
    auto found = driver().capture(vm_.key());
    EXPECT_TRUE(is_ok(found));
    return found ? *found : CaptureStatus{};
  }
  bool reaches(CapturePhase phase) {
    const MonotonicTime deadline = hosts_.now() + kWrite;
    while (status().phase != phase) {
      if (hosts_.now() > deadline) {
        ADD_FAILURE() << "it is " << to_string(status().phase) << ": " << status().error;
        return false;
      }
      hosts_.wait(kCaptureMoment);
    }
    return true;
  }
  Result<CaptureStatus> release() { return driver().release_capture(vm_.key(), ticket.checkpoint); }
  Status drop() { return driver().drop_capture(vm_.key(), ticket.checkpoint, ticket.path); }
  /// As a checkpoint keeps it, once it is durable.
  CheckpointPart kept() {
    const CaptureStatus durable = status();
    EXPECT_EQ(durable.phase, CapturePhase::Durable);
    EXPECT_GT(durable.size, Bytes{0});
    EXPECT_GE(durable.resumed, durable.stopped);
    CheckpointPart part;
    part.vm = vm_.id;
    part.uuid = vm_.uuid;
    part.path = ticket.path;
    part.size = durable.size;
    part.checksum = durable.checksum;
    part.written = durable.written;
    EXPECT_GT(durable.written, Bytes{0});
    EXPECT_EQ(durable.incremental, ticket.base && durable.full_because.empty());
    return part;
  }
  /// The next one is to be built on that.
  void build_on(const CheckpointPart& part) {
    ticket.base = CaptureBase{part.path, part.size, part.checksum};
  }
  /// From the beginning to the end; false where the backend has no captures.
  bool take() {
    if (!begin()) return false;
    EXPECT_TRUE(reaches(CapturePhase::Taken));
    EXPECT_TRUE(is_ok(release()));
    EXPECT_TRUE(reaches(CapturePhase::Durable));
    return true;
  }

  CaptureTicket ticket;

 private:
  /// Asked for each time: a restarted agent is another driver.
  Driver& driver() { return hosts_.driver(host_); }

  Hosts& hosts_;
  int host_;
  VmSpec vm_;
};

TEST_P(DriverContract, AVmThatIsNotThereIsNotCaptured) {
  const VmSpec none = vm();
  const CaptureTicket ticket{kFirst, none.key(), hosts().new_file(), kWrite};
  auto begun = at(0).begin_capture(ticket);
  if (!begun && begun.error().code == Code::Unsupported) GTEST_SKIP() << begun.error().text();
  EXPECT_TRUE(fails_with(begun, Code::NotFound));
  auto known = at(0).capture(none.key());
  ASSERT_TRUE(is_ok(known));
  EXPECT_EQ(known->phase, CapturePhase::None);
  EXPECT_TRUE(fails_with(at(0).release_capture(none.key(), kFirst), Code::NotFound));
  EXPECT_TRUE(is_ok(at(0).drop_capture(none.key(), kFirst, ticket.path)));
  CheckpointPart part;
  part.vm = none.id;
  part.uuid = none.uuid;
  part.path = ticket.path;
  EXPECT_TRUE(fails_with(at(0).load_capture(none, kFirst, part), Code::NotFound));
}

TEST_P(DriverContract, ACapturedVmStandsStillUntilItIsReleased) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.begin()) GTEST_SKIP() << "no captures";
  EXPECT_EQ(copy(0, made), Copy::Paused);
  ASSERT_TRUE(part.begin()) << "twice is as good as once";
  ASSERT_TRUE(part.reaches(CapturePhase::Taken));
  hosts().wait(Milliseconds{500});  // what it had said already arrives
  const double before = count(0, made);
  hosts().wait(Milliseconds{1500});
  EXPECT_EQ(count(0, made), before);
  EXPECT_EQ(part.status().phase, CapturePhase::Taken) << "nobody released it";
  auto released = part.release();
  ASSERT_TRUE(is_ok(released));
  EXPECT_GE(released->resumed, released->stopped);
  EXPECT_TRUE(is_ok(part.release())) << "twice is as good as once";
  expect_only_copy(0, made);
  ASSERT_TRUE(part.reaches(CapturePhase::Durable));
  part.kept();
  expect_only_copy(0, made);
}

TEST_P(DriverContract, AVmThatLeavesIsInItsFileBeforeItsCopyEnds) {
  auto facts = at(0).facts();
  ASSERT_TRUE(is_ok(facts));
  if (!facts->captures_to_leave) GTEST_SKIP() << "no captures to leave by";
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  part.ticket.leaves = true;
  expect_alive(0, made);
  const double before = count(0, made);
  ASSERT_TRUE(part.begin());
  ASSERT_TRUE(part.reaches(CapturePhase::Durable)) << "nobody released it";
  EXPECT_EQ(copy(0, made), Copy::Paused);
  EXPECT_TRUE(fails_with(at(0).resume(made.key()), Code::FailedPrecondition)) << "it is held";
  const CaptureStatus durable = part.status();
  EXPECT_GE(durable.durable, durable.stopped);
  CheckpointPart kept;
  kept.vm = made.id;
  kept.uuid = made.uuid;
  kept.path = part.ticket.path;
  kept.size = durable.size;
  kept.checksum = durable.checksum;
  kept.written = durable.written;
  ASSERT_TRUE(is_ok(part.release()));
  EXPECT_EQ(copy(0, made), Copy::Absent) << "its release ends it";
  EXPECT_TRUE(is_ok(part.release())) << "twice is as good as once";
  auto loaded = at(1).load_capture(made, kFirst, kept);
  ASSERT_TRUE(is_ok(loaded));
  EXPECT_GE(loaded->reading.count() + loaded->restoring.count(), 0);
  EXPECT_EQ(copy(1, made), Copy::Paused);
  ASSERT_TRUE(is_ok(at(1).resume(made.key())));
  EXPECT_TRUE(wait_until([&] { return count(1, made) >= before; }, kSoon)) << "it began anew";
  EXPECT_TRUE(is_ok(at(1).drop_capture(made.key(), kFirst, kept.path)));
  expect_only_copy(1, made);
  EXPECT_TRUE(fails_with(at(0).load_capture(made, kFirst, kept), Code::NotFound));
}

TEST_P(DriverContract, AVmThatWasToLeaveGoesOnWhenThatIsDropped) {
  auto facts = at(0).facts();
  ASSERT_TRUE(is_ok(facts));
  if (!facts->captures_to_leave) GTEST_SKIP() << "no captures to leave by";
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  part.ticket.leaves = true;
  expect_alive(0, made);
  ASSERT_TRUE(part.begin());
  EXPECT_TRUE(fails_with(part.release(), Code::FailedPrecondition)) << "the file is not whole";
  ASSERT_TRUE(part.reaches(CapturePhase::Durable));
  ASSERT_TRUE(is_ok(part.drop()));
  expect_alive(0, made);
  EXPECT_FALSE(part.release()) << "too late to end it";
  expect_only_copy(0, made);
}

TEST_P(DriverContract, AVmGoesOnFromItsPartOnEitherHost) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  expect_alive(0, made);
  const double before = count(0, made);
  if (!part.take()) GTEST_SKIP() << "no captures";
  const CheckpointPart kept = part.kept();
  expect_alive(0, made);
  EXPECT_TRUE(fails_with(at(0).load_capture(made, kFirst, kept), Code::FailedPrecondition))
      << "the VM is here";
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  for (const int host : {1, 0}) {
    ASSERT_TRUE(is_ok(at(host).load_capture(made, kFirst, kept)));
    EXPECT_TRUE(is_ok(at(host).load_capture(made, kFirst, kept))) << "twice is as good as once";
    EXPECT_EQ(copy(host, made), Copy::Paused) << "it stands still";
    ASSERT_TRUE(is_ok(at(host).resume(made.key())));
    EXPECT_TRUE(wait_until([&] { return count(host, made) >= before; }, kSoon)) << "it began anew";
    expect_only_copy(host, made);
    ASSERT_TRUE(is_ok(at(host).destroy(made.key())));
  }
}

TEST_P(DriverContract, APartThatIsNotWhatWasKeptIsRefused) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.take()) GTEST_SKIP() << "no captures";
  const CheckpointPart kept = part.kept();
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  CheckpointPart other = kept;
  ++other.checksum;
  EXPECT_TRUE(fails_with(at(1).load_capture(made, kFirst, other), Code::FailedPrecondition));
  other = kept;
  other.size = other.size + Bytes{1};
  EXPECT_TRUE(fails_with(at(1).load_capture(made, kFirst, other), Code::FailedPrecondition));
  other = kept;
  other.uuid = other_incarnation(made).uuid;
  EXPECT_TRUE(fails_with(at(1).load_capture(other_incarnation(made), kFirst, other),
                         Code::FailedPrecondition));
  EXPECT_EQ(copy(1, made), Copy::Absent);
  ASSERT_TRUE(is_ok(at(1).load_capture(made, kFirst, kept)));
}

TEST_P(DriverContract, APartIsBuiltOnAnotherAndAVmGoesOnFromIt) {
  const VmSpec made = started(0);
  Part first(hosts(), 0, made, kFirst);
  if (!first.take()) GTEST_SKIP() << "no captures";
  const CheckpointPart below = first.kept();
  expect_alive(0, made);
  const double before = count(0, made);
  Part second(hosts(), 0, made, kSecond);
  second.build_on(below);
  ASSERT_TRUE(second.take());
  const CheckpointPart middle = second.kept();
  EXPECT_TRUE(second.status().incremental) << second.status().full_because;
  EXPECT_LT(middle.written, below.written) << "it wrote no more than what had changed";
  Part third(hosts(), 0, made, kThird);
  third.build_on(middle);
  third.ticket.compress = false;
  ASSERT_TRUE(third.take());
  const CheckpointPart top = third.kept();
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  const auto goes_on_from = [&](const CheckpointId& id, const CheckpointPart& part) {
    ASSERT_TRUE(is_ok(at(1).load_capture(made, id, part)));
    ASSERT_TRUE(is_ok(at(1).resume(made.key())));
    EXPECT_TRUE(wait_until([&] { return count(1, made) >= before; }, kSoon)) << "it began anew";
    expect_only_copy(1, made);
    ASSERT_TRUE(is_ok(at(1).destroy(made.key())));
  };
  goes_on_from(kThird, top);
  // The middle one is made full by another host; then the first one is needed no more.
  auto merged = at(1).merge_capture(middle, true);
  ASSERT_TRUE(is_ok(merged));
  EXPECT_GT(*merged, middle.written);
  auto again = at(0).merge_capture(middle, true);
  ASSERT_TRUE(is_ok(again)) << "twice is as good as once";
  EXPECT_EQ(*again, *merged);
  ASSERT_TRUE(is_ok(at(1).drop_capture(made.key(), kFirst, below.path)));
  goes_on_from(kThird, top);
  goes_on_from(kSecond, middle);
  ASSERT_TRUE(is_ok(at(1).drop_capture(made.key(), kSecond, middle.path)));
  EXPECT_TRUE(fails_with(at(1).load_capture(made, kThird, top), Code::FailedPrecondition))
      << "what it is built on is gone";
  EXPECT_EQ(copy(1, made), Copy::Absent);
  EXPECT_TRUE(fails_with(at(1).merge_capture(top, true), Code::FailedPrecondition));
  EXPECT_TRUE(fails_with(at(1).merge_capture(middle, true), Code::NotFound));
}

TEST_P(DriverContract, AVmGoesOnFromItsPartInMemoryWhereThatIsKept) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  expect_alive(0, made);
  const double before = count(0, made);
  if (!part.take()) GTEST_SKIP() << "no captures";
  CheckpointPart kept = part.kept();
  kept.partner = hosts().name(1);
  for (const bool again : {false, true}) {
    auto answers = at(1).keep_standby({kept});
    if (!again && !answers && answers.error().code == Code::Unsupported) {
      GTEST_SKIP() << answers.error().text();
    }
    ASSERT_TRUE(is_ok(answers));
    ASSERT_EQ(answers->size(), 1U);
    EXPECT_EQ(answers->front().vm, made.id);
    EXPECT_TRUE(answers->front().kept) << answers->front().why_not;
    EXPECT_GT(answers->front().memory, Bytes{0});
  }
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  const auto goes_on = [&](int host, const CheckpointPart& from, bool mapped) {
    auto loaded = at(host).load_capture(made, kFirst, from);
    ASSERT_TRUE(is_ok(loaded));
    EXPECT_EQ(loaded->mapped, mapped) << "on host " << host << ", kept by " << from.partner.value;
    EXPECT_EQ(copy(host, made), Copy::Paused) << "it stands still";
    ASSERT_TRUE(is_ok(at(host).resume(made.key())));
    EXPECT_TRUE(wait_until([&] { return count(host, made) >= before; }, kSoon)) << "it began anew";
    expect_only_copy(host, made);
    ASSERT_TRUE(is_ok(at(host).destroy(made.key())));
  };
  goes_on(1, kept, true);
  goes_on(1, kept, true);  // what the first one wrote since is not in it
  goes_on(0, kept, false);
  CheckpointPart from_file = kept;
  from_file.partner = {};
  goes_on(1, from_file, false);
  auto none = at(1).keep_standby({});
  ASSERT_TRUE(is_ok(none));
  EXPECT_TRUE(none->empty());
  goes_on(1, kept, false);
}

TEST_P(DriverContract, ANewerPartTakesThePlaceOfTheOneInMemory) {
  const VmSpec made = started(0);
  Part first(hosts(), 0, made, kFirst);
  if (!first.take()) GTEST_SKIP() << "no captures";
  CheckpointPart older = first.kept();
  older.partner = hosts().name(1);
  CheckpointPart absent = older;
  absent.vm = VmId{made.id.value + "-none"};
  absent.uuid = other_incarnation(made).uuid;
  absent.path = hosts().new_file();
  auto answers = at(1).keep_standby({absent, older});
  if (!answers && answers.error().code == Code::Unsupported) {
    GTEST_SKIP() << answers.error().text();
  }
  ASSERT_TRUE(is_ok(answers));
  ASSERT_EQ(answers->size(), 2U);
  EXPECT_EQ(answers->front().vm, absent.vm);
  EXPECT_FALSE(answers->front().kept) << "there is no such file";
  EXPECT_FALSE(answers->front().why_not.empty());
  EXPECT_TRUE(answers->back().kept) << answers->back().why_not;
  expect_alive(0, made);
  const double before = count(0, made);
  Part second(hosts(), 0, made, kSecond);
  second.build_on(older);
  ASSERT_TRUE(second.take());
  CheckpointPart newer = second.kept();
  newer.partner = hosts().name(1);
  CheckpointPart other = newer;
  ++other.checksum;
  answers = at(1).keep_standby({other});
  ASSERT_TRUE(is_ok(answers));
  ASSERT_EQ(answers->size(), 1U);
  EXPECT_FALSE(answers->front().kept) << "the file is another one";
  answers = at(1).keep_standby({newer});
  ASSERT_TRUE(is_ok(answers));
  ASSERT_EQ(answers->size(), 1U);
  EXPECT_TRUE(answers->front().kept) << answers->front().why_not;
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  auto loaded = at(1).load_capture(made, kFirst, older);
  ASSERT_TRUE(is_ok(loaded));
  EXPECT_FALSE(loaded->mapped) << "it was forgotten for the newer one";
  ASSERT_TRUE(is_ok(at(1).destroy(made.key())));
  loaded = at(1).load_capture(made, kSecond, newer);
  ASSERT_TRUE(is_ok(loaded));
  EXPECT_TRUE(loaded->mapped);
  ASSERT_TRUE(is_ok(at(1).resume(made.key())));
  EXPECT_TRUE(wait_until([&] { return count(1, made) >= before; }, kSoon)) << "it began anew";
  expect_only_copy(1, made);
  EXPECT_TRUE(is_ok(at(1).keep_standby({})));
  expect_alive(1, made);
}

TEST_P(DriverContract, OnAPartThatIsGoneOrAnotherNothingIsBuilt) {
  const VmSpec made = started(0);
  Part first(hosts(), 0, made, kFirst);
  if (!first.take()) GTEST_SKIP() << "no captures";
  const CheckpointPart below = first.kept();
  CheckpointPart other = below;
  ++other.checksum;
  Part second(hosts(), 0, made, kSecond);
  second.build_on(other);
  ASSERT_TRUE(second.take());
  const CheckpointPart full = second.kept();
  EXPECT_FALSE(second.status().incremental);
  EXPECT_FALSE(second.status().full_because.empty());
  ASSERT_TRUE(is_ok(at(0).drop_capture(made.key(), kFirst, below.path)));
  Part third(hosts(), 0, made, kThird);
  third.build_on(below);
  ASSERT_TRUE(third.take());
  EXPECT_FALSE(third.status().incremental);
  EXPECT_FALSE(third.status().full_because.empty());
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  EXPECT_TRUE(is_ok(at(1).load_capture(made, kSecond, full)));
}

TEST_P(DriverContract, AVmThatNobodyReleasesGoesOnAndItsCaptureFails) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  part.ticket.hold_limit = Milliseconds{1500};
  if (!part.begin()) GTEST_SKIP() << "no captures";
  ASSERT_TRUE(part.reaches(CapturePhase::Failed));
  EXPECT_FALSE(part.status().error.empty());
  expect_only_copy(0, made);
  EXPECT_TRUE(fails_with(part.release(), Code::FailedPrecondition));
  // Its name is free again: there is no file.
  Part again(hosts(), 0, made, kSecond);
  again.ticket.path = part.ticket.path;
  ASSERT_TRUE(again.take());
  again.kept();
}

TEST_P(DriverContract, ADroppedCaptureLeavesNothing) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.begin()) GTEST_SKIP() << "no captures";
  EXPECT_TRUE(is_ok(part.drop()));
  EXPECT_TRUE(is_ok(part.drop()));
  expect_only_copy(0, made);
  EXPECT_TRUE(fails_with(at(0).begin_capture(part.ticket), Code::FailedPrecondition))
      << "a call that comes late";
  expect_only_copy(0, made);
  // Also one that is durable, and by another host.
  Part whole(hosts(), 0, made, kSecond);
  ASSERT_TRUE(whole.take());
  const CheckpointPart kept = whole.kept();
  EXPECT_TRUE(is_ok(at(1).drop_capture(made.key(), kSecond, kept.path)));
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  EXPECT_TRUE(fails_with(at(0).load_capture(made, kSecond, kept), Code::NotFound));
}

TEST_P(DriverContract, APreparedCaptureLeavesItsVmRunning) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  part.ticket.answer_within = Milliseconds{50};
  if (!part.prepare()) GTEST_SKIP() << "nothing is prepared";
  ASSERT_TRUE(part.prepare()) << "twice is as good as once";
  expect_alive(0, made);
  EXPECT_EQ(part.status().phase, CapturePhase::Ready);
  EXPECT_TRUE(fails_with(part.release(), Code::FailedPrecondition));
  ASSERT_TRUE(part.begin());
  EXPECT_EQ(copy(0, made), Copy::Paused);
  auto late = at(0).prepare_capture(part.ticket);
  ASSERT_TRUE(is_ok(late));
  EXPECT_NE(late->phase, CapturePhase::Ready) << "it has begun";
  ASSERT_TRUE(part.take());
  part.kept();
  expect_only_copy(0, made);
}

TEST_P(DriverContract, APreparedCaptureThatNobodyBeginsIsGivenUp) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  part.ticket.hold_limit = Milliseconds{1500};
  if (!part.prepare()) GTEST_SKIP() << "nothing is prepared";
  ASSERT_TRUE(part.reaches(CapturePhase::Failed));
  EXPECT_FALSE(part.status().error.empty());
  EXPECT_EQ(part.status().stopped.count(), 0);
  expect_only_copy(0, made);
  auto late = at(0).begin_capture(part.ticket);
  ASSERT_TRUE(is_ok(late));
  EXPECT_EQ(late->phase, CapturePhase::Failed);
  expect_alive(0, made);
  // There is no file.
  Part again(hosts(), 0, made, kSecond);
  again.ticket.path = part.ticket.path;
  ASSERT_TRUE(again.take());
}

TEST_P(DriverContract, APreparedCaptureThatIsDroppedLeavesNothing) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.prepare()) GTEST_SKIP() << "nothing is prepared";
  Part second(hosts(), 0, made, kSecond);
  EXPECT_TRUE(fails_with(at(0).prepare_capture(second.ticket), Code::Conflict));
  EXPECT_TRUE(fails_with(at(0).begin_capture(second.ticket), Code::Conflict));
  EXPECT_TRUE(fails_with(at(0).pause(made.key()), Code::FailedPrecondition));
  const MigrationTicket move = ticket(made);
  auto endpoint = at(1).prepare_incoming(move);
  ASSERT_TRUE(is_ok(endpoint));
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(move, *endpoint), Code::Conflict));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(is_ok(part.drop()));
  expect_only_copy(0, made);
  EXPECT_TRUE(fails_with(at(0).prepare_capture(part.ticket), Code::FailedPrecondition));
  EXPECT_TRUE(fails_with(at(0).begin_capture(part.ticket), Code::FailedPrecondition));
  expect_alive(0, made);
  second.ticket.path = part.ticket.path;
  ASSERT_TRUE(second.prepare());
  ASSERT_TRUE(second.take());
  second.kept();
}

TEST_P(DriverContract, ARestartedAgentHasPreparedNothing) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.prepare()) GTEST_SKIP() << "nothing is prepared";
  hosts().restart_agent(0);
  EXPECT_EQ(part.status().phase, CapturePhase::None);
  EXPECT_TRUE(is_ok(part.drop()));
  expect_alive(0, made);
  Part next(hosts(), 0, made, kSecond);
  next.ticket.path = part.ticket.path;
  ASSERT_TRUE(next.take()) << "what the former agent had prepared is gone";
}

TEST_P(DriverContract, OneThingAtATimeIsDoneWithAVm) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.begin()) GTEST_SKIP() << "no captures";
  Part second(hosts(), 0, made, kSecond);
  EXPECT_TRUE(fails_with(at(0).begin_capture(second.ticket), Code::Conflict));
  EXPECT_TRUE(fails_with(at(0).resume(made.key()), Code::FailedPrecondition));
  const MigrationTicket move = ticket(made);
  auto endpoint = at(1).prepare_incoming(move);
  ASSERT_TRUE(is_ok(endpoint));
  EXPECT_TRUE(fails_with(at(0).begin_outgoing(move, *endpoint), Code::Conflict));
  EXPECT_TRUE(is_ok(at(1).discard_incoming(made.key())));
  EXPECT_TRUE(is_ok(part.drop()));
  const VmSpec moving = half_way();
  Part late(hosts(), 0, moving, kFirst);
  EXPECT_TRUE(fails_with(at(0).begin_capture(late.ticket), Code::Conflict));
  EXPECT_EQ(outgoing(0, moving).phase, OutgoingPhase::PreCopying);
}

TEST_P(DriverContract, AFileThatIsThereIsNotWrittenOver) {
  const VmSpec made = started(0);
  const VmSpec other = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.take()) GTEST_SKIP() << "no captures";
  Part second(hosts(), 0, other, kFirst);
  second.ticket.path = part.ticket.path;
  EXPECT_TRUE(fails_with(at(0).begin_capture(second.ticket), Code::AlreadyExists));
  const auto prepared = at(0).prepare_capture(second.ticket);
  EXPECT_TRUE(!prepared && (prepared.error().code == Code::AlreadyExists ||
                            prepared.error().code == Code::Unsupported));
  expect_only_copy(0, other);
  const CheckpointPart kept = part.kept();
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  EXPECT_TRUE(is_ok(at(1).load_capture(made, kFirst, kept)));
}

TEST_P(DriverContract, ARestartedAgentKnowsNoCaptureAndItsVmCanGoOn) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.begin()) GTEST_SKIP() << "no captures";
  ASSERT_TRUE(part.reaches(CapturePhase::Taken));
  hosts().restart_agent(0);
  auto known = at(0).capture(made.key());
  ASSERT_TRUE(is_ok(known));
  EXPECT_EQ(known->phase, CapturePhase::None);
  EXPECT_TRUE(is_ok(at(0).drop_capture(made.key(), kFirst, part.ticket.path)));
  EXPECT_TRUE(is_ok(at(0).resume(made.key())));
  expect_only_copy(0, made);
  Part next(hosts(), 0, made, kSecond);
  next.ticket.path = part.ticket.path;
  ASSERT_TRUE(next.take()) << "what the former agent's capture left behind is gone";
}

TEST_P(DriverContract, AVmThatEndsTakesItsCaptureWithIt) {
  const VmSpec made = started(0);
  Part part(hosts(), 0, made, kFirst);
  if (!part.begin()) GTEST_SKIP() << "no captures";
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  ASSERT_TRUE(part.reaches(CapturePhase::Failed));
  EXPECT_TRUE(fails_with(part.release(), Code::FailedPrecondition));
  EXPECT_EQ(copy(0, made), Copy::Absent);
}

}  // namespace
}  // namespace mare::contract
