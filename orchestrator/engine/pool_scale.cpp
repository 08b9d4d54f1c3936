// pool.scale: VMs come or go, and the pool's size says what was reached.
//
// Growing all or nothing: one VM that does not come up, or a cancel, ends the ones that came. By
// best effort those that came stay. Shrinking has no way back, a VM that has ended is gone: what
// could be refused was refused before; a cancel keeps the VMs whose end has not begun.
//
// The rows of VMs that came and did not stay, and of VMs that went, are erased with the last
// transition, and the pool's size is set to the number of rows that are left.
#include <algorithm>
#include <map>

#include "orchestrator/engine/children.h"
#include "orchestrator/engine/scale_plan.h"

namespace mare::engine {
namespace {

// Ends begun at a time: a cancel finds the rest as it was.
constexpr std::size_t kEndsAtOnce = 16;
constexpr auto kBusyPoll = std::chrono::milliseconds{500};

class PoolScale final : public Task {
 public:
  PoolScale(Context& context, const Operation& operation)
      : Task(context, operation), plan_(scale_plan_from(operation.request)) {}

  void enter(bool /*recovered*/) override {
    if (state() == PoolScaleState::Planned) return begin();
    advance();
  }
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }

 private:
  PoolId id() const { return PoolId{operation().target}; }
  PoolScaleState state() const {
    PoolScaleState parsed{};
    MARE_ASSERT(state_from(operation().state, parsed));
    return parsed;
  }

  void begin() {
    if (plan_.vms.empty()) {
      finish(to_string(PoolScaleEvent::Reached), to_string(PoolScaleState::Done),
             Outcome::Succeeded, "the pool has " + vms_text(plan_.before) + " already");
      return;
    }
    const auto event = plan_.grows() ? PoolScaleEvent::Grow : PoolScaleEvent::Shrink;
    const auto to = plan_.grows() ? PoolScaleState::Growing : PoolScaleState::Shrinking;
    const auto count = vms_text(static_cast<int>(plan_.vms.size()));
    if (commit(to_string(event), to_string(to), count + (plan_.grows() ? " more" : " fewer"))) {
      advance();
    }
  }

  void advance() {
    const auto now = state();
    const bool acts = now == PoolScaleState::Growing || now == PoolScaleState::Shrinking ||
                      now == PoolScaleState::RollingBack;
    if (!acts) return;
    auto scene = look();
    if (!scene) return again();
    if (now == PoolScaleState::Growing) return grow(*scene);
    end_vms(*scene);
  }

  /// The VMs of the plan that still have rows, and what was done about them.
  struct Scene {
    std::vector<Vm> vms;
    std::map<std::string, Operation> starts;  // by VM
    std::map<std::string, Operation> stops;   // the last one of each VM
    std::set<VmId> held;                      // by an unfinished operation, ours or another's
    std::size_t rows = 0;                     // of the whole pool
  };

  Result<Scene> look() {
    auto children = children_of(context_, operation().id);
    if (!children) return children.error();
    return query<Scene>(store(), [&](const store::Reader& reader) -> Result<Scene> {
      Scene scene;
      auto vms = reader.vms_of(id());
      if (!vms) return vms.error();
      scene.rows = vms->size();
      const std::set<VmId> ours(plan_.vms.begin(), plan_.vms.end());
      for (auto& vm : *vms) {
        if (!ours.contains(vm.id)) continue;
        auto holder = reader.unfinished("vm", vm.id.value);
        if (!holder) return holder.error();
        if (*holder) scene.held.insert(vm.id);
        scene.vms.push_back(std::move(vm));
      }
      // Newest first, so that the first of each VM stays.
      for (auto& child : *children) {
        auto& list = child.kind == OperationKind::VmStart ? scene.starts : scene.stops;
        list.try_emplace(child.target, child);
      }
      return scene;
    });
  }

  // --- Growing

  void grow(const Scene& scene) {
    const bool stop_here = operation().cancel_requested;
    std::size_t running = 0;
    bool waiting = false;
    if (stop_here) note("cancelled");
    for (const auto& [vm, child] : scene.starts) {
      if (!child.finished()) {
        waiting = true;
        if (stop_here) cancel_child(context_, child.id);
      } else if (child.outcome == Outcome::Succeeded) {
        ++running;
      } else {
        note("VM '" + vm + "': " + child.reason);
      }
    }
    if (!plan_.best_effort && !trouble_.empty()) return give_up();
    if (!stop_here) waiting |= start_missing(scene);
    if (!plan_.best_effort && !trouble_.empty()) return give_up();
    progress(static_cast<double>(running) / static_cast<double>(plan_.vms.size()));
    save_progress();
    if (!waiting) settle(scene);
  }

  bool start_missing(const Scene& scene) {
    bool started = false;
    for (const auto& vm : scene.vms) {
      if (scene.starts.contains(vm.id.value)) continue;
      auto child = start_child(context_, VmStartRequest{vm.id, {}}, operation().id);
      if (child) {
        started = true;
      } else {
        note("VM '" + vm.id.value + "': " + child.error().text());
        if (!plan_.best_effort) break;
      }
    }
    return started;
  }

  void give_up() {
    if (commit(to_string(PoolScaleEvent::GiveUp), to_string(PoolScaleState::RollingBack),
               trouble_)) {
      advance();
    }
  }

  // --- Shrinking and RollingBack

  void end_vms(const Scene& scene) {
    const bool back = state() == PoolScaleState::RollingBack;
    // What comes back from growing is ended in any case; a shrink that was cancelled goes no
    // further.
    const bool stop_here = !back && operation().cancel_requested;
    if (back && !starts_have_ended(scene)) return;
    std::size_t under_way = unfinished(scene.stops);
    std::size_t gone = 0;
    bool look_again = false;
    for (const auto& vm : scene.vms) {
      const auto stop = scene.stops.find(vm.id.value);
      const bool begun = stop != scene.stops.end();
      if (begun && !stop->second.finished()) continue;
      if (begun && stop->second.outcome == Outcome::NeedsOperator) {
        stuck_ = "VM '" + vm.id.value + "' could not be ended: " + stop->second.reason;
      } else if (!vm.host && !scene.held.contains(vm.id)) {
        ++gone;
      } else if (!stop_here && under_way < kEndsAtOnce) {
        // Another operation (a migration of a drain) may hold it for a while.
        auto child = start_child(context_, VmStopRequest{vm.id, true}, operation().id);
        if (child) {
          ++under_way;
        } else {
          look_again = true;
          cancel_waiting_move(context_, vm.id);
        }
      }
    }
    progress(static_cast<double>(gone) / static_cast<double>(plan_.vms.size()));
    save_progress();
    if (under_way > 0) return;
    if (look_again) return after(kBusyPoll, [this] { advance(); });
    if (stop_here) note("cancelled");
    settle(scene);
  }

  bool starts_have_ended(const Scene& scene) {
    for (const auto& [vm, child] : scene.starts) {
      if (!child.finished()) cancel_child(context_, child.id);
    }
    return unfinished(scene.starts) == 0;
  }

  static std::size_t unfinished(const std::map<std::string, Operation>& children) {
    return static_cast<std::size_t>(
        std::count_if(children.begin(), children.end(),
                      [](const auto& entry) { return !entry.second.finished(); }));
  }

  // --- The end

  /// Of what stands in the way the first is told.
  void note(const std::string& trouble) {
    if (trouble_.empty()) trouble_ = trouble;
  }

  /// Did it come and stay, or stay though it was to go?
  bool stays(const Scene& scene, const Vm& vm) const {
    if (vm.host || scene.held.contains(vm.id)) return true;
    if (state() == PoolScaleState::Growing) {
      const auto start = scene.starts.find(vm.id.value);
      return start != scene.starts.end() && start->second.outcome == Outcome::Succeeded;
    }
    // A VM that did not run when a shrink was cancelled was not touched.
    const bool untouched = !scene.stops.contains(vm.id.value) && operation().cancel_requested;
    return state() == PoolScaleState::Shrinking && untouched;
  }

  void settle(const Scene& scene) {
    std::vector<VmId> gone;
    for (const auto& vm : scene.vms) {
      if (!stays(scene, vm)) gone.push_back(vm.id);
      const auto start = scene.starts.find(vm.id.value);
      const bool unclear =
          start != scene.starts.end() && start->second.outcome == Outcome::NeedsOperator;
      if (unclear && vm.host) stuck_ = "VM '" + vm.id.value + "': " + start->second.reason;
    }
    const int left = static_cast<int>(scene.rows - gone.size());
    auto event = PoolScaleEvent::PartlyReached;
    if (left == plan_.before) event = PoolScaleEvent::NothingReached;
    if (left == plan_.size && state() != PoolScaleState::RollingBack) {
      event = PoolScaleEvent::Reached;
    }
    const auto to = next(state(), event);
    MARE_ASSERT(to);
    const bool reached = event == PoolScaleEvent::Reached;
    finish(to_string(event), to_string(*to), reached ? Outcome::Succeeded : outcome(),
           reached ? "the pool has " + vms_text(left) : in_words(left),
           reached ? std::string() : code(scene), [&](store::Transaction& tx) -> Status {
             for (const auto& vm : gone) {
               if (auto done = tx.erase(vm); !done) return done;
             }
             auto pool = tx.pool(id());
             if (!pool) return pool.error();
             pool->size = left;
             return put_pool(tx, clock(), *pool, "pool.changed");
           });
  }

  Outcome outcome() const {
    if (!stuck_.empty()) return Outcome::NeedsOperator;
    return operation().cancel_requested ? Outcome::Cancelled : Outcome::Failed;
  }

  std::string code(const Scene& scene) const {
    if (!stuck_.empty()) return std::string(to_string(Code::OutcomeUnknown));
    if (operation().cancel_requested) return std::string(to_string(Code::Cancelled));
    for (const auto& [vm, start] : scene.starts) {
      if (start.outcome == Outcome::Failed) return start.error_code;
    }
    const bool as_planned = trouble_.empty() && !plan_.limit.empty();
    if (!as_planned) return std::string(to_string(Code::Internal));
    return std::string(
        to_string(plan_.grows() ? Code::ResourceExhausted : Code::FailedPrecondition));
  }

  std::string in_words(int left) const {
    std::string why = state() == PoolScaleState::RollingBack ? why_back() : trouble_;
    if (why.empty()) why = plan_.limit;
    if (!stuck_.empty()) why += (why.empty() ? "" : "; ") + stuck_;
    why +=
        "; the pool has " + vms_text(left) + ", " + std::to_string(plan_.size) + " were asked for";
    if (!stuck_.empty()) why += "; scale it again when that VM's host is back";
    return why;
  }

  /// Why it gave up, from the history, so that a restart knows it too.
  std::string why_back() const {
    auto lines = query<std::vector<OperationEvent>>(
        store(), [&](const store::Reader& r) { return r.history(operation().id); });
    if (!lines) return lines.error().text();
    for (const auto& line : *lines) {
      if (line.to == to_string(PoolScaleState::RollingBack)) return line.detail;
    }
    return "failed";
  }

  static std::string vms_text(int count) {
    return std::to_string(count) + (count == 1 ? " VM" : " VMs");
  }

  const ScalePlan plan_;
  std::string trouble_;
  std::string stuck_;  // what only an operator can settle
};

}  // namespace

std::shared_ptr<Task> make_pool_scale(Context& context, const Operation& operation) {
  return std::make_shared<PoolScale>(context, operation);
}

}  // namespace mare::engine
