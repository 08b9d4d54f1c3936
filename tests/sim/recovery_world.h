// A job that comes back by itself, on four hosts of which one has no VM of its pool.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/checkpoint_world.h"

namespace mare::test {

class RecoveryWorld : public CheckpointWorld {
 protected:
  void SetUp() override {
    CheckpointWorld::SetUp();
    ASSERT_TRUE(world.add_host("h4", host_model));
    ASSERT_TRUE(world.engine().cancel(run_of(first).id));
    EXPECT_TRUE(
        world.play_while_not([&] { return is_final(job(first).state); }, std::chrono::minutes{5}));
    protect_a_job();
  }

  /// A job that takes checkpoints by itself, has one, and whose hosts hold leases if they can.
  void protect_a_job() {
    first = submit({CheckpointRule::Every, Seconds{4}, 2});
    EXPECT_TRUE(world.play_while_not(
        [&] { return !complete(first).empty() && (all_leased() || !host_model.leases); },
        std::chrono::minutes{1}));
  }

  bool all_leased() {
    for (const auto& id : job(first).vms) {
      const auto host = vm(id.value).host;
      if (!host || row_of(*host).lease.count() == 0) return false;
    }
    return true;
  }
  Host row_of(const HostId& id) {
    for (const auto& host : world.hosts()) {
      if (host.id == id) return host;
    }
    return {};
  }
  Operation run_of(const JobId& id) {
    for (const auto& one : world.operations()) {
      if (one.kind == OperationKind::JobRun && one.target == id.value) return one;
    }
    return {};
  }
  std::vector<Operation> recoveries() {
    std::vector<Operation> out;
    for (const auto& one : world.operations()) {
      if (one.kind == OperationKind::RecoveryRun) out.push_back(one);
    }
    return out;
  }
  /// The checkpoint that is being taken; without one, nothing.
  Operation take_of(const JobId& id) {
    for (const auto& one : world.operations()) {
      if (one.kind == OperationKind::CheckpointTake && one.target == id.value && !one.finished())
        return one;
    }
    return {};
  }
  bool a_take_is(const std::string& state) { return reaches(OperationKind::CheckpointTake, state); }
  bool a_recovery_reaches(const std::string& state) {
    return reaches(OperationKind::RecoveryRun, state);
  }
  bool a_restore_reaches(const std::string& state) {
    return reaches(OperationKind::CheckpointRestore, state);
  }
  bool is_back(int restarts = 1) {
    return world.play_while_not(
        [&] { return job(first).restarts >= restarts && job(first).state == JobState::Running; },
        std::chrono::minutes{5});
  }

 private:
  /// Until some unfinished operation of that kind is in that state.
  bool reaches(OperationKind kind, const std::string& state) {
    const MonotonicTime end = world.clock.now() + std::chrono::minutes{5};
    while (world.clock.now() < end) {
      for (const auto& one : world.operations()) {
        if (one.kind == kind && !one.finished() && one.state == state) return true;
      }
      world.play(std::chrono::milliseconds{5});
    }
    return false;
  }
};

}  // namespace mare::test
