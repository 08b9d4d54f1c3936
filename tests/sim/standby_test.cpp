// The newest checkpoint in the memory of partner hosts: who keeps what, what a restart makes of it,
// and that nothing depends on it. The invariants are checked after every step.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/sim/recovery_world.h"

namespace mare::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class Standbys : public RecoveryWorld {
 protected:
  /// A job whose checkpoint is in memory in full.
  JobId begin(double every_s = 600) {
    CheckpointPlan plan{CheckpointRule::Every, Seconds{every_s}, 2};
    plan.partner = true;
    EXPECT_TRUE(world.engine().cancel(run_of(first).id));
    EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 5min));
    first = submit(plan);
    EXPECT_EQ(take(first).outcome, Outcome::Succeeded);
    EXPECT_TRUE(world.play_while_not([&] { return in_memory() == 3 && all_leased(); }, 1min));
    return first;
  }
  /// Parts of the newest checkpoint that a row says are in memory.
  int in_memory() {
    const auto all = complete(first);
    if (all.empty()) return 0;
    const auto& parts = all.front().parts;
    return static_cast<int>(std::count_if(
        parts.begin(), parts.end(), [](const auto& part) { return !part.partner.value.empty(); }));
  }
  std::set<std::string> kept_anywhere() {
    std::set<std::string> out;
    for (const auto& host : world.cluster.hosts()) {
      for (const auto& path : world.cluster.standbys(host)) out.insert(path);
    }
    return out;
  }
  std::string restore_words() {
    std::string words;
    for (const auto& one : world.operations()) {
      if (one.kind == OperationKind::CheckpointRestore) words = one.reason;
    }
    return words;
  }
};

TEST_F(Standbys, ArePartsOfTheNewestOnHostsThatLackTheVm) {
  begin();
  for (int i = 0; i < 3; ++i) {
    const Checkpoint newest = complete(first).front();
    std::set<std::string> paths;
    for (const auto& part : newest.parts) {
      EXPECT_NE(part.partner, host_of(part.vm.value));
      paths.insert(part.path);
    }
    EXPECT_EQ(kept_anywhere(), paths);
    EXPECT_EQ(take(first).outcome, Outcome::Succeeded);
    EXPECT_TRUE(world.play_while_not(
        [&] { return complete(first).front().id != newest.id && in_memory() == 3; }, 1min));
  }
  const auto all = complete(first);
  ASSERT_GE(all.size(), 2U);
  for (const auto& part : all[1].parts) EXPECT_EQ(part.partner.value, "") << "an older one";
}

/// Also the VM whose partner died with the host: while that is fenced, another one reads its part.
TEST_F(Standbys, AJobComesBackFromThem) {
  begin();
  HostId dead;
  const auto newest = complete(first).front();  // the loop does not keep it
  for (const auto& part : newest.parts) {
    for (const auto& id : job(first).vms) {
      if (host_of(id.value) == part.partner) dead = part.partner;
    }
  }
  ASSERT_FALSE(dead.value.empty()) << "a host that has a VM and another one's part";
  ASSERT_TRUE(world.cluster.kill_host(dead));
  ASSERT_TRUE(is_back());
  const Checkpoint used = complete(first).front();
  EXPECT_THAT(restore_words(), HasSubstr(used.id.value + ", 3 of 3 from their hosts' memory"));
  for (const auto& id : job(first).vms) EXPECT_NE(host_of(id.value), dead);
  expect_right_result(first);
}

TEST_F(Standbys, AnEagerRestartReadsTheFiles) {
  begin();
  engine::RestartRequest request;
  request.job = first;
  request.eager = true;
  ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  EXPECT_THAT(restore_words(), Not(HasSubstr("memory")));
  ASSERT_EQ(restart(first).outcome, Outcome::Succeeded);
  expect_right_result(first);
}

TEST_F(Standbys, NothingDependsOnThem) {
  begin();
  // Nobody has told mared that a host forgot: its agent keeps nothing any more.
  for (const auto& host : world.cluster.hosts()) {
    ASSERT_TRUE(sim::make_sim_driver(world.cluster, host)->keep_standby({}));
  }
  ASSERT_EQ(in_memory(), 3);
  ASSERT_EQ(restart(first).outcome, Outcome::Succeeded);
  EXPECT_THAT(restore_words(), Not(HasSubstr("memory")));
  expect_right_result(first);
}

TEST_F(Standbys, AnotherHostTakesTheirPlaceWhenOneDies) {
  begin();
  const auto parts = complete(first).front().parts;
  std::set<HostId> with_vms;
  for (const auto& part : parts) with_vms.insert(host_of(part.vm.value));
  HostId spare;
  for (const auto& host : world.cluster.hosts()) {
    if (!with_vms.contains(host)) spare = host;
  }
  ASSERT_TRUE(std::any_of(parts.begin(), parts.end(),
                          [&](const CheckpointPart& part) { return part.partner == spare; }));
  ASSERT_TRUE(world.cluster.kill_host(spare));
  EXPECT_TRUE(world.play_while_not(
      [&] {
        const auto now = complete(first).front().parts;
        return std::all_of(now.begin(), now.end(), [&](const CheckpointPart& part) {
          return !part.partner.value.empty() && part.partner != spare;
        });
      },
      2min));
  EXPECT_EQ(kept_anywhere().size(), 3U);
  expect_right_result(first);
}

TEST_F(Standbys, GoWithTheirJob) {
  begin();
  ASSERT_EQ(kept_anywhere().size(), 3U);
  expect_right_result(first);
  EXPECT_TRUE(world.play_while_not([&] { return kept_anywhere().empty(); }, 1min));
  for (const auto& one : world.checkpoints()) {
    for (const auto& part : one.parts) EXPECT_EQ(part.partner.value, "");
  }
}

TEST_F(Standbys, AMaredThatIsStartedAnewKeepsThemAndForgetsThoseOfNobody) {
  begin();
  const auto before = kept_anywhere();
  world.kill_mared();
  world.play(2s);
  world.start_mared();
  EXPECT_TRUE(world.play_while_not([&] { return all_leased(); }, 1min));
  world.play(5s);
  EXPECT_EQ(kept_anywhere(), before);
  EXPECT_EQ(in_memory(), 3);
  ASSERT_EQ(restart(first).outcome, Outcome::Succeeded);
  EXPECT_THAT(restore_words(), HasSubstr("3 of 3 from their hosts' memory"));
  expect_right_result(first);
}

class StandbysUnknown : public Standbys {
 protected:
  void SetUp() override {
    host_model.standby = false;
    Standbys::SetUp();
  }
};

TEST_F(StandbysUnknown, HostsThatCanNotKeepThemAreAskedOnceAndTheJobIsAsEver) {
  CheckpointPlan plan{CheckpointRule::Every, Seconds{4}, 2};
  plan.partner = true;
  ASSERT_TRUE(world.engine().cancel(run_of(first).id));
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(first).state); }, 5min));
  first = submit(plan);
  EXPECT_TRUE(world.play_while_not([&] { return !complete(first).empty() && all_leased(); }, 1min));
  world.play(5s);
  EXPECT_EQ(in_memory(), 0);
  ASSERT_TRUE(world.cluster.kill_host(host_of("demo-1")));
  ASSERT_TRUE(is_back());
  expect_right_result(first);
}

}  // namespace
}  // namespace mare::test
