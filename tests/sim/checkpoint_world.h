// A small cluster with a job on it, for tests of checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/sim/invariants.h"
#include "tests/sim/sim_world.h"

namespace mare::test {

class CheckpointWorld : public testing::Test {
 protected:
  static constexpr int kWork_s = 30;

  /// Three hosts, a pool of three VMs, one on each; a job with three ranks that began.
  void SetUp() override;
  /// Every invariant holds, and the VMs and files are what the rows say.
  void TearDown() override;

  /// A job of the pool, running.
  JobId submit(const CheckpointPlan& plan = {}, const std::vector<std::string>& arguments = {});
  Operation take(const JobId& job);
  Operation end_of(Result<Operation> accepted);
  Operation restart(const JobId& job, const std::string& checkpoint = {},
                    std::vector<HostId> hosts = {});
  Job job(const JobId& id);
  Vm vm(const std::string& id);
  HostId host_of(const std::string& vm_id) { return *vm(vm_id).host; }
  /// Complete ones, newest first.
  std::vector<Checkpoint> complete(const JobId& id);
  /// Plays until the job has ended; it must have succeeded, with exactly its output.
  void expect_right_result(const JobId& id);
  /// Until that operation is in that state.
  bool reaches(const OperationId& id, const std::string& state);

  sim::HostModel host_model;  // of hosts that are added
  SimWorld world{31};
  Invariants invariants{world};
  JobId first;
};

}  // namespace mare::test
