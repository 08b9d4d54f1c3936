// layout.change: the VMs of a running job over more hosts, or on fewer. A plan.layout, its first
// child, says which move where and whether the job gains by it; only then they move, each as soon
// as hosts and links have a place for it, in the order that its forecasts give: all ranks wait for
// the slowest, so one VM's move had better cost them the time in which another's does. A VM that
// can't be moved ends it: what is left would cost and not help. What was reached is told, and
// stays.
#include <algorithm>
#include <set>

#include "orchestrator/engine/layout_plan.h"
#include "orchestrator/engine/move_waves.h"
#include "orchestrator/policy/plan_words.h"

namespace mare::engine {
namespace {

class LayoutChange final : public Task {
 public:
  LayoutChange(Context& context, const Operation& operation)
      : Task(context, operation), wish_(layout_wish_from(operation.request)) {}

  void enter(bool /*recovered*/) override {
    if (state() == LayoutChangeState::Planned) {
      if (!commit(to_string(LayoutChangeEvent::Ask), to_string(LayoutChangeState::Costing), "")) {
        return;
      }
    }
    advance();
  }
  void on_cancel() override { advance(); }
  void on_child_ended(const Operation&) override { advance(); }

 private:
  JobId id() const { return JobId{operation().target}; }
  LayoutChangeState state() const {
    LayoutChangeState parsed{};
    MARE_ASSERT(state_from(operation().state, parsed));
    return parsed;
  }

  void advance() {
    auto children = children_of(context_, operation().id);
    if (!children) return again();
    const auto past = moves_made(context_, *children, operation().cancel_requested);
    if (!past) return hold_back(*children);  // their ends bring us back
    if (state() == LayoutChangeState::Costing) return decide(*past);
    if (state() == LayoutChangeState::Moving) return move(*past);
  }

  /// A job that has ended needs no more moves: those that wait for their turn are not made.
  void hold_back(const std::vector<Operation>& children) {
    if (state() != LayoutChangeState::Moving) return;
    auto job = query<Job>(store(), [&](const store::Reader& r) { return r.job(id()); });
    if (job && job->state == JobState::Running) return;
    for (const auto& child : children) {
      const bool waits = child.state == to_string(MigrationState::Planned);
      if (!child.finished() && waits) cancel_child(context_, child.id);
    }
  }

  // --- Costing

  void decide(const MovesMade& past) {
    if (operation().cancel_requested) return refuse(make_error(Code::Cancelled, "cancelled"));
    if (!past.plan) return ask_for_plan();
    const Operation& planned = *past.plan;
    if (planned.outcome != Outcome::Succeeded) {
      const bool cancelled = planned.outcome == Outcome::Cancelled;
      finish(to_string(LayoutChangeEvent::GiveUp), to_string(LayoutChangeState::Failed),
             cancelled ? Outcome::Cancelled : Outcome::Failed, planned.reason, planned.error_code);
      return;
    }
    const auto plan = layout_plan_from(planned.request);
    if (plan.moves.empty()) {
      finish(to_string(LayoutChangeEvent::Reached), to_string(LayoutChangeState::Done),
             Outcome::Succeeded, planned.reason);
      return;
    }
    if (!plan.worth && !wish_.force) {
      return refuse(make_error(Code::FailedPrecondition, planned.reason,
                               "let it run, or do it all the same with force"));
    }
    if (commit(to_string(LayoutChangeEvent::Move), to_string(LayoutChangeState::Moving),
               planned.reason)) {
      move(past);
    }
  }

  void ask_for_plan() {
    LayoutForecastRequest request{id(), wish_};
    auto child = start_child(context_, request, operation().id);
    if (child) return;
    // Somebody asked for a dry run of the same job: it ends soon.
    if (child.error().code == Code::Conflict) return come_back();
    refuse(child.error());
  }

  void refuse(const Error& error) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(LayoutChangeEvent::GiveUp), to_string(LayoutChangeState::Failed), outcome,
           error.text(), std::string(to_string(error.code)));
  }

  // --- Moving

  struct Scene {
    Job job;
    MovesPlan waves;
    std::vector<Vm> here;    // that still have to move
    std::size_t there = 0;   // that are where the plan wants them
    std::set<HostId> hosts;  // that the job's VMs are on
    std::string gone;        // a VM of the plan that is neither here nor there
  };

  Result<Scene> look(const store::Reader& reader, const OperationId& planned,
                     const policy::LayoutPlan& plan) const {
    Scene out;
    auto job = reader.job(id());
    if (!job) return job.error();
    out.job = *job;
    const auto wanted = [&](const Forecast& forecast) {
      return std::any_of(plan.moves.begin(), plan.moves.end(), [&](const auto& one) {
        return one.vm == forecast.vm && one.to == forecast.destination;
      });
    };
    auto waves = read_moves_plan(reader, planned, settings().move_caps, wanted);
    if (!waves) return waves.error();
    out.waves = std::move(*waves);
    for (const auto& name : job->vms) {
      auto vm = reader.vm(name);
      if (vm && vm->host) out.hosts.insert(*vm->host);
    }
    for (const auto& one : plan.moves) {
      auto vm = reader.vm(one.vm);
      if (vm && vm->host == one.to) {
        ++out.there;
      } else if (vm && vm->host == one.from) {
        out.here.push_back(*vm);
      } else if (out.gone.empty()) {
        out.gone = "VM '" + one.vm.value + "' is no longer on host '" + one.from.value + "'";
      }
    }
    return out;
  }

  void move(const MovesMade& past) {
    MARE_ASSERT(past.plan);
    const auto plan = layout_plan_from(past.plan->request);
    auto scene =
        query<Scene>(store(), [&](const store::Reader& r) { return look(r, past.plan->id, plan); });
    if (!scene) {
      if (scene.error().code == Code::NotFound) return refuse(scene.error());
      return again();
    }
    const std::size_t all = plan.moves.size();
    progress(static_cast<double>(scene->there) / static_cast<double>(all));
    save_progress();
    if (scene->there == all) return end(*scene, all, std::nullopt);
    if (operation().cancel_requested) {
      return end(*scene, all, make_error(Code::Cancelled, "cancelled"));
    }
    if (scene->job.state != JobState::Running) {
      return end(*scene, all,
                 make_error(Code::FailedPrecondition, "job '" + id().value + "' is " +
                                                          std::string(to_string(scene->job.state)) +
                                                          " by now"));
    }
    if (!scene->gone.empty()) {
      return end(*scene, all, make_error(Code::FailedPrecondition, scene->gone));
    }
    const auto left = moves_left(scene->here, scene->waves);
    if (left.empty()) {
      return end(*scene, all, make_error(Code::Internal, "its forecasts are gone"));
    }
    const auto begun = start_wave(context_, operation().id, left, past, Else::TriesAgain);
    if (begun.started > 0) return;
    if (begun.trouble) return end(*scene, all, *begun.trouble);
    come_back();
  }

  void come_back() {
    after(std::chrono::seconds{1}, [this] { advance(); });
  }

  void end(const Scene& scene, std::size_t all, const std::optional<Error>& trouble) {
    const std::string hosts = policy::counted(scene.hosts.size(), "host");
    const std::string now = "the job's VMs are on " + hosts;
    if (!trouble) {
      finish(to_string(LayoutChangeEvent::Reached), to_string(LayoutChangeState::Done),
             Outcome::Succeeded, policy::counted(all, "move") + " made; " + now);
      return;
    }
    const bool some = scene.there > 0;
    const auto event = some ? LayoutChangeEvent::PartlyReached : LayoutChangeEvent::GiveUp;
    const auto to = some ? LayoutChangeState::Partial : LayoutChangeState::Failed;
    const auto outcome = trouble->code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(event), to_string(to), outcome,
           trouble->text() + "; " + std::to_string(scene.there) + " of " +
               policy::counted(all, "move") + " made, " + now,
           std::string(to_string(trouble->code)));
  }

  const LayoutWish wish_;
};

}  // namespace

std::shared_ptr<Task> make_layout_change(Context& context, const Operation& operation) {
  return std::make_shared<LayoutChange>(context, operation);
}

}  // namespace mare::engine
