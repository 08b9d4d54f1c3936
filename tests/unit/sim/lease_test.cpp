// A host's lease: who may renew it, what it is worth when it comes late, and what its end does.
#include "tests/unit/sim/fixture.h"

namespace mare::sim {
namespace {

class Leases : public SimTest {
 protected:
  static constexpr Milliseconds kTerm{4000};
  static constexpr const char* kNote = "/ck/fenced/h1-1";

  std::string stamp() {
    auto answer = one->renew_lease({"", kTerm, true, kNote});
    EXPECT_TRUE(answer.ok());
    EXPECT_FALSE(answer->granted) << "an empty one only asks";
    return answer->stamp;
  }
  bool renew(const std::string& from, bool enforced = true) {
    auto answer = one->renew_lease({from, kTerm, enforced, kNote});
    return answer && answer->granted;
  }
  void SetUp() override { ASSERT_TRUE(one->start(vm)); }
  Copy here() { return cluster.copy_on(h1, vm.id); }

  const VmSpec vm = spec(0);
};

TEST_F(Leases, AHostWithoutOneRunsItsVmsWhateverHappens) {
  ASSERT_TRUE(cluster.cut_host(h1, 1h));
  clock.advance(30min);
  EXPECT_EQ(here(), Copy::Running);
}

TEST_F(Leases, OneVoiceIsEnough) {
  ASSERT_TRUE(renew(stamp()));
  clock.advance(1h);  // mared is dead, the storage is there
  EXPECT_EQ(here(), Copy::Running);
  ASSERT_TRUE(two->put_fence_note(kNote));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(renew(stamp()));  // mared goes on to say so
    clock.advance(3s);
    EXPECT_EQ(here(), Copy::Running);
  }
}

TEST_F(Leases, TheEndComesATermAfterBothFellSilent) {
  ASSERT_TRUE(renew(stamp()));
  clock.advance(2s);
  ASSERT_TRUE(cluster.cut_host(h1, 1h));
  clock.advance(3999ms);
  EXPECT_EQ(here(), Copy::Running);
  clock.advance(1ms);
  EXPECT_EQ(here(), Copy::Absent);
  ASSERT_EQ(cluster.endings().size(), 1U);
  EXPECT_EQ(cluster.endings()[0].cause, EndCause::LeaseOver);
}

TEST_F(Leases, ANoteEndsItOnceMaredIsSilentToo) {
  ASSERT_TRUE(renew(stamp()));
  clock.advance(10s);
  ASSERT_TRUE(two->put_fence_note("/ck/fenced/h1-2"));
  clock.advance(10s);
  EXPECT_EQ(here(), Copy::Running) << "a note of another fence";
  ASSERT_TRUE(two->put_fence_note(kNote));
  clock.advance(4s);
  EXPECT_EQ(here(), Copy::Absent);
  EXPECT_EQ(one->start(vm).error().code, Code::FailedPrecondition) << "nor is any made";
  ASSERT_TRUE(one->remove_fence_note(kNote));
  EXPECT_TRUE(one->start(vm));
}

TEST_F(Leases, AWordThatComesLateGrantsNothing) {
  const std::string old = stamp();
  ASSERT_TRUE(renew(old));
  clock.advance(4s);
  EXPECT_FALSE(renew(old));
  EXPECT_FALSE(renew(old, false)) << "nor does it end the lease";
  ASSERT_TRUE(two->put_fence_note(kNote));
  clock.advance(4s);
  EXPECT_EQ(here(), Copy::Absent);
}

TEST_F(Leases, AStampOfAnotherBootIsNone) {
  const std::string old = stamp();
  ASSERT_TRUE(cluster.kill_host(h1));
  ASSERT_TRUE(cluster.boot_host(h1));
  EXPECT_FALSE(renew(old));
  EXPECT_TRUE(renew(stamp()));
}

TEST_F(Leases, AFrozenHostThawsWithoutThoseWhoseLeaseIsOver) {
  ASSERT_TRUE(renew(stamp()));
  ASSERT_TRUE(cluster.freeze_host(h1, 10s));
  clock.advance(9s);
  EXPECT_EQ(here(), Copy::Paused) << "nobody can end it now";
  // Meanwhile it runs elsewhere: a step of the frozen one would be a second running copy.
  ASSERT_TRUE(two->start(vm));
  clock.advance(2s);
  EXPECT_EQ(here(), Copy::Absent);
}

TEST_F(Leases, AHostThatFreezesForAMomentGoesOn) {
  ASSERT_TRUE(renew(stamp()));
  ASSERT_TRUE(cluster.freeze_host(h1, 3s));
  clock.advance(1s);
  EXPECT_EQ(one->observe(vm.key()).error().code, Code::Unavailable);
  clock.advance(3s);
  EXPECT_EQ(here(), Copy::Running);
  EXPECT_DOUBLE_EQ(cluster.guest_progress(vm.id)->count(), 1) << "3 s it stood still";
}

TEST_F(Leases, AreWithdrawn) {
  ASSERT_TRUE(renew(stamp()));
  ASSERT_TRUE(renew(stamp(), false));
  ASSERT_TRUE(cluster.cut_host(h1, 1h));
  clock.advance(30min);
  EXPECT_EQ(here(), Copy::Running);
}

}  // namespace
}  // namespace mare::sim
