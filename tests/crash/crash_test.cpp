// mared dies after the 1st, 2nd, ... last commit of every kind of operation, on a cluster where all
// else is well. It starts again on the same database and must bring the operation to its end, with
// no VM lost or doubled.
//
// Two deaths after each commit: before anything was done because of it, and after 300 ms in which
// calls went on being made and answered but nothing more was written (which is also what a full
// disk looks like).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "tests/sim/invariants.h"
#include "tests/sim/sim_world.h"

namespace mare::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

enum class Death { BeforeActing, AfterActing };

/// One kind of operation: what must be there before, what is asked, what must be true after.
struct Scene {
  std::string name;
  std::function<void(SimWorld&)> prepare;
  std::function<Result<Operation>(SimWorld&)> ask;
  /// Comes after `ask`, while it runs, if there is one; to cancel something, say.
  std::function<void(SimWorld&, const Operation&)> disturb;
  /// Of a healthy cluster most kinds are brought to success; a migration may also go back.
  bool must_succeed = true;
  std::function<void(SimWorld&, const Operation&)> check;
};

void PrintTo(const Scene& scene, std::ostream* out) {
  *out << scene.name;
}

VmId first_vm() {
  return VmId{"demo-0"};
}

Operation must_end(SimWorld& world, Result<Operation> accepted) {
  EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
  return accepted ? world.wait(accepted->id, minutes{10}) : Operation{};
}

void make_pool(SimWorld& world, int size) {
  engine::PoolCreateRequest request;
  request.id = PoolId{"demo"};
  request.size = size;
  EXPECT_EQ(must_end(world, world.engine().submit(request)).outcome, Outcome::Succeeded);
}

Result<Operation> submit_job(SimWorld& world, int work_s) {
  engine::JobSubmitRequest request;
  request.pool = PoolId{"demo"};
  request.command = {"solver", "--sim-work=" + std::to_string(work_s)};
  request.ranks = 2;
  return world.engine().submit(request);
}

/// A pool of two with a job that lasts longer than what is tested.
void make_busy_pool(SimWorld& world) {
  make_pool(world, 2);
  EXPECT_TRUE(submit_job(world, 20));
  world.play(seconds{1});
}

Vm vm_row(SimWorld& world, const VmId& id) {
  for (const auto& vm : world.vms()) {
    if (vm.id == id) return vm;
  }
  ADD_FAILURE() << "VM " << id.value << " has no row";
  return {};
}

Result<Operation> migrate(SimWorld& world) {
  engine::MigrateRequest request;
  request.vm = first_vm();
  return world.engine().submit(request);
}

Result<Operation> migrate_by(SimWorld& world, Strategy strategy) {
  engine::MigrateRequest request;
  request.vm = first_vm();
  request.policy.strategy = strategy;
  return world.engine().submit(request);
}

bool is_over(const std::string& state) {
  const auto parsed = migration_state_from(state);
  return parsed && is_final(*parsed);
}

void break_it(SimWorld& world, const Operation&) {
  world.play(milliseconds{600});
  // Before its switch it fails, in post-copy it can be mended; later there is nothing to break.
  static_cast<void>(world.cluster.break_migration(first_vm()));
}

void cancel(SimWorld& world, const Operation& operation) {
  world.play(milliseconds{400});
  // Refused once it is too late; then the operation ends as if nobody had asked.
  static_cast<void>(world.engine().cancel(operation.id));
}

/// A busy pool whose job has a checkpoint from a while ago.
void make_saved_pool(SimWorld& world) {
  make_busy_pool(world);
  must_end(world, world.engine().submit(engine::CheckpointRequest{JobId{"job-1"}}));
  world.play(seconds{2});
}

/// The same with a job that announces safe points, far apart: a checkpoint waits for one.
void make_announcing_pool(SimWorld& world) {
  make_pool(world, 2);
  engine::JobSubmitRequest request;
  request.pool = PoolId{"demo"};
  request.command = {"solver", "--sim-work=20", "--sim-collective-every=7"};
  request.ranks = 2;
  request.checkpoints.safe_points = true;
  EXPECT_TRUE(world.engine().submit(request));
  world.play(seconds{1});
}

Result<Operation> restart(SimWorld& world) {
  engine::RestartRequest request;
  request.job = JobId{"job-1"};
  return world.engine().submit(request);
}

constexpr int kProtectedWork_s = 9;

/// A pool of two whose job comes back by itself: it has a checkpoint, its hosts hold leases.
void make_protected_pool(SimWorld& world) {
  make_pool(world, 2);
  engine::JobSubmitRequest request;
  request.pool = PoolId{"demo"};
  request.command = {"solver", "--sim-work=" + std::to_string(kProtectedWork_s)};
  request.ranks = 2;
  request.checkpoints = {CheckpointRule::Every, Seconds{3}, 2};
  EXPECT_TRUE(world.engine().submit(request));
  EXPECT_TRUE(world.play_while_not(
      [&] {
        const auto hosts = world.hosts();
        const auto leased = std::count_if(hosts.begin(), hosts.end(),
                                          [](const Host& host) { return host.lease.count() > 0; });
        const auto all = world.checkpoints();
        const bool saved = std::any_of(all.begin(), all.end(), [](const Checkpoint& one) {
          return one.state == CheckpointState::Complete;
        });
        return saved && leased == 2;
      },
      minutes{1}));
}

/// The host of a rank dies; what is followed is the job's own operation.
Result<Operation> lose_a_host(SimWorld& world) {
  EXPECT_TRUE(world.cluster.kill_host(*vm_row(world, VmId{"demo-1"}).host));
  for (const auto& operation : world.operations(true)) {
    if (operation.kind == OperationKind::JobRun) return operation;
  }
  return make_error(Code::NotFound, "no job runs");
}

/// Undisturbed by whatever came of its checkpoint: it ended with the right output.
void job_went_on(SimWorld& world, const Operation&) {
  const auto jobs = world.jobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].state, JobState::Succeeded) << jobs[0].reason;
  EXPECT_EQ(world.output_of(jobs[0].id), sim::complete_output(jobs[0].id, 20));
}

void vms_run(SimWorld& world, const Operation&) {
  for (const auto& vm : world.vms()) EXPECT_EQ(vm.state, VmState::Running) << vm.reason;
}

Result<Operation> scale(SimWorld& world, int size, bool best_effort = false) {
  return world.engine().submit(engine::PoolScaleRequest{PoolId{"demo"}, size, best_effort});
}

void make_large_busy_pool(SimWorld& world) {
  make_busy_pool(world);
  must_end(world, scale(world, 4));
}

/// The size that is told is what there is.
void has_its_size(SimWorld& w, const Operation& o) {
  const int size = w.pools().at(0).size;
  EXPECT_EQ(w.vms().size(), static_cast<std::size_t>(size));
  EXPECT_EQ(w.cluster.copies().size(), static_cast<std::size_t>(size));
  vms_run(w, o);
  EXPECT_NE(o.reason.find("the pool has " + std::to_string(size) + " VM"), std::string::npos)
      << o.reason;
}

void add_scales(std::vector<Scene>& all) {
  const auto reached = [](int size) {
    return [size](SimWorld& w, const Operation& o) {
      has_its_size(w, o);
      EXPECT_EQ(w.pools().at(0).size, size);
    };
  };
  const auto break_a_guest = [](SimWorld& w, const Operation&) {
    w.play(seconds{2});
    static_cast<void>(w.cluster.panic_guest(VmId{"demo-3"}));
  };
  all.push_back(
      {"PoolGrow", make_busy_pool, [](SimWorld& w) { return scale(w, 4); }, {}, true, reached(4)});
  all.push_back({"PoolGrowCancelled", make_busy_pool, [](SimWorld& w) { return scale(w, 4); },
                 cancel, false, has_its_size});
  all.push_back({"PoolGrowThatFails", make_busy_pool, [](SimWorld& w) { return scale(w, 4); },
                 break_a_guest, false, has_its_size});
  all.push_back({"PoolGrowByBestEffort", make_busy_pool,
                 [](SimWorld& w) { return scale(w, 4, true); }, break_a_guest, false,
                 has_its_size});
  all.push_back({"PoolShrink",
                 make_large_busy_pool,
                 [](SimWorld& w) { return scale(w, 2); },
                 {},
                 true,
                 reached(2)});
  all.push_back({"PoolShrinkCancelled", make_large_busy_pool,
                 [](SimWorld& w) { return scale(w, 3); }, cancel, false, has_its_size});
  all.push_back({"PoolAsItIs",
                 make_busy_pool,
                 [](SimWorld& w) { return scale(w, 2); },
                 {},
                 true,
                 reached(2)});
}

/// A job of two ranks that are on two hosts; it is long enough.
void make_spread_job(SimWorld& world) {
  make_pool(world, 2);
  EXPECT_TRUE(submit_job(world, 50));
  world.play(seconds{2});
}

engine::LayoutWish pack_on_one() {
  engine::LayoutWish wish;
  wish.layout = policy::Layout::Pack;
  wish.hosts = 1;
  wish.force = true;
  return wish;
}

void add_layouts(std::vector<Scene>& all) {
  const auto pack = [](SimWorld& w) {
    return w.engine().submit(engine::LayoutChangeRequest{w.jobs().at(0).id, pack_on_one()});
  };
  all.push_back({"JobPack", make_spread_job, pack, {}, true, [](SimWorld& w, const Operation& o) {
                   vms_run(w, o);
                   EXPECT_EQ(w.vms().at(0).host, w.vms().at(1).host);
                 }});
  all.push_back({"JobPackCancelled", make_spread_job, pack, cancel, false, vms_run});
  all.push_back(
      {"PlanLayout",
       make_spread_job,
       [](SimWorld& w) {
         return w.engine().submit(engine::LayoutForecastRequest{w.jobs().at(0).id, pack_on_one()});
       },
       {},
       true,
       [](SimWorld& w, const Operation& o) {
         vms_run(w, o);
         EXPECT_NE(o.request.find("\"moves\":[{"), std::string::npos) << o.request;
         EXPECT_NE(w.vms().at(0).host, w.vms().at(1).host);
       }});
}

/// Two VMs on one host, and two hosts without any.
void make_crowded_pool(SimWorld& world) {
  make_busy_pool(world);
  EXPECT_TRUE(world.play_while_not([&] { return world.all_ended(); }, minutes{5}));
  const HostId host = *vm_row(world, first_vm()).host;
  if (vm_row(world, VmId{"demo-1"}).host != host) {
    engine::MigrateRequest request;
    request.vm = VmId{"demo-1"};
    request.destination = host;
    EXPECT_EQ(must_end(world, world.engine().submit(request)).outcome, Outcome::Succeeded);
  }
  RebalanceSetting setting;
  setting.rest = Seconds{0};
  EXPECT_TRUE(world.engine().set_rebalancing(setting));
}

void add_rebalances(std::vector<Scene>& all) {
  const auto run = [](SimWorld& w) { return w.engine().submit(engine::RebalanceRequest{}); };
  const auto counted_once = [](SimWorld& w, const Operation& o) {
    vms_run(w, o);
    EXPECT_TRUE(w.store().read([&](const store::Reader& reader) -> Status {
      const auto row = reader.rebalancing();
      EXPECT_TRUE(row);
      EXPECT_EQ(row->rounds, 1U);
      EXPECT_EQ(row->operation, o.id);
      return ok_status();
    }));
  };
  all.push_back({"ClusterRebalance",
                 make_crowded_pool,
                 run,
                 {},
                 true,
                 [counted_once](SimWorld& w, const Operation& o) {
                   counted_once(w, o);
                   EXPECT_NE(w.vms().at(0).host, w.vms().at(1).host);
                 }});
  all.push_back({"ClusterRebalanceCancelled", make_crowded_pool, run, cancel, false, counted_once});
  all.push_back({"PlanRebalance",
                 make_crowded_pool,
                 [](SimWorld& w) { return w.engine().submit(engine::RebalanceForecastRequest{}); },
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   vms_run(w, o);
                   EXPECT_NE(o.request.find("\"moves\":[{"), std::string::npos) << o.request;
                   EXPECT_EQ(w.vms().at(0).host, w.vms().at(1).host);
                 }});
}

void add_evacuations(std::vector<Scene>& all) {
  const auto ask = [](int within_s) {
    return [within_s](SimWorld& w) {
      const HostId host = *vm_row(w, first_vm()).host;
      return w.engine().submit(
          engine::EvacuateRequest{host, Seconds{static_cast<double>(within_s)}, "it smokes"});
    };
  };
  const auto cordoned = [](SimWorld& w, const Operation& o) {
    vms_run(w, o);
    for (const auto& host : w.hosts()) {
      if (host.id.value != o.target) continue;
      EXPECT_EQ(host.admin, HostAdmin::Drained);
    }
  };
  all.push_back({"HostEvacuate",
                 make_busy_pool,
                 ask(60),
                 {},
                 true,
                 [cordoned](SimWorld& w, const Operation& o) {
                   cordoned(w, o);
                   for (const auto& vm : w.vms()) EXPECT_NE(vm.host, HostId{o.target});
                 }});
  all.push_back({"HostEvacuateCancelled", make_busy_pool, ask(60), cancel, false, vms_run});
  // Nothing fits through such a link: the job is saved.
  all.push_back({"HostEvacuateThatSaves",
                 [](SimWorld& w) {
                   make_busy_pool(w);
                   for (const auto& host : w.cluster.hosts()) {
                     EXPECT_TRUE(w.cluster.set_uplink(host, BytesPerSecond{1e6}));
                   }
                 },
                 ask(6),
                 {},
                 false,
                 [cordoned](SimWorld& w, const Operation& o) {
                   cordoned(w, o);
                   job_went_on(w, o);
                 }});
  all.push_back({"PlanEvacuate",
                 make_busy_pool,
                 [](SimWorld& w) {
                   const HostId host = *vm_row(w, first_vm()).host;
                   return w.engine().submit(engine::EvacuationForecastRequest{host, Seconds{60}});
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   vms_run(w, o);
                   EXPECT_NE(o.request.find("\"moves\":[{"), std::string::npos) << o.request;
                 }});
}

std::vector<Scene> scenes() {
  std::vector<Scene> all;
  add_evacuations(all);
  all.push_back({"HostAdd",
                 [](SimWorld& w) { EXPECT_TRUE(w.cluster.add_host(HostId{"h9"})); },
                 [](SimWorld& w) {
                   return w.engine().submit(engine::HostAddRequest{HostId{"h9"}, "sim:///h9"});
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation&) { EXPECT_EQ(w.hosts().size(), 4U); }});
  all.push_back(
      {"HostRemove",
       [](SimWorld&) {},
       [](SimWorld& w) { return w.engine().submit(engine::HostRemoveRequest{HostId{"h3"}}); },
       {},
       true,
       [](SimWorld& w, const Operation&) { EXPECT_EQ(w.hosts().size(), 2U); }});
  all.push_back({"HostDrain",
                 make_busy_pool,
                 [](SimWorld& w) {
                   const HostId host = *vm_row(w, first_vm()).host;
                   return w.engine().submit(engine::HostDrainRequest{host});
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   vms_run(w, o);
                   for (const auto& vm : w.vms()) EXPECT_NE(vm.host, HostId{o.target});
                 }});
  all.push_back({"PoolCreate",
                 [](SimWorld&) {},
                 [](SimWorld& w) {
                   engine::PoolCreateRequest request;
                   request.id = PoolId{"demo"};
                   request.size = 3;
                   return w.engine().submit(request);
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   EXPECT_EQ(w.vms().size(), 3U);
                   vms_run(w, o);
                 }});
  all.push_back({"PoolCreateCancelled", [](SimWorld&) {},
                 [](SimWorld& w) {
                   engine::PoolCreateRequest request;
                   request.id = PoolId{"demo"};
                   request.size = 2;
                   return w.engine().submit(request);
                 },
                 cancel, false,
                 [](SimWorld& w, const Operation& o) {
                   EXPECT_EQ(w.vms().size(), o.outcome == Outcome::Succeeded ? 2U : 0U);
                 }});
  add_scales(all);
  all.push_back({"PoolDelete",
                 make_busy_pool,
                 [](SimWorld& w) {
                   return w.engine().submit(engine::PoolDeleteRequest{PoolId{"demo"}, true});
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation&) {
                   EXPECT_TRUE(w.pools().empty());
                   EXPECT_TRUE(w.cluster.copies().empty());
                 }});
  all.push_back({"VmStart",
                 [](SimWorld& w) {
                   make_pool(w, 1);
                   must_end(w, w.engine().submit(engine::VmStopRequest{first_vm(), true}));
                 },
                 [](SimWorld& w) {
                   return w.engine().submit(engine::VmStartRequest{first_vm(), {}});
                 },
                 {},
                 true,
                 vms_run});
  all.push_back({"VmStartCancelled",
                 [](SimWorld& w) {
                   make_pool(w, 1);
                   must_end(w, w.engine().submit(engine::VmStopRequest{first_vm(), true}));
                 },
                 [](SimWorld& w) {
                   return w.engine().submit(engine::VmStartRequest{first_vm(), {}});
                 },
                 cancel,
                 false,
                 {}});
  all.push_back({"VmStop",
                 [](SimWorld& w) { make_pool(w, 1); },
                 [](SimWorld& w) {
                   return w.engine().submit(engine::VmStopRequest{first_vm(), false});
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation&) { EXPECT_TRUE(w.cluster.copies().empty()); }});
  all.push_back({"VmMigrate", make_busy_pool, migrate, {}, false, vms_run});
  all.push_back({"VmMigrateCancelled", make_busy_pool, migrate, cancel, false, vms_run});
  all.push_back({"VmMigrateThatBreaks",
                 [](SimWorld& w) {
                   make_busy_pool(w);
                   w.cluster.break_next_switch(first_vm(), sim::BrokenSwitch::BothWait);
                 },
                 migrate,
                 {},
                 false,
                 vms_run});
  // The destination can't make it, and after a while the source can.
  all.push_back({"VmMigrateByCheckpointRestartThatReturns", make_busy_pool,
                 [](SimWorld& w) { return migrate_by(w, Strategy::CheckpointRestart); },
                 [](SimWorld& w, const Operation& o) {
                   sim::FaultModel faults;
                   faults.start_fails = 1;
                   w.cluster.set_faults(faults);
                   const auto past = [&] {
                     const std::string state = w.operation(o.id).state;
                     return state == "Returning" || is_over(state);
                   };
                   static_cast<void>(w.play_while_not(past, seconds{30}));
                   w.cluster.set_faults({});
                 },
                 false, vms_run});
  for (const auto strategy :
       {Strategy::PostCopy, Strategy::Hybrid, Strategy::StopAndCopy, Strategy::CheckpointRestart}) {
    const auto ask = [strategy](SimWorld& w) { return migrate_by(w, strategy); };
    const std::string name = strategy == Strategy::PostCopy            ? "ByPostCopy"
                             : strategy == Strategy::Hybrid            ? "ByHybrid"
                             : strategy == Strategy::CheckpointRestart ? "ByCheckpointRestart"
                                                                       : "ByStopAndCopy";
    all.push_back({"VmMigrate" + name, make_busy_pool, ask, {}, false, vms_run});
    all.push_back({"VmMigrate" + name + "Cancelled", make_busy_pool, ask, cancel, false, vms_run});
    all.push_back({"VmMigrate" + name + "Broken", make_busy_pool, ask, break_it, false, vms_run});
  }
  all.push_back({"ForecastMake",
                 make_busy_pool,
                 [](SimWorld& w) {
                   return w.engine().submit(engine::ForecastRequest{first_vm(), {}, {}});
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   vms_run(w, o);
                   EXPECT_TRUE(w.store().read([&](const store::Reader& reader) -> Status {
                     EXPECT_TRUE(reader.forecast(o.id));
                     return ok_status();
                   }));
                 }});
  all.push_back({"PlanDrain",
                 make_busy_pool,
                 [](SimWorld& w) {
                   const HostId host = *vm_row(w, first_vm()).host;
                   return w.engine().submit(engine::DrainForecastRequest{host});
                 },
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   vms_run(w, o);
                   EXPECT_NE(o.reason.find("1 VM"), std::string::npos) << o.reason;
                 }});
  add_layouts(all);
  add_rebalances(all);
  all.push_back(
      {"CheckpointTake",
       make_busy_pool,
       [](SimWorld& w) { return w.engine().submit(engine::CheckpointRequest{JobId{"job-1"}}); },
       {},
       false,
       job_went_on});
  all.push_back(
      {"CheckpointTakeCancelled", make_busy_pool,
       [](SimWorld& w) { return w.engine().submit(engine::CheckpointRequest{JobId{"job-1"}}); },
       cancel, false, job_went_on});
  for (const auto& [name, act] :
       {std::pair{"CheckpointTakeAtASafePoint", std::function<void(SimWorld&, const Operation&)>{}},
        std::pair{"CheckpointTakeCancelledInTheWait",
                  std::function<void(SimWorld&, const Operation&)>{cancel}}}) {
    all.push_back(
        {name, make_announcing_pool,
         [](SimWorld& w) { return w.engine().submit(engine::CheckpointRequest{JobId{"job-1"}}); },
         act, false, job_went_on});
  }
  // The third of a chain: the first becomes one that is only needed.
  all.push_back(
      {"CheckpointTakeOnAnother",
       [](SimWorld& w) {
         make_saved_pool(w);
         must_end(w, w.engine().submit(engine::CheckpointRequest{JobId{"job-1"}}));
       },
       [](SimWorld& w) { return w.engine().submit(engine::CheckpointRequest{JobId{"job-1"}}); },
       {},
       false,
       job_went_on});
  all.push_back({"CheckpointRestore",
                 make_saved_pool,
                 restart,
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   job_went_on(w, o);
                   EXPECT_EQ(w.jobs()[0].restarts, 1);
                 }});
  all.push_back({"CheckpointRestoreOfADeadJob",
                 [](SimWorld& w) {
                   make_saved_pool(w);
                   EXPECT_TRUE(w.cluster.panic_guest(VmId{"demo-1"}));
                   EXPECT_TRUE(w.play_while_not([&] { return w.all_ended(); }, minutes{5}));
                   EXPECT_EQ(w.jobs()[0].state, JobState::Failed);
                 },
                 restart,
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   job_went_on(w, o);
                   vms_run(w, o);
                 }});
  all.push_back({"JobRunThatLosesAHost",
                 make_protected_pool,
                 lose_a_host,
                 {},
                 true,
                 [](SimWorld& w, const Operation& o) {
                   vms_run(w, o);
                   const Job job = w.jobs().at(0);
                   EXPECT_EQ(job.restarts, 1);
                   EXPECT_EQ(w.output_of(job.id), sim::complete_output(job.id, kProtectedWork_s));
                 }});
  all.push_back({"JobRun",
                 [](SimWorld& w) { make_pool(w, 2); },
                 [](SimWorld& w) { return submit_job(w, 4); },
                 {},
                 true,
                 {}});
  all.push_back({"JobRunCancelled",
                 [](SimWorld& w) { make_pool(w, 2); },
                 [](SimWorld& w) { return submit_job(w, 8); },
                 cancel,
                 false,
                 {}});
  return all;
}

class Crash : public ::testing::TestWithParam<Scene> {
 protected:
  /// One life with one death. False when the operation ended before its `commit`th commit: then all
  /// were tried.
  bool live_and_die(std::uint64_t commit, Death death);
};

bool Crash::live_and_die(std::uint64_t commit, Death death) {
  const Scene& scene = GetParam();
  SCOPED_TRACE(scene.name + ", death " + (death == Death::BeforeActing ? "before" : "after") +
               " acting on commit " + std::to_string(commit));
  SimWorld world(commit);
  Invariants invariants(world);
  world.on_step([&] {
    invariants.check_moment();
    if (world.store_is_open()) invariants.check_rows();
  });
  world.start_mared();
  for (const char* name : {"h1", "h2", "h3"}) EXPECT_TRUE(world.add_host(name));
  scene.prepare(world);
  if (HasFailure()) return false;

  // The request itself is the first commit: an accepted operation must not be forgotten.
  const std::uint64_t last = world.store().commits() + commit;
  world.store().stop_after_commits(last);
  const auto dead = [&world, last] { return world.store().commits() >= last; };
  if (death == Death::BeforeActing) {
    world.executor.die_unless([dead] { return !dead(); });
  }
  auto accepted = scene.ask(world);
  EXPECT_TRUE(accepted.ok()) << (accepted ? "" : accepted.error().text());
  if (!accepted) return false;
  if (scene.disturb && !dead()) scene.disturb(world, *accepted);
  const bool died = world.play_while_not(
      [&] { return dead() || world.operation(accepted->id).finished(); }, minutes{5});
  EXPECT_TRUE(died) << "the operation neither ended nor wrote";
  const bool more = dead();
  if (more) {
    if (death == Death::AfterActing) world.play(milliseconds{300});
    world.kill_mared();
    world.play(milliseconds{500});
    world.start_mared();
  } else {
    // It ended first: nobody dies in this life.
    world.store().stop_after_commits(UINT64_MAX);
    world.executor.die_unless({});
  }
  const auto ended = world.wait(accepted->id, minutes{10});
  EXPECT_TRUE(ended.finished()) << "never ended: " << ended.state;
  if (scene.must_succeed) {
    EXPECT_EQ(ended.outcome, Outcome::Succeeded) << ended.reason;
  }
  if (ended.outcome != Outcome::Succeeded) {
    EXPECT_FALSE(ended.reason.empty());
  }
  EXPECT_NE(ended.outcome, Outcome::NeedsOperator) << ended.reason;
  EXPECT_TRUE(world.play_while_not([&] { return world.all_ended(); }, minutes{10}));
  world.play(seconds{10});
  if (scene.check && world.operation(accepted->id).finished()) scene.check(world, ended);
  invariants.check_quiet();
  for (const auto& what : invariants.broken()) ADD_FAILURE() << what;
  if (HasFailure()) std::printf("%s", world.log_tail(60).c_str());
  return more && !HasFailure();
}

TEST_P(Crash, AfterEveryCommit) {
  constexpr std::uint64_t kMost = 200;
  for (const Death death : {Death::BeforeActing, Death::AfterActing}) {
    std::uint64_t commit = 1;
    while (commit < kMost && live_and_die(commit, death)) ++commit;
    if (HasFailure()) return;
    EXPECT_GT(commit, 1U) << "nothing was committed";
    EXPECT_LT(commit, kMost) << "the operation commits without end";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Crash, ::testing::ValuesIn(scenes()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace mare::test
