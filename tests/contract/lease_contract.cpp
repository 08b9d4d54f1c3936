#include "tests/contract/lease_contract.h"

namespace mare::contract {

void HostLeases::SetUp() {
  DriverContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  note = hosts().new_file() + ".fenced/h-1";
  auto asked = at(0).renew_lease({"", kTerm, false, note});
  if (!asked && asked.error().code == Code::Unsupported) GTEST_SKIP() << asked.error().text();
  ASSERT_TRUE(is_ok(asked));
}

void HostLeases::TearDown() {
  if (!IsSkipped() && !note.empty()) {
    EXPECT_TRUE(is_ok(at(1).remove_fence_note(note)));
    EXPECT_TRUE(renew(false));
  }
  DriverContract::TearDown();
}

LeaseAnswer HostLeases::say(const std::string& stamp, bool enforced) {
  auto answer = at(0).renew_lease({stamp, kTerm, enforced, note});
  EXPECT_TRUE(is_ok(answer));
  return answer ? *answer : LeaseAnswer{};
}

TEST_P(HostLeases, AnEmptyStampOnlyAsks) {
  const LeaseAnswer asked = say("");
  EXPECT_FALSE(asked.granted);
  EXPECT_FALSE(asked.enforced);
  EXPECT_FALSE(asked.stamp.empty());
}

TEST_P(HostLeases, AWordThatComesLateGrantsNothing) {
  const std::string old = stamp();
  ASSERT_TRUE(say(old).granted);
  EXPECT_TRUE(say("").enforced);
  let_pass(kTerm);
  EXPECT_FALSE(say(old).granted);
  EXPECT_FALSE(say(old, false).granted) << "nor does it end the lease";
  EXPECT_TRUE(say("").enforced);
  EXPECT_FALSE(say("not a stamp").granted);
}

TEST_P(HostLeases, NotesArePutAndRemovedAnyNumberOfTimes) {
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_ok(at(1).put_fence_note(note)));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_ok(at(0).remove_fence_note(note)));
}

TEST_P(HostLeases, EitherVoiceIsEnoughAndNoneIsTheEnd) {
  const VmSpec vm = started(0);
  // So that the storage has a place for notes on hosts that only mount it.
  ASSERT_TRUE(is_ok(at(1).put_fence_note(note)));
  ASSERT_TRUE(is_ok(at(1).remove_fence_note(note)));
  ASSERT_TRUE(renew());
  let_pass(2 * kTerm);
  EXPECT_EQ(copy(0, vm), Copy::Running) << "the storage has no note";

  ASSERT_TRUE(is_ok(at(1).put_fence_note(note)));
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(renew());
    let_pass(kTerm / 4);
    EXPECT_EQ(copy(0, vm), Copy::Running) << "mared says so";
  }
  EXPECT_TRUE(wait_until([&] { return copy(0, vm) == Copy::Absent; }, kSoon)) << "nobody does";
  const VmSpec other = HostLeases::vm();
  EXPECT_TRUE(fails_with(at(0).start(other), Code::FailedPrecondition));
  EXPECT_TRUE(is_ok(at(1).start(other))) << "it is a host's own";
  EXPECT_TRUE(is_ok(at(1).destroy(other.key())));

  ASSERT_TRUE(is_ok(at(1).remove_fence_note(note)));
  EXPECT_TRUE(wait_until([&] { return at(0).start(other).ok(); }, kSoon));
}

TEST_P(HostLeases, AWithdrawnLeaseEndsNothing) {
  const VmSpec vm = started(0);
  ASSERT_TRUE(is_ok(at(1).put_fence_note(note)));
  ASSERT_TRUE(renew());
  ASSERT_TRUE(renew(false));
  EXPECT_FALSE(say("").enforced);
  let_pass(2 * kTerm);
  EXPECT_EQ(copy(0, vm), Copy::Running);
}

}  // namespace mare::contract
