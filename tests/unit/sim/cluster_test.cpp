// One host's VMs: what each call of the driver does, and what faults do to it.
#include "tests/unit/sim/fixture.h"

namespace mare::sim {
namespace {

class Cluster : public SimTest {};

TEST_F(Cluster, StartIsIdempotentAndKnowsIncarnations) {
  const auto vm = spec(0);
  EXPECT_EQ(at(*one, vm), Copy::Absent);
  ASSERT_TRUE(one->start(vm));
  ASSERT_TRUE(one->start(vm));
  EXPECT_EQ(at(*one, vm), Copy::Running);
  auto other = vm;
  other.uuid = "another";
  EXPECT_EQ(one->start(other).error().code, Code::AlreadyExists);
  EXPECT_EQ(at(*one, other), Copy::Absent);
  ASSERT_TRUE(one->destroy(other.key()));
  EXPECT_EQ(at(*one, vm), Copy::Running);
  ASSERT_TRUE(one->destroy(vm.key()));
  ASSERT_TRUE(one->destroy(vm.key()));
  EXPECT_EQ(at(*one, vm), Copy::Absent);
  ASSERT_EQ(cluster.endings().size(), 1U);
  EXPECT_EQ(cluster.endings()[0].cause, EndCause::Destroyed);
}

TEST_F(Cluster, MemoryIsLimited) {
  ASSERT_TRUE(cluster.add_host(HostId{"small"}, {.memory = mebibytes(300)}));
  auto small = make_sim_driver(cluster, HostId{"small"});
  ASSERT_TRUE(small->start(spec(0)));
  EXPECT_EQ(small->start(spec(1)).error().code, Code::ResourceExhausted);
  ASSERT_TRUE(small->destroy(spec(0).key()));
  EXPECT_TRUE(small->start(spec(1)));
}

TEST_F(Cluster, APausedGuestMakesNoProgress) {
  const auto vm = spec(0);
  ASSERT_TRUE(one->start(vm));
  clock.advance(10s);
  ASSERT_TRUE(one->pause(vm.key()));
  ASSERT_TRUE(one->pause(vm.key()));
  clock.advance(5s);
  EXPECT_EQ(at(*one, vm), Copy::Paused);
  EXPECT_FALSE(cluster.guest_alive(vm.id));
  EXPECT_DOUBLE_EQ(cluster.guest_progress(vm.id)->count(), 10);
  ASSERT_TRUE(one->resume(vm.key()));
  clock.advance(1s);
  EXPECT_DOUBLE_EQ(cluster.guest_progress(vm.id)->count(), 11);
  EXPECT_EQ(one->pause(spec(9).key()).error().code, Code::NotFound);
  EXPECT_EQ(one->resume(spec(9).key()).error().code, Code::NotFound);
}

TEST_F(Cluster, BusyCpusAreSharedAndSpeedCounts) {
  ASSERT_TRUE(cluster.add_host(HostId{"slow"}, {.cpus = 1, .speed = 0.5}));
  auto slow = make_sim_driver(cluster, HostId{"slow"});
  ASSERT_TRUE(slow->start(spec(0)));
  ASSERT_TRUE(slow->start(spec(1)));
  clock.advance(8s);
  auto statistics = slow->statistics(spec(0).key());
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->cpu_time, 2s);
}

TEST_F(Cluster, SaveAndRestoreGoOnWhereItWas) {
  const auto vm = spec(0);
  ASSERT_TRUE(one->start(vm));
  clock.advance(10s);
  ASSERT_TRUE(one->save(vm.key(), "/save/a"));
  EXPECT_EQ(at(*one, vm), Copy::Absent);
  EXPECT_TRUE(cluster.endings().empty());
  clock.advance(60s);
  EXPECT_EQ(two->restore(vm, "/save/none").error().code, Code::NotFound);
  auto other = vm;
  other.uuid = "another";
  EXPECT_EQ(two->restore(other, "/save/a").error().code, Code::FailedPrecondition);
  ASSERT_TRUE(two->restore(vm, "/save/a"));
  ASSERT_TRUE(two->restore(vm, "/save/a"));
  clock.advance(1s);
  EXPECT_DOUBLE_EQ(cluster.guest_progress(vm.id)->count(), 11);
  EXPECT_EQ(two->save(vm.key(), "/save/a").error().code, Code::AlreadyExists);
  EXPECT_EQ(at(*two, vm), Copy::Running);
  // The file stays, and holds the old state.
  ASSERT_TRUE(two->destroy(vm.key()));
  ASSERT_TRUE(one->restore(vm, "/save/a"));
  EXPECT_DOUBLE_EQ(cluster.guest_progress(vm.id)->count(), 10);
}

TEST_F(Cluster, AFailedSaveLeavesTheVmRunningAndNoFile) {
  const auto vm = spec(0);
  ASSERT_TRUE(one->start(vm));
  cluster.set_faults({.save_fails = 1});
  EXPECT_FALSE(one->save(vm.key(), "/save/a"));
  EXPECT_EQ(at(*one, vm), Copy::Running);
  cluster.set_faults({});
  EXPECT_EQ(two->restore(vm, "/save/a").error().code, Code::NotFound);
}

TEST_F(Cluster, ADeadHostLosesItsCopiesAndComesBackEmpty) {
  const auto vm = spec(0);
  ASSERT_TRUE(one->start(vm));
  ASSERT_TRUE(cluster.kill_host(h1));
  EXPECT_EQ(one->observe(vm.key()).error().code, Code::Unavailable);
  ASSERT_EQ(cluster.endings().size(), 1U);
  EXPECT_EQ(cluster.endings()[0].cause, EndCause::HostDied);
  ASSERT_TRUE(cluster.boot_host(h1));
  EXPECT_EQ(at(*one, vm), Copy::Absent);
}

TEST_F(Cluster, ASilentHostAnswersNobodyAndItsVmsRunOn) {
  const auto vm = spec(0);
  ASSERT_TRUE(one->start(vm));
  clock.advance(10s);
  ASSERT_TRUE(cluster.silence_host(h1, 30s));
  EXPECT_EQ(one->list().error().code, Code::Unavailable);
  EXPECT_TRUE(cluster.guest_alive(vm.id));
  clock.advance(30s);
  EXPECT_EQ(at(*one, vm), Copy::Running);
  EXPECT_DOUBLE_EQ(cluster.guest_progress(vm.id)->count(), 40);
}

TEST_F(Cluster, ACutHostTakesItsGuestsOffTheNetwork) {
  const auto vm = spec(0);
  ASSERT_TRUE(one->start(vm));
  clock.advance(10s);
  ASSERT_TRUE(cluster.cut_host(h1, 5s));
  EXPECT_FALSE(one->list());
  EXPECT_FALSE(guests.hello(address(vm)));
  clock.advance(5s);
  EXPECT_TRUE(guests.hello(address(vm)));
}

TEST_F(Cluster, CallsGoWrongAsTold) {
  const auto vm = spec(0);
  cluster.fail_next_calls(h1, 1, Code::Unavailable, false);
  EXPECT_EQ(one->start(vm).error().code, Code::Unavailable);
  EXPECT_EQ(at(*one, vm), Copy::Absent);
  cluster.fail_next_calls(h1, 1, Code::OutcomeUnknown, true);
  EXPECT_EQ(one->start(vm).error().code, Code::OutcomeUnknown);
  EXPECT_EQ(at(*one, vm), Copy::Running);
}

TEST(Faults, TheSameSeedGivesTheSameFaults) {
  const auto play = [](std::uint64_t seed) {
    ManualClock clock;
    SeededRng rng(seed);
    SimCluster cluster(clock, rng);
    EXPECT_TRUE(cluster.add_host(HostId{"h"}));
    cluster.set_faults({.call_refused = 0.3, .call_unanswered = 0.3, .start_fails = 0.3});
    auto driver = make_sim_driver(cluster, HostId{"h"});
    std::string story;
    for (int i = 0; i < 20; ++i) {
      VmSpec vm;
      vm.id = VmId{"x-" + std::to_string(i)};
      vm.memory = mebibytes(64);
      auto done = driver->start(vm);
      story += done ? "ok " : std::string(to_string(done.error().code)) + " ";
    }
    return story;
  };
  EXPECT_EQ(play(1), play(1));
  EXPECT_NE(play(1), play(2));
}

TEST_F(Cluster, AFailedStartLeavesNothing) {
  cluster.set_faults({.start_fails = 1});
  EXPECT_FALSE(one->start(spec(0)));
  EXPECT_TRUE(cluster.copies().empty());
}

TEST_F(Cluster, APanicEndsTheCopyAndAnOopsShows) {
  ASSERT_TRUE(one->start(spec(0)));
  ASSERT_TRUE(one->start(spec(1)));
  ASSERT_TRUE(cluster.oops_guest(spec(0).id));
  auto seen = one->observe(spec(0).key());
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->console_faults, 1);
  EXPECT_NE(seen->console_first_fault.find("Oops"), std::string::npos);
  ASSERT_TRUE(cluster.panic_guest(spec(1).id));
  EXPECT_EQ(at(*one, spec(1)), Copy::Absent);
  EXPECT_FALSE(cluster.panic_guest(spec(1).id));
}

/// The monitor must see a doubled VM at the moment it appears, even if it is gone when we ask.
TEST(Monitor, SeesASecondRunningCopy) {
  ManualClock clock;
  SeededRng rng(1);
  SimCluster cluster(clock, rng);
  ASSERT_TRUE(cluster.add_host(HostId{"a"}));
  ASSERT_TRUE(cluster.add_host(HostId{"b"}));
  VmSpec vm;
  vm.id = VmId{"x-0"};
  vm.uuid = "1";
  vm.memory = mebibytes(64);
  ASSERT_TRUE(make_sim_driver(cluster, HostId{"a"})->start(vm));
  vm.uuid = "2";
  clock.advance(3s);
  auto b = make_sim_driver(cluster, HostId{"b"});
  ASSERT_TRUE(b->start(vm));
  ASSERT_TRUE(b->destroy(vm.key()));
  const auto violations = cluster.violations();
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].at, 3s);
  EXPECT_NE(violations[0].what.find("x-0 runs in 2 copies"), std::string::npos);
}

}  // namespace
}  // namespace mare::sim
