// plan.layout: which VMs of a running job had better be elsewhere, what moving them would cost, and
// whether that is worth it. Children forecast the moves; nothing moves.
//
// It is planned anew from the rows whenever a child has ended, with the costs that are known by
// then: so what changes meanwhile (a host that fails, a VM that is taken) changes the plan, and a
// restart needs no more than the children that there are.
#include <algorithm>

#include "orchestrator/engine/cluster_rows.h"
#include "orchestrator/engine/layout_plan.h"
#include "orchestrator/engine/move_costs.h"
#include "orchestrator/engine/planning.h"

namespace mare::engine {
namespace {

constexpr std::size_t kEarlierJobs = 1000;  // among which earlier runs are looked for
// Of a job's VMs. With more the cluster does not hold still long enough.
constexpr std::size_t kForecastsForEach = 4;

class PlanLayout final : public Planning {
 public:
  PlanLayout(Context& context, const Operation& operation)
      : Planning(context, operation), wish_(layout_wish_from(operation.request)) {}

 private:
  JobId id() const { return JobId{operation().target}; }

  struct Scene {
    Job job;
    policy::Cluster cluster;
    policy::Remaining remaining;
    MoveCosts known;
  };

  void plan_on(Asked asked) override {
    auto scene = query<Scene>(
        store(), [&](const store::Reader& reader) { return look(reader, asked.children); });
    if (!scene) {
      if (scene.error().code == Code::NotFound) return give_up(scene.error());
      return again();
    }
    if (scene->job.state != JobState::Running) {
      if (asked.running > 0) return;  // their ends bring us back
      return give_up(
          make_error(Code::FailedPrecondition,
                     "job '" + id().value + "' is " + std::string(to_string(scene->job.state))));
    }
    auto plan = policy::lay_out(scene->cluster, {}, request(*scene));
    if (!plan) {
      if (asked.running > 0) return;
      return give_up(with_stay(plan.error(), scene->known));
    }
    const auto missing = missing_in(*plan, scene->known);
    if (!missing.empty()) return ask_more(missing, asked, scene->cluster);
    if (asked.running > 0) return;
    sum_up(*scene, std::move(*plan));
  }

  policy::LayoutRequest request(const Scene& scene) const {
    return {id(), wish_.layout, wish_.hosts, scene.remaining.seconds, {}};
  }

  // --- looking

  Result<Scene> look(const store::Reader& reader, const std::vector<Operation>& children) const {
    Scene out;
    auto job = reader.job(id());
    if (!job) return job.error();
    out.job = *job;
    auto cluster = read_cluster(reader);
    if (!cluster) return cluster.error();
    out.cluster = std::move(*cluster);
    auto remaining = remaining_of(reader, *job);
    if (!remaining) return remaining.error();
    out.remaining = std::move(*remaining);
    auto known = read_move_costs(reader, children);
    if (!known) return known.error();
    out.known = std::move(*known);
    apply(out.known, out.cluster);
    return out;
  }

  Result<policy::Remaining> remaining_of(const store::Reader& reader, const Job& job) const {
    if (wish_.remaining) return policy::Remaining{wish_.remaining->count(), "as stated"};
    auto jobs = reader.jobs(kEarlierJobs);
    if (!jobs) return jobs.error();
    std::vector<double> earlier;
    for (const auto& one : *jobs) {
      const bool same = one.state == JobState::Succeeded && one.pool == job.pool &&
                        one.ranks == job.ranks && one.command == job.command &&
                        one.environment == job.environment;
      if (same) earlier.push_back(Seconds{one.ended - one.started}.count());
    }
    return policy::remaining_of(Seconds{clock().wall_now() - job.started}.count(),
                                std::move(earlier));
  }

  // --- asking

  /// Moves without a forecast; a VM that is being asked about is asked again when that has ended.
  static std::vector<MoveRoute> missing_in(const policy::LayoutPlan& plan, const MoveCosts& known) {
    std::vector<MoveRoute> out;
    for (const auto& move : plan.moves) {
      const MoveRoute route{move.vm, move.to};
      if (!known.costs.contains(route) && !known.pending.contains(move.vm)) out.push_back(route);
    }
    return out;
  }

  void ask_more(const std::vector<MoveRoute>& missing, const Asked& asked,
                const policy::Cluster& cluster) {
    const auto vms = static_cast<std::size_t>(
        std::count_if(cluster.vms.begin(), cluster.vms.end(),
                      [&](const policy::ClusterVm& vm) { return vm.job == id(); }));
    if (asked.children.size() >= kForecastsForEach * std::max<std::size_t>(1, vms)) {
      if (asked.running > 0) return;
      return give_up(make_error(Code::FailedPrecondition,
                                "hosts and VMs change faster than moves can be forecast",
                                "ask again when the cluster is quiet"));
    }
    std::size_t running = asked.running;
    bool busy = false;
    for (const auto& [vm, host] : missing) {
      if (running >= kAtOnce) return;
      ForecastRequest forecast;
      forecast.vm = vm;
      forecast.destination = host;
      auto child = start_child(context_, forecast, operation().id);
      if (!child && child.error().code != Code::Conflict) {
        if (asked.running > 0 || running > 0) return;
        return give_up(child.error().during("VM '" + vm.value + "'"));
      }
      busy |= !child;
      running += child ? 1 : 0;
    }
    // Somebody else's operation holds the VM: then it is locked, or free, at the next look.
    if (busy && running == 0) after(std::chrono::seconds{1}, [this] { advance(); });
  }

  // --- the end

  void sum_up(const Scene& scene, policy::LayoutPlan plan) {
    std::vector<policy::WantedMove> moves;
    for (auto& move : plan.moves) {
      const auto& said = scene.known.costs.at(MoveRoute{move.vm, move.to});
      move.cost = {said.added_job_time_s.value, said.sent_bytes.value};
      moves.push_back({move.vm, move.from, move.to, id(), said});
    }
    // Moves at once stall the job at once, and share their hosts' links.
    const auto waves = policy::plan_moves(moves, settings().move_caps);
    policy::weigh(plan, request(scene), waves.added_job_time_s.value);
    LayoutFound found{std::move(plan), scene.remaining, {}};
    for (const auto& [vm, why] : scene.known.stay) found.stay.emplace_back(vm, why);
    set_request(text_of(wish_, found));
    made(in_words(found));
  }

  /// What does not fit may be due to VMs that had better stay.
  static Error with_stay(Error error, const MoveCosts& known) {
    for (const auto& [vm, why] : known.stay) {
      error.message += "; VM '" + vm.value + "' is not to be moved: " + why;
      break;
    }
    return error;
  }

  const LayoutWish wish_;
};

}  // namespace

std::shared_ptr<Task> make_plan_layout(Context& context, const Operation& operation) {
  return std::make_shared<PlanLayout>(context, operation);
}

}  // namespace mare::engine
