// VMs that start as clones, and boot where they can't.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/invariants.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Clones : public testing::Test {
 protected:
  void begin(const sim::HostModel& model = {}) {
    world.start_mared();
    ASSERT_TRUE(world.add_host("h1", model));
    world.on_step([this] { invariants.check_moment(); });
  }
  void TearDown() override {
    world.on_step({});
    for (const auto& violation : world.cluster.check_invariants()) ADD_FAILURE() << violation.what;
    for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
    if (HasFailure()) std::puts(world.log_tail(60).c_str());
  }
  Operation end_of(Result<Operation> accepted) {
    EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
    return accepted ? world.wait(accepted->id, 30min) : Operation{};
  }
  Operation make_pool(int size) {
    engine::PoolCreateRequest request;
    request.id = PoolId{"demo"};
    request.size = size;
    return end_of(world.engine().submit(request));
  }
  /// How long it took.
  MonotonicTime scale(int size) {
    const MonotonicTime began = world.clock.now();
    const Operation ended =
        end_of(world.engine().submit(engine::PoolScaleRequest{PoolId{"demo"}, size, false}));
    EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
    return world.clock.now() - began;
  }
  static VmId vm(int index) { return VmId{"demo-" + std::to_string(index)}; }
  std::string log() const { return world.log_tail(200); }

  SimWorld world{5};
  Invariants invariants{world};
};

TEST_F(Clones, TheFirstVmBootsAndTheNextOnesAreClones) {
  begin();
  ASSERT_EQ(make_pool(1).outcome, Outcome::Succeeded);
  EXPECT_FALSE(world.cluster.is_clone(vm(0)));
  world.play(20s);  // the template is made beside it
  EXPECT_THAT(log(), HasSubstr("template on host 'h1': ready"));
  EXPECT_LT(scale(4), 2s) << "a boot takes 4 s";
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(world.cluster.is_clone(vm(i))) << i;
}

TEST_F(Clones, AreNotMadeWhereTheHostCannot) {
  begin({.cloning_refused = "QEMU is too old"});
  ASSERT_EQ(make_pool(1).outcome, Outcome::Succeeded);
  world.play(60s);
  scale(3);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(world.cluster.is_clone(vm(i))) << i;
  EXPECT_THAT(log(), testing::Not(HasSubstr("template on host")));
}

TEST_F(Clones, AHostWhoseTemplateFailsBootsItsVms) {
  begin();
  world.cluster.set_faults({.template_fails = 1});
  ASSERT_EQ(make_pool(1).outcome, Outcome::Succeeded);
  world.play(20s);
  EXPECT_THAT(log(), HasSubstr("template on host 'h1': failed"));
  scale(3);
  EXPECT_FALSE(world.cluster.is_clone(vm(2)));
}

TEST_F(Clones, OneThatDoesNotAnswerIsBootedInstead) {
  begin();
  ASSERT_EQ(make_pool(1).outcome, Outcome::Succeeded);
  world.play(20s);
  sim::VmModel model;
  model.clone_boot = Seconds{1e6};
  world.cluster.set_vm_model(model);
  EXPECT_GT(scale(2), 20s);
  EXPECT_FALSE(world.cluster.is_clone(vm(1)));
  EXPECT_TRUE(world.cluster.guest_alive(vm(1)));
  EXPECT_THAT(log(), HasSubstr("distrusted"));
  EXPECT_LT(scale(3), 10s) << "the next one is not tried as a clone";
  EXPECT_FALSE(world.cluster.is_clone(vm(2)));
}

TEST_F(Clones, OneWhoseGuestDiesIsBootedInstead) {
  begin();
  ASSERT_EQ(make_pool(1).outcome, Outcome::Succeeded);
  world.play(20s);
  sim::VmModel model;
  model.clone_boot = Seconds{5};
  world.cluster.set_vm_model(model);
  auto accepted = world.engine().submit(engine::PoolScaleRequest{PoolId{"demo"}, 2, false});
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(world.play_while_not([&] { return world.cluster.is_clone(vm(1)); }, 10s));
  ASSERT_TRUE(world.cluster.panic_guest(vm(1)));
  EXPECT_EQ(world.wait(accepted->id, 10min).outcome, Outcome::Succeeded);
  EXPECT_FALSE(world.cluster.is_clone(vm(1)));
}

TEST_F(Clones, ATemplateWaitsForMemoryAndIsMadeThen) {
  begin({.memory = mebibytes(512)});  // two VMs of 192 + 64 MiB
  ASSERT_EQ(make_pool(2).outcome, Outcome::Succeeded);
  world.play(60s);
  EXPECT_THAT(log(), testing::Not(HasSubstr("template on host")));
  scale(1);
  world.play(30s);
  EXPECT_THAT(log(), HasSubstr("template on host 'h1': ready"));
}

TEST_F(Clones, ACloneGoesThroughACrashOfMared) {
  begin();
  ASSERT_EQ(make_pool(1).outcome, Outcome::Succeeded);
  world.play(20s);
  auto accepted = world.engine().submit(engine::PoolScaleRequest{PoolId{"demo"}, 2, false});
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(world.play_while_not([&] { return world.cluster.is_clone(vm(1)); }, 10s));
  world.kill_mared();
  world.play(5s);
  world.start_mared();
  EXPECT_EQ(world.wait(accepted->id, 10min).outcome, Outcome::Succeeded);
  EXPECT_TRUE(world.cluster.is_clone(vm(1)));
}

}  // namespace
}  // namespace mare::test
