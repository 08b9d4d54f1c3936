#include "tests/sim/checkpoint_world.h"

#include <algorithm>

namespace mare::test {

using namespace std::chrono_literals;

void CheckpointWorld::SetUp() {
  world.on_step([this] {
    invariants.check_moment();
    if (world.store_is_open()) invariants.check_rows();
  });
  world.start_mared();
  for (const char* name : {"h1", "h2", "h3"}) ASSERT_TRUE(world.add_host(name, host_model));
  engine::PoolCreateRequest request;
  request.id = PoolId{"demo"};
  request.size = 3;
  ASSERT_EQ(end_of(world.engine().submit(request)).outcome, Outcome::Succeeded);
  first = submit();
}

void CheckpointWorld::TearDown() {
  world.cluster.set_faults({});
  for (const auto& host : world.cluster.hosts()) {
    EXPECT_TRUE(world.cluster.boot_host(host));
  }
  EXPECT_TRUE(world.play_while_not([&] { return world.all_ended(); }, 30min));
  world.play(30s);
  invariants.check_quiet();
  for (const auto& broken : invariants.broken()) ADD_FAILURE() << broken;
  if (HasFailure()) std::printf("%s", world.log_tail(80).c_str());
}

JobId CheckpointWorld::submit(const CheckpointPlan& plan,
                              const std::vector<std::string>& arguments) {
  engine::JobSubmitRequest request;
  request.pool = PoolId{"demo"};
  request.command = {"solver", "--sim-work=" + std::to_string(kWork_s)};
  request.command.insert(request.command.end(), arguments.begin(), arguments.end());
  request.ranks = 3;
  request.checkpoints = plan;
  auto accepted = world.engine().submit(request);
  EXPECT_TRUE(accepted) << (accepted ? "" : accepted.error().text());
  if (!accepted) return {};
  const JobId id{accepted->target};
  EXPECT_TRUE(world.play_while_not([&] { return job(id).state == JobState::Running; }, 5min));
  return id;
}

Operation CheckpointWorld::end_of(Result<Operation> accepted) {
  EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
  return accepted ? world.wait(accepted->id, 30min) : Operation{};
}

Operation CheckpointWorld::take(const JobId& id) {
  return end_of(world.engine().submit(engine::CheckpointRequest{id}));
}

Operation CheckpointWorld::restart(const JobId& id, const std::string& checkpoint,
                                   std::vector<HostId> hosts) {
  engine::RestartRequest request;
  request.job = id;
  if (!checkpoint.empty()) request.checkpoint = CheckpointId{checkpoint};
  request.hosts = std::move(hosts);
  return end_of(world.engine().submit(request));
}

Job CheckpointWorld::job(const JobId& id) {
  for (const auto& one : world.jobs()) {
    if (one.id == id) return one;
  }
  ADD_FAILURE() << "there is no " << id.value;
  return {};
}

Vm CheckpointWorld::vm(const std::string& id) {
  for (const auto& one : world.vms()) {
    if (one.id.value == id) return one;
  }
  ADD_FAILURE() << "there is no VM " << id;
  return {};
}

std::vector<Checkpoint> CheckpointWorld::complete(const JobId& id) {
  std::vector<Checkpoint> out;
  for (auto& one : world.checkpoints()) {
    if (one.job == id && one.state == CheckpointState::Complete) out.push_back(std::move(one));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void CheckpointWorld::expect_right_result(const JobId& id) {
  EXPECT_TRUE(world.play_while_not([&] { return is_final(job(id).state); }, 30min));
  const Job ended = job(id);
  EXPECT_EQ(ended.state, JobState::Succeeded) << ended.reason;
  EXPECT_EQ(world.output_of(id), sim::complete_output(id, kWork_s));
}

bool CheckpointWorld::reaches(const OperationId& id, const std::string& state) {
  const MonotonicTime end = world.clock.now() + 10min;
  while (world.operation(id).state != state) {
    if (world.operation(id).finished() || world.clock.now() >= end) return false;
    world.play(1ms);
  }
  return true;
}

}  // namespace mare::test
