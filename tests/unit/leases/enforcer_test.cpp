// When a host's VMs are ended, and when they are not: by a clock that the test moves.
#include "hypervisor/leases/enforcer.h"

#include <gtest/gtest.h>

namespace mare::leases {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Answers at once, hangs, or has answered nothing yet.
class FakeStorage final : public StorageVoice {
 public:
  void ask(const std::string& note, MonotonicTime now) override {
    if (!question_) question_ = Answer{note, now, NoteSeen::Unknown};
    if (!hangs) answer();
  }
  std::optional<Answer> take() override { return std::exchange(answer_, std::nullopt); }
  void answer() {
    if (!question_) return;
    answer_ = std::exchange(question_, std::nullopt);
    answer_->seen = seen;
  }

  NoteSeen seen = NoteSeen::Absent;
  bool hangs = false;

 private:
  std::optional<Answer> question_;
  std::optional<Answer> answer_;
};

class Enforcing : public ::testing::Test {
 protected:
  static constexpr Milliseconds kTerm{2000};

  void say() { record = LeaseRecord{true, kTerm, clock.now() + kTerm, "/ck/fenced/h1-1"}; }
  /// So long, in the enforcer's own steps.
  void pass(milliseconds time) {
    for (milliseconds gone{0}; gone < time; gone += kLookEvery) {
      clock.advance(kLookEvery);
      enforcer.step();
    }
  }
  /// Nothing on the host takes a step meanwhile.
  void freeze(milliseconds time) { clock.advance(time); }

  ManualClock clock;
  Log log{clock, LogLevel::Error};
  Result<LeaseRecord> record = LeaseRecord{};
  FakeStorage storage;
  int vms = 2;
  int endings = 0;
  Enforcer enforcer{clock,
                    log,
                    {[this] { return record; },
                     [this] {
                       endings += vms > 0 ? 1 : 0;
                       return std::exchange(vms, 0);
                     }},
                    storage};
};

TEST_F(Enforcing, AHostWithoutALeaseIsLeftAlone) {
  storage.seen = NoteSeen::Unknown;
  pass(seconds{60});
  EXPECT_EQ(vms, 2);
  EXPECT_TRUE(enforcer.may_run());
  EXPECT_FALSE(enforcer.enforced());
}

TEST_F(Enforcing, TheStorageAloneIsEnough) {
  say();
  pass(seconds{60});
  EXPECT_EQ(vms, 2);
  EXPECT_TRUE(enforcer.may_run());
}

TEST_F(Enforcing, MaredAloneIsEnough) {
  for (const auto without : {NoteSeen::Unknown, NoteSeen::Present}) {
    storage.seen = without;
    for (int i = 0; i < 30; ++i) {
      say();
      pass(seconds{1});
      EXPECT_EQ(vms, 2);
      EXPECT_TRUE(enforcer.may_run());
    }
  }
}

TEST_F(Enforcing, ItEndsATermAfterBothFellSilent) {
  say();
  pass(seconds{1});
  storage.seen = NoteSeen::Unknown;
  pass(milliseconds{1950});
  EXPECT_EQ(vms, 2);
  EXPECT_TRUE(enforcer.may_run());
  pass(milliseconds{150});
  EXPECT_EQ(vms, 0);
  EXPECT_FALSE(enforcer.may_run());
}

TEST_F(Enforcing, ANoteEndsItOnceMaredIsSilent) {
  say();
  pass(seconds{30});
  storage.seen = NoteSeen::Present;
  pass(kTerm + kLastAnswer + kLookEvery);
  EXPECT_EQ(vms, 0);
}

TEST_F(Enforcing, WhatIsStartedAfterwardsEndsToo) {
  storage.seen = NoteSeen::Present;
  say();
  pass(kTerm + seconds{1});
  ASSERT_EQ(vms, 0);
  vms = 1;
  pass(kLookEvery);
  EXPECT_EQ(vms, 0);
  EXPECT_EQ(endings, 2);
}

TEST_F(Enforcing, AStorageThatHangsIsNotWaitedFor) {
  say();
  pass(seconds{1});
  storage.hangs = true;
  pass(kTerm + kLastAnswer + 2 * kLookEvery);
  EXPECT_EQ(vms, 0);
}

TEST_F(Enforcing, AnAnswerCountsFromItsQuestion) {
  say();
  storage.hangs = true;
  pass(seconds{2} - kLookEvery);
  // It was looked at two seconds ago: a note may have come since.
  storage.answer();
  pass(2 * kLookEvery + kLastAnswer);
  EXPECT_EQ(vms, 0);
}

TEST_F(Enforcing, AFrozenHostAsksOnceMoreBeforeItJudges) {
  say();
  pass(seconds{1});
  freeze(seconds{30});
  enforcer.step();
  EXPECT_FALSE(enforcer.may_run()) << "nothing is made before the storage has spoken";
  EXPECT_EQ(vms, 2);
  pass(kLookEvery);
  EXPECT_TRUE(enforcer.may_run());
  EXPECT_EQ(vms, 2);
}

TEST_F(Enforcing, AFrozenHostThatWasFencedEndsAtItsFirstAnswer) {
  say();
  pass(seconds{1});
  storage.seen = NoteSeen::Present;
  freeze(seconds{30});
  pass(2 * kLookEvery);
  EXPECT_EQ(vms, 0);
}

TEST_F(Enforcing, ARecordThatCanNotBeReadRunsOutAsItWas) {
  say();
  pass(seconds{1});
  record = make_error(Code::Unavailable, "damaged");
  pass(seconds{10});
  EXPECT_EQ(vms, 2) << "the storage still speaks for it";
  storage.seen = NoteSeen::Unknown;
  pass(kTerm + kLastAnswer + kLookEvery);
  EXPECT_EQ(vms, 0);
}

TEST_F(Enforcing, AnotherNoteIsAnotherQuestion) {
  say();
  pass(seconds{1});
  storage.hangs = true;
  record->note = "/ck/fenced/h1-2";
  record->said_until = clock.now() + milliseconds{100};
  pass(milliseconds{300});
  EXPECT_EQ(vms, 0) << "that the first was absent says nothing of the second";
}

TEST_F(Enforcing, AWithdrawnLeaseEndsNothing) {
  storage.seen = NoteSeen::Present;
  say();
  pass(seconds{1});
  record = LeaseRecord{};
  pass(seconds{10});
  EXPECT_EQ(vms, 2);
  EXPECT_TRUE(enforcer.may_run());
}

}  // namespace
}  // namespace mare::leases
