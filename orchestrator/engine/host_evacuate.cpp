// host.evacuate: a host fails at a known time. It takes no new VMs; a plan.evacuate, its first
// child, forecasts the moves; from then on, once a second and whenever a child ends, what is there
// is planned anew by policy/evacuation.h: children move VMs and take checkpoints. Nothing but the
// deadline and the list of VMs has to be remembered, so it goes on after a crash as if nothing was.
//
// At the deadline migrations are cancelled, checkpoints that are being written may end, and what
// came of every VM is told. The host stays cordoned; when it fails, recovery.run takes over.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/engine/children.h"
#include "orchestrator/engine/evacuation_rows.h"
#include "orchestrator/model/checkpoint_lifecycles.h"

namespace mare::engine {
namespace {

constexpr std::chrono::nanoseconds kLook = std::chrono::seconds{1};
constexpr std::chrono::nanoseconds kLookFast = std::chrono::milliseconds{100};
constexpr double kPlanShare = 1.0 / 3;  // of the time, for forecasts at most
constexpr double kTurnBack_s = 3;       // to cancel a move before its job is saved
constexpr double kLeastForATry_s = 2;

class HostEvacuate final : public Task {
 public:
  using State = HostEvacuateState;
  using Event = HostEvacuateEvent;
  using Task::Task;

  void enter(bool /*recovered*/) override {
    State state{};
    MARE_ASSERT(state_from(operation().state, state));
    if (state == State::Planned) return begin();
    if (state == State::Leaving) return advance();
  }
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }
  void on_asked_again() override {
    auto row = query<Operation>(
        store(), [&](const store::Reader& r) { return r.operation(operation().id); });
    if (!row) return;
    if (row->deadline < operation().deadline) set_deadline(row->deadline);
    if (operation().state == to_string(State::Leaving)) advance();
  }

 protected:
  void take_over(const Operation& row, Operation& mine) const override {
    Task::take_over(row, mine);
    mine.deadline = std::min(mine.deadline, row.deadline);
  }

 private:
  HostId id() const { return HostId{operation().target}; }
  nlohmann::json request() const { return nlohmann::json::parse(operation().request); }

  Also set_admin(HostAdmin admin) {
    return [this, admin](store::Transaction& tx) -> Status {
      auto row = tx.host(id());
      if (!row) return row.error();
      row->admin = admin;
      return put_host(tx, clock(), *row);
    };
  }

  void begin() {
    if (operation().cancel_requested) return give_up();
    auto vms =
        query<std::vector<Vm>>(store(), [&](const store::Reader& r) { return r.vms_on(id()); });
    if (!vms) return again();
    auto kept = request();
    kept["vms"] = nlohmann::json::array();
    for (const auto& vm : *vms) kept["vms"].push_back(vm.id.value);
    set_request(kept.dump());
    const std::string reason = kept.value("reason", "");
    if (commit(
            to_string(Event::Begin), to_string(State::Leaving),
            "until " + format_rfc3339(operation().deadline) + (reason.empty() ? "" : ": " + reason),
            set_admin(HostAdmin::Draining))) {
      advance();
    }
  }

  /// What there is at one moment.
  struct Scene {
    Warning warning;
    std::vector<Vm> here;
    policy::Threat threat;
    policy::EvacuationPlan plan;
    std::size_t running = 0;  // children
  };

  Result<Scene> look(const store::Reader& reader) const {
    Scene out;
    out.warning = {id(), operation().created, operation().deadline, clock().wall_now(), {}};
    store::OperationFilter filter;
    filter.parent = operation().id;
    filter.limit = 100000;
    auto children = reader.operations(filter);
    if (!children) return children.error();
    out.warning.children = std::move(*children);
    for (const auto& child : out.warning.children) out.running += child.finished() ? 0 : 1;
    auto here = reader.vms_on(id());
    if (!here) return here.error();
    out.here = std::move(*here);
    auto threat = read_threat(reader, settings(), out.warning);
    if (!threat) return threat.error();
    out.threat = std::move(*threat);
    out.plan = policy::plan_evacuation(out.threat);
    return out;
  }

  void advance() {
    auto scene = query<Scene>(store(), [&](const store::Reader& r) { return look(r); });
    if (!scene) return again();
    if (operation().cancel_requested) return stop(*scene);
    report(*scene);
    const bool late = scene->warning.now >= scene->warning.deadline;
    if (late || scene->here.empty()) return end(*scene, late);
    if (is_planned(*scene)) act(*scene);
    come_back(
        std::min<std::chrono::nanoseconds>(pace(), scene->warning.deadline - scene->warning.now));
  }

  /// A short warning is looked at more often.
  std::chrono::nanoseconds pace() const {
    const std::chrono::nanoseconds given = operation().deadline - operation().created;
    return std::clamp<std::chrono::nanoseconds>(given / 10, kLookFast, kLook);
  }
  void come_back(std::chrono::nanoseconds delay) {
    const int mine = ++looks_;
    after(delay, [this, mine] {
      if (mine == looks_) advance();
    });
  }

  // --- What leaves, and what is saved

  /// Are the forecasts there, or can't they be waited for any longer?
  bool is_planned(const Scene& scene) {
    const Operation* plan = nullptr;
    for (const auto& child : scene.warning.children) {
      if (child.kind == OperationKind::PlanEvacuate) plan = &child;
    }
    if (plan != nullptr && plan->finished()) return true;
    const auto given = Seconds{operation().deadline - operation().created};
    const auto used = Seconds{scene.warning.now - operation().created};
    const bool over = used >= given * kPlanShare;
    if (plan != nullptr) {
      // Its own children end with it; what they said counts.
      if (over && !plan->cancel_requested) cancel_child(context_, plan->id);
      return over;
    }
    if (over) return true;
    EvacuationForecastRequest request{id(), std::max(kShortestWarning, given - used)};
    auto child = start_child(context_, request, operation().id);
    // Somebody else's ends soon, and its forecasts are as good; all else is past help.
    return !child && child.error().code != Code::Conflict;
  }

  void act(const Scene& scene) {
    tell(scene);
    turn_back(scene);
    bool busy = scene.running > 0;
    for (const auto& save : scene.plan.saves) busy |= take(save.job);
    for (const auto& move : scene.plan.moves) {
      if (move.begins_s > 0) continue;
      const auto& vm = scene.threat.vms[move.index];
      busy |= leave(scene, vm, move.strategy);
    }
    if (!busy) try_the_rest(scene);
  }

  void tell(const Scene& scene) {
    const std::string words = policy::in_words(scene.plan, scene.threat);
    if (scene.threat.vms.empty() || words == operation().reason) return;
    (void)wait_because("Plan", words, words);
  }

  bool take(const JobId& job) {
    return start_child(context_, CheckpointRequest{job}, operation().id).ok();
  }

  int failures(const Scene& scene, const VmId& vm) const {
    int out = 0;
    for (const auto& child : scene.warning.children) {
      const bool failed = child.finished() && child.outcome != Outcome::Succeeded;
      if (child.kind == OperationKind::VmMigrate && child.target == vm.value && failed) ++out;
    }
    return out;
  }

  bool leave(const Scene& scene, const policy::LeavingVm& vm, Strategy strategy) {
    MigrateRequest move;
    move.vm = vm.vm;
    move.policy.strategy = strategy;
    // Where the plan says, unless that has failed or has become impossible.
    if (failures(scene, vm.vm) == 0) {
      move.destination = vm.destination;
      if (start_move(scene, move)) return true;
      move.destination.reset();
    }
    return start_move(scene, move);
  }

  bool start_move(const Scene& scene, MigrateRequest move) {
    const Seconds left{scene.warning.deadline - scene.warning.now};
    if (left < kShortestWarning) return false;
    move.timeout = left;
    move.policy.time_limit = std::optional<Seconds>{};  // the deadline is the limit
    move.force = true;
    return start_child(context_, move, operation().id).ok();
  }

  /// What is overdue gives way to the checkpoint of its job while there is time for one; what waits
  /// for its turn and can't end in time gives way at once.
  void turn_back(const Scene& scene) {
    for (const auto& vm : scene.here) {
      auto holder = query<std::optional<Operation>>(
          store(), [&](const store::Reader& r) { return r.unfinished("vm", vm.id.value); });
      if (!holder || !*holder || (*holder)->kind != OperationKind::VmMigrate) continue;
      const Operation& move = **holder;
      if (move.cancel_requested) continue;
      const bool own = move.parent == operation().id;
      const bool waits = move.state == to_string(MigrationState::Planned);
      // Somebody else's waits for a moment that may not come any more.
      if ((!own && waits) || (own && must_save_now(scene, vm))) cancel_child(context_, move.id);
    }
  }
  bool must_save_now(const Scene& scene, const Vm& vm) const {
    auto jobs =
        query<std::vector<Job>>(store(), [&](const store::Reader& r) { return jobs_on(r, vm); });
    if (!jobs || jobs->empty()) return false;
    for (const auto& job : scene.threat.jobs) {
      if (job.job != jobs->front().id) continue;
      if (job.covered || job.saving || !job.checkpoint_s) return false;
      const double left = scene.threat.left_s;
      if (left < *job.checkpoint_s) return false;  // too late for that: the move may still end
      const bool in_vain = job.waits_s > left;
      return in_vain || (job.overdue && left < job.waits_s + *job.checkpoint_s + kTurnBack_s);
    }
    return false;
  }

  /// Nothing else is to be done: what was not promised may succeed all the same.
  void try_the_rest(const Scene& scene) {
    if (scene.threat.left_s < kLeastForATry_s) return;
    for (const auto& one : scene.plan.left) {
      const auto& vm = scene.threat.vms[one.index];
      for (const auto& job : scene.threat.jobs) {
        if (vm.job == job.job && job.checkpoint_s && take(job.job)) return;
      }
    }
    for (const auto& one : scene.plan.left) {
      const auto& vm = scene.threat.vms[one.index];
      if (failures(scene, vm.vm) > 1) continue;
      if (!vm.ways.empty()) {
        if (leave(scene, vm, vm.ways.back().strategy)) return;
        continue;
      }
      MigrateRequest move;
      move.vm = vm.vm;
      if (start_move(scene, move)) return;
    }
  }

  // --- Progress and the end

  std::vector<VmId> known(const Scene& scene) const {
    std::vector<VmId> out;
    const auto kept = request();
    const auto vms = kept.find("vms");
    if (vms != kept.end()) {
      for (const auto& name : *vms) out.push_back(VmId{name.get<std::string>()});
    }
    for (const auto& vm : scene.here) {
      if (std::find(out.begin(), out.end(), vm.id) == out.end()) out.push_back(vm.id);
    }
    return out;
  }

  void report(const Scene& scene) {
    const auto all = static_cast<double>(known(scene).size());
    const double done = all > 0 ? 1 - static_cast<double>(scene.here.size()) / all : 0;
    if (done == operation().progress) return;
    progress(done);
    save_progress();
  }

  Result<std::vector<Fate>> fates(const Scene& scene) const {
    return query<std::vector<Fate>>(store(), [&](const store::Reader& r) {
      return read_fates(r, scene.warning, known(scene), scene.plan, scene.threat);
    });
  }

  /// The children first: until then nobody knows what came of their VMs.
  bool wait_for_children(const Scene& scene, bool also_saves) {
    for (const auto& child : scene.warning.children) {
      if (child.finished() || child.cancel_requested) continue;
      const bool writes = child.kind == OperationKind::CheckpointTake &&
                          child.state != to_string(CheckpointTakeState::Planned);
      if (!writes || also_saves) cancel_child(context_, child.id);
    }
    if (scene.running == 0) return false;
    come_back(kLook);
    return true;
  }

  void end(const Scene& scene, bool late) {
    const bool waits = late ? wait_for_children(scene, false) : scene.running > 0;
    if (waits) {
      if (!late) come_back(kLook);
      return;
    }
    auto all = fates(scene);
    if (!all) return again();
    auto kept = request();
    kept["fates"] = nlohmann::json::array();
    bool safe = true;
    for (const auto& one : *all) {
      safe = safe && one.kind != FateKind::Left;
      kept["fates"].push_back(
          {{"vm", one.vm.value}, {"fate", to_string(one.kind)}, {"detail", one.words}});
    }
    set_request(kept.dump());
    finish(to_string(safe ? Event::Safe : Event::TimeIsUp),
           to_string(safe ? State::Done : State::Partial),
           safe ? Outcome::Succeeded : Outcome::Failed, in_words(*all),
           safe ? "" : std::string(to_string(Code::ResourceExhausted)),
           set_admin(HostAdmin::Drained));
  }

  void stop(const Scene& scene) {
    if (wait_for_children(scene, true)) return;
    auto all = fates(scene);
    if (!all) return again();
    give_up("; " + in_words(*all));
  }

  void give_up(const std::string& so_far = {}) {
    const auto before = host_admin_from(request().value("admin_before", ""));
    const bool in_use = before.value_or(HostAdmin::Active) == HostAdmin::Active;
    finish(to_string(Event::GiveUp), to_string(State::Failed), Outcome::Cancelled,
           "cancelled" + so_far + "; the host is " + (in_use ? "in use" : "drained") + " as before",
           std::string(to_string(Code::Cancelled)),
           set_admin(in_use ? HostAdmin::Active : HostAdmin::Drained));
  }

  int looks_ = 0;  // only the last one that was asked for is made
};

}  // namespace

std::shared_ptr<Task> make_host_evacuate(Context& context, const Operation& operation) {
  return std::make_shared<HostEvacuate>(context, operation);
}

}  // namespace mare::engine
