#include "tests/sim/campaign.h"

#include <algorithm>

#include "tests/sim/faults.h"
#include "tests/sim/invariants.h"

namespace mare::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class Campaign {
 public:
  explicit Campaign(std::uint64_t seed) : world_(seed), rng_(world_.scenario), invariants_(world_) {
    world_.on_step([this] { check(); });
  }

  CampaignReport run() {
    set_up();
    if (invariants_.hold()) live();
    if (invariants_.hold()) calm_down();
    CampaignReport report;
    report.broken = invariants_.broken();
    report.counts = counts_;
    if (faults_) report.counts.insert(faults_->counts().begin(), faults_->counts().end());
    if (!report.broken.empty()) report.log = world_.log_tail(120);
    return report;
  }

 private:
  void check() {
    invariants_.check_moment();
    if (!committed_ || !world_.store_is_open()) return;
    committed_ = false;
    invariants_.check_rows();
  }

  void start_mared() {
    world_.start_mared([this](const Operation& operation) {
      committed_ = true;
      for (const char* state : {"Saving", "Restarting", "Returning"}) {
        const bool moves = operation.kind == OperationKind::VmMigrate;
        if (moves && operation.state == state)
          ++counts_[std::string("vm.migrate reached ") + state];
      }
      if (operation.finished()) {
        ++counts_[std::string(to_string(operation.kind)) + " " +
                  std::string(to_string(operation.outcome))];
      }
    });
  }

  void set_up() {
    world_.rebalance_period = Milliseconds{5000};
    start_mared();
    const auto hosts = 3 + rng_.below(4);
    for (std::uint64_t i = 0; i < hosts; ++i) {
      sim::HostModel model;
      model.memory = mebibytes(768 + 256 * rng_.below(5));
      model.cpus = static_cast<int>(1 + rng_.below(4));
      model.speed = 0.5 + rng_.unit();
      model.uplink = BytesPerSecond{20e6 + 105e6 * rng_.unit()};
      if (rng_.chance(0.05)) model.live_migration_refused = "its QEMU is too old";
      const auto added = world_.add_host("h" + std::to_string(i + 1), model);
      MARE_ASSERT(added.ok());
    }
    for (int i = 0; i < 2; ++i) create_pool();
    world_.play(seconds{10});
    faults_.emplace(world_);
  }

  /// Life with faults: something is asked for, or goes wrong, every second or so.
  void live() {
    const auto end = world_.clock.now() + seconds{30 + rng_.below(40)};
    while (world_.clock.now() < end && invariants_.hold()) {
      world_.play(milliseconds{50 + rng_.below(2000)});
      if (!world_.mared_runs()) {
        if (rng_.chance(0.5)) start_mared();
      } else if (rng_.chance(0.08)) {
        world_.kill_mared();
        ++counts_["mared killed"];
      } else if (rng_.chance(0.7)) {
        ask();
      }
      if (rng_.chance(0.35)) faults_->strike();
    }
  }

  /// No more faults and requests; a person looks in now and then. All must come to an end.
  void calm_down() {
    if (!world_.mared_runs()) start_mared();
    faults_->heal();
    // Rules have their way until a person takes them away; then all stays as it is.
    world_.play(seconds{60});
    for (const auto& pool : world_.pools()) {
      static_cast<void>(world_.engine().clear_autoscale(pool.id));
    }
    MARE_ASSERT(world_.engine().set_rebalancing({}).ok());
    const auto limit = world_.clock.now() + minutes{30};
    while (world_.clock.now() < limit && invariants_.hold()) {
      world_.play(seconds{10});
      const auto unfinished = world_.operations(true);
      const bool only_waiting =
          std::all_of(unfinished.begin(), unfinished.end(), [](const Operation& o) {
            return o.kind == OperationKind::JobRun && o.state == "Queued";
          });
      if (only_waiting && !tend(unfinished)) break;
    }
    // Two heartbeats more, and what the monitor then does.
    world_.play(seconds{20});
    if (invariants_.hold()) invariants_.check_quiet();
  }

  /// What an operator does in peace: gives up jobs that wait for VMs which nobody starts, and ends
  /// lost VMs. True if there was something to do.
  bool tend(const std::vector<Operation>& waiting) {
    bool busy = !waiting.empty();
    for (const auto& operation : waiting) {
      // It may just be its turn: then this is refused, or comes too late to matter.
      static_cast<void>(world_.engine().cancel(operation.id));
      ++counts_["waiting job cancelled by the operator"];
    }
    for (const auto& vm : world_.vms()) {
      if (vm.state != VmState::Lost) continue;
      busy = true;
      ++counts_["lost VM stopped by the operator"];
      static_cast<void>(world_.engine().submit(engine::VmStopRequest{vm.id, true}));
    }
    return busy;
  }

  // --- requests; each may be refused, but never without a word

  template <typename Request>
  void submit(const Request& request) {
    auto accepted = world_.engine().submit(request);
    ++counts_[accepted ? "requests accepted" : "requests refused"];
    if (!accepted && accepted.error().message.empty()) counts_["refused without a word"] += 1;
    committed_ = true;
  }

  template <typename T>
  const T* pick(const std::vector<T>& from) {
    return from.empty() ? nullptr : &from[rng_.below(from.size())];
  }

  void ask() {
    switch (rng_.below(28)) {
      case 0:
        return create_pool();
      case 1:
      case 2:
      case 3:
      case 4:
        return submit_job();
      case 5:
        return stop_or_start();
      case 6:
        return drain_or_activate();
      case 7:
        return delete_pool();
      case 8:
        return cancel_something();
      case 9:
        return remove_or_add_host();
      case 10:
      case 11:
        return scale_pool();
      case 12:
        return follow_a_figure();
      case 13:
        return take_checkpoint();
      case 14:
        return restart_job();
      case 15:
      case 16:
        return spread_or_pack();
      case 17:
        return rebalance();
      case 18:
        return evacuate();
      default:
        return migrate();
    }
  }

  void create_pool() {
    engine::PoolCreateRequest request;
    request.id = PoolId{"p" + std::to_string(++pools_)};
    request.size = static_cast<int>(1 + rng_.below(4));
    request.memory = mebibytes(64 + 32 * rng_.below(5));
    submit(request);
  }

  void submit_job() {
    const auto pools = world_.pools();
    const auto* pool = pick(pools);
    if (pool == nullptr) return;
    engine::JobSubmitRequest request;
    request.pool = pool->id;
    request.command = {"solver", "--sim-work=" + std::to_string(1 + rng_.below(20))};
    if (rng_.chance(0.15)) request.command.emplace_back("--sim-exit=3");
    if (rng_.chance(0.4)) {
      request.checkpoints = {CheckpointRule::Every, Seconds{1.0 + 5 * rng_.unit()},
                             static_cast<int>(1 + rng_.below(3))};
      if (rng_.chance(0.3)) request.checkpoints.mode = CheckpointMode::Full;
      request.checkpoints.chain = static_cast<int>(1 + rng_.below(4));
      if (rng_.chance(0.3)) request.checkpoints.max_age = Seconds{60};
      request.checkpoints.partner = rng_.chance(0.3);
    }
    request.ranks = static_cast<int>(1 + rng_.below(static_cast<std::uint64_t>(pool->size)));
    submit(request);
  }

  void take_checkpoint() {
    const auto jobs = world_.jobs();
    const auto* job = pick(jobs);
    if (job != nullptr) submit(engine::CheckpointRequest{job->id});
  }

  void restart_job() {
    const auto jobs = world_.jobs();
    const auto* job = pick(jobs);
    if (job == nullptr) return;
    engine::RestartRequest request;
    request.job = job->id;
    const auto hosts = world_.hosts();
    if (rng_.chance(0.2)) request.hosts = {pick(hosts)->id};
    submit(request);
  }

  void migrate() {
    const auto vms = world_.vms();
    const auto* vm = pick(vms);
    if (vm == nullptr) return;
    engine::MigrateRequest request;
    request.vm = vm->id;
    const auto hosts = world_.hosts();
    if (rng_.chance(0.5)) request.destination = pick(hosts)->id;
    if (rng_.chance(0.3)) {
      request.policy.bandwidth_limit = BytesPerSecond{5e6 + 50e6 * rng_.unit()};
    }
    choose_strategy(request.policy);
    if (rng_.chance(0.2)) request.timeout = Seconds{static_cast<double>(1 + rng_.below(20))};
    submit(request);
  }

  /// Every third has a limit with any action.
  void choose_strategy(PolicyChange& policy) {
    const auto strategies = static_cast<std::uint64_t>(kStrategies);
    if (rng_.chance(0.8)) policy.strategy = static_cast<Strategy>(rng_.below(strategies));
    // It has the most states to be struck in.
    if (rng_.chance(0.25)) policy.strategy = Strategy::CheckpointRestart;
    // It can't be held to one, and would be refused.
    if (policy.strategy == Strategy::CheckpointRestart) policy.bandwidth_limit.reset();
    if (!rng_.chance(0.33)) return;
    policy.time_limit = Seconds{0.2 + 5 * rng_.unit()};
    policy.at_limit = static_cast<LimitAction>(rng_.below(3));
  }

  void stop_or_start() {
    const auto vms = world_.vms();
    const auto* vm = pick(vms);
    if (vm == nullptr) return;
    if (vm->state == VmState::Running || vm->state == VmState::Lost) {
      submit(engine::VmStopRequest{vm->id, rng_.chance(0.5)});
    } else {
      submit(engine::VmStartRequest{vm->id, {}});
    }
  }

  void drain_or_activate() {
    const auto hosts = world_.hosts();
    const auto* host = pick(hosts);
    if (host == nullptr) return;
    if (host->admin == HostAdmin::Active) return submit(engine::HostDrainRequest{host->id});
    static_cast<void>(world_.engine().activate(host->id));
  }

  /// Some are asked for again while they go on, and some hosts really fail.
  void evacuate() {
    const auto hosts = world_.hosts();
    const auto* host = pick(hosts);
    if (host == nullptr) return;
    const Seconds within{1 + 20 * rng_.unit()};
    if (rng_.chance(0.1)) return submit(engine::EvacuationForecastRequest{host->id, within});
    submit(engine::EvacuateRequest{host->id, within, "it is said so"});
    if (rng_.chance(0.2)) submit(engine::EvacuateRequest{host->id, within * rng_.unit(), ""});
  }

  void scale_pool() {
    const auto pools = world_.pools();
    const auto* pool = pick(pools);
    if (pool == nullptr) return;
    submit(
        engine::PoolScaleRequest{pool->id, static_cast<int>(1 + rng_.below(6)), rng_.chance(0.5)});
  }

  void spread_or_pack() {
    auto jobs = world_.jobs();
    // Mostly of those that can be: a refusal is no news.
    if (rng_.chance(0.9)) {
      jobs.erase(std::remove_if(jobs.begin(), jobs.end(),
                                [](const Job& job) { return job.state != JobState::Running; }),
                 jobs.end());
    }
    const auto* job = pick(jobs);
    if (job == nullptr) return;
    engine::LayoutWish wish;
    wish.layout = rng_.chance(0.5) ? policy::Layout::Spread : policy::Layout::Pack;
    wish.hosts = static_cast<int>(rng_.below(4));
    wish.force = rng_.chance(0.7);
    if (rng_.chance(0.5)) wish.remaining = Seconds{static_cast<double>(1 + rng_.below(600))};
    if (rng_.chance(0.2)) return submit(engine::LayoutForecastRequest{job->id, wish});
    submit(engine::LayoutChangeRequest{job->id, wish});
  }

  /// A round by hand, or a loop that is quick to act.
  void rebalance() {
    if (rng_.chance(0.1)) return submit(engine::RebalanceForecastRequest{});
    if (rng_.chance(0.5)) return submit(engine::RebalanceRequest{});
    RebalanceSetting setting;
    setting.mode = static_cast<RebalanceMode>(rng_.below(3));
    setting.threshold = 0.2 * rng_.unit();
    setting.hold = Seconds{static_cast<double>(rng_.below(10))};
    setting.cooldown = Seconds{static_cast<double>(rng_.below(20))};
    setting.max_moves = static_cast<int>(rng_.below(4));
    setting.rest = Seconds{static_cast<double>(rng_.below(30))};
    MARE_ASSERT(world_.engine().set_rebalancing(setting).ok());
    ++counts_["rebalancing set"];
    committed_ = true;
  }

  /// A rule, and then figures for it; without stabilisation, so that it has its say.
  void follow_a_figure() {
    const auto pools = world_.pools();
    const auto* pool = pick(pools);
    if (pool == nullptr) return;
    AutoscaleSetting setting;
    setting.source = rng_.chance(0.5) ? MetricSource::Queue : MetricSource::Posted;
    setting.rule.target = 0.5 + rng_.unit();
    setting.rule.max = static_cast<int>(1 + rng_.below(6));
    setting.rule.up.step = static_cast<int>(rng_.below(3));
    setting.rule.down.stabilisation = Seconds{5.0 * static_cast<double>(rng_.below(3))};
    if (!world_.engine().post_metric(pool->id, 3 * rng_.unit())) {
      static_cast<void>(world_.engine().set_autoscale(pool->id, setting));
      ++counts_["rules given"];
    }
    committed_ = true;
  }

  void delete_pool() {
    const auto pools = world_.pools();
    const auto* pool = pick(pools);
    if (pool != nullptr) submit(engine::PoolDeleteRequest{pool->id, rng_.chance(0.5)});
  }

  void cancel_something() {
    const auto unfinished = world_.operations(true);
    const auto* operation = pick(unfinished);
    if (operation != nullptr) static_cast<void>(world_.engine().cancel(operation->id));
  }

  void remove_or_add_host() {
    const auto rows = world_.hosts();
    for (const auto& id : world_.cluster.hosts()) {
      const bool known =
          std::any_of(rows.begin(), rows.end(), [&](const Host& row) { return row.id == id; });
      if (!known) return submit(engine::HostAddRequest{id, "sim:///" + id.value});
    }
    const auto* host = pick(rows);
    if (host != nullptr && rows.size() > 2) submit(engine::HostRemoveRequest{host->id});
  }

  SimWorld world_;
  Rng& rng_;
  Invariants invariants_;
  std::optional<Faults> faults_;
  std::map<std::string, int> counts_;
  int pools_ = 0;
  bool committed_ = false;
};

}  // namespace

CampaignReport run_campaign(std::uint64_t seed) {
  return Campaign(seed).run();
}

}  // namespace mare::test
