// The second way to fence a host: a command that turns it off, beside its lease or without one.
// That no VM runs twice is checked after every step, as in all tests of recovery.
#include <gmock/gmock.h>

#include <vector>

#include "tests/sim/recovery_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

/// Power management of the simulated hosts.
class PowerSwitch final : public engine::FenceCommand {
 public:
  explicit PowerSwitch(sim::SimCluster& cluster) : cluster_(cluster) {}

  Result<std::string> turn_off(const engine::FenceOrder& order) override {
    orders.push_back(order);
    if (!works) return make_error(Code::Unavailable, "the fence command ended: no route to BMC");
    (void)cluster_.kill_host(order.host);  // also one that is off
    return std::string("Chassis Power is off");
  }

  bool works = true;
  std::vector<engine::FenceOrder> orders;

 private:
  sim::SimCluster& cluster_;
};

class FenceCommand : public RecoveryWorld {
 protected:
  void SetUp() override {
    world.fence_command = &power;
    RecoveryWorld::SetUp();
    dead = host_of("demo-1");
  }
  bool fence_is(HostFence wanted, std::chrono::nanoseconds limit = 2min) {
    return world.play_while_not([&] { return row_of(dead).fence == wanted; }, limit);
  }
  void restart_mared(engine::FenceCommand* command) {
    world.kill_mared();
    world.play(7s);
    world.fence_command = command;
    world.start_mared();
  }

  PowerSwitch power{world.cluster};
  HostId dead;
};

/// No host can end its VMs by itself.
class FenceCommandAlone : public FenceCommand {
 protected:
  FenceCommandAlone() { host_model.leases = false; }
};

TEST_F(FenceCommand, EndsTheFenceAtOnce) {
  // Its VMs would run on there: what makes the restart safe is the switch.
  ASSERT_TRUE(world.cluster.silence_host(dead, 10min));
  ASSERT_TRUE(fence_is(HostFence::Begun));
  ASSERT_NE(world.cluster.copy_on(dead, VmId{"demo-1"}), Copy::Absent);
  ASSERT_TRUE(fence_is(HostFence::Over, 2s)) << "it waits for term and margin, 11 s";
  ASSERT_EQ(power.orders.size(), 1U);
  EXPECT_EQ(power.orders[0].host, dead);
  EXPECT_EQ(power.orders[0].address, "sim:///" + dead.value);
  EXPECT_EQ(power.orders[0].number, 1);
  EXPECT_THAT(row_of(dead).health_reason, HasSubstr("Chassis Power is off"));
  ASSERT_TRUE(is_back());
  expect_right_result(first);
  ASSERT_TRUE(world.cluster.boot_host(dead));
  EXPECT_TRUE(fence_is(HostFence::None, 11min));
  EXPECT_EQ(power.orders.size(), 1U);
}

TEST_F(FenceCommand, ThatFailsLeavesItToTheLease) {
  power.works = false;
  ASSERT_TRUE(world.cluster.cut_host(dead, 90s));
  ASSERT_TRUE(fence_is(HostFence::Begun));
  const auto began = world.clock.now();
  ASSERT_TRUE(fence_is(HostFence::Over));
  const auto waited = world.clock.now() - began;
  EXPECT_GE(waited, 10900ms);
  EXPECT_LT(waited, 14s);
  EXPECT_GE(power.orders.size(), 2U) << "it is tried again every 5 s";
  EXPECT_LE(power.orders.size(), 3U);
  EXPECT_THAT(row_of(dead).health_reason, HasSubstr("no route to BMC"));
  ASSERT_TRUE(is_back());
  const auto tries = power.orders.size();
  expect_right_result(first);
  EXPECT_TRUE(fence_is(HostFence::None));
  EXPECT_EQ(power.orders.size(), tries) << "not after the fence is over";
}

TEST_F(FenceCommand, ThatStillWaitsWhenTheLeaseIsOverIsNotRun) {
  world.executor.slow_next("fence/command", 60s);
  ASSERT_TRUE(world.cluster.cut_host(dead, 20s));
  ASSERT_TRUE(fence_is(HostFence::Begun));
  ASSERT_TRUE(is_back());
  EXPECT_FALSE(fence_is(HostFence::None, 25s)) << "it answers, but may be turned off yet";
  EXPECT_TRUE(fence_is(HostFence::None));
  EXPECT_TRUE(power.orders.empty());
  expect_right_result(first);
}

TEST_F(FenceCommandAlone, IsTheOnlyWayOfAHostWithoutALease) {
  power.works = false;
  ASSERT_TRUE(world.cluster.silence_host(dead, 30min));
  ASSERT_TRUE(fence_is(HostFence::Begun));
  world.play(15min);
  EXPECT_EQ(row_of(dead).fence, HostFence::Begun);
  EXPECT_EQ(job(first).restarts, 0);
  EXPECT_NE(world.cluster.copy_on(dead, VmId{"demo-1"}), Copy::Absent);
  ASSERT_EQ(recoveries().size(), 1U) << "to wait for the command is one try";
  EXPECT_EQ(recoveries()[0].state, "Fencing");
  EXPECT_GT(power.orders.size(), 100U);
  power.works = true;
  ASSERT_TRUE(is_back());
  EXPECT_EQ(row_of(dead).fence, HostFence::Over);
  EXPECT_THAT(row_of(dead).health_reason, Not(HasSubstr("no route to BMC")));
  expect_right_result(first);
  ASSERT_TRUE(world.cluster.boot_host(dead));
  EXPECT_TRUE(fence_is(HostFence::None, 31min)) << "though it has no lease to be withdrawn";
}

TEST_F(FenceCommandAlone, ThatFailsLeavesAHostItsVmsWhenItAnswersAgain) {
  power.works = false;
  ASSERT_TRUE(world.cluster.silence_host(dead, 15s));
  ASSERT_TRUE(fence_is(HostFence::Begun));
  EXPECT_TRUE(fence_is(HostFence::None, 30s));
  const auto tries = power.orders.size();
  expect_right_result(first);
  EXPECT_EQ(power.orders.size(), tries);
  EXPECT_EQ(job(first).restarts, 0);
  EXPECT_EQ(job(first).recovery_tries, 0) << "nothing was tried";
  ASSERT_EQ(recoveries().size(), 1U);
  EXPECT_EQ(recoveries()[0].outcome, Outcome::Succeeded);
}

TEST_F(FenceCommandAlone, IsRunAgainByAMaredThatWasKilledMeanwhile) {
  world.executor.slow_next("fence/command", 20s);
  ASSERT_TRUE(world.cluster.silence_host(dead, 30min));
  ASSERT_TRUE(fence_is(HostFence::Begun));
  world.play(1s);
  ASSERT_TRUE(power.orders.empty());
  restart_mared(&power);
  ASSERT_TRUE(is_back());
  ASSERT_FALSE(power.orders.empty());
  for (const auto& order : power.orders) EXPECT_EQ(order.number, 1) << "the same fence";
  EXPECT_EQ(row_of(dead).fences, 1);
  expect_right_result(first);
}

TEST_F(FenceCommandAlone, ThatIsTakenFromMaredTakesItsFencesBack) {
  power.works = false;
  ASSERT_TRUE(world.cluster.cut_host(dead, 10min));
  ASSERT_TRUE(fence_is(HostFence::Begun));
  restart_mared(nullptr);
  EXPECT_TRUE(fence_is(HostFence::None, 5s));
  world.play(2min);
  EXPECT_EQ(row_of(dead).fence, HostFence::None);
  EXPECT_EQ(job(first).restarts, 0) << "it waits for its host, as ever";
  power.works = true;
  restart_mared(&power);
  ASSERT_TRUE(is_back());
  expect_right_result(first);
}

TEST_F(FenceCommandAlone, ThatFailsDoesNotKeepAJobFromBeingCancelled) {
  power.works = false;
  ASSERT_TRUE(world.cluster.silence_host(dead, 10min));
  ASSERT_TRUE(a_recovery_reaches("Fencing"));
  ASSERT_TRUE(world.engine().cancel(run_of(first).id));
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 2min));
  EXPECT_EQ(job(first).state, JobState::Cancelled);
}

}  // namespace
}  // namespace mare::test
