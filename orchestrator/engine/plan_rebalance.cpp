// plan.rebalance: which VMs had better be elsewhere, and what moving them would cost. Children
// forecast the moves; nothing moves. As in a plan.layout it is planned anew, with what is known by
// then, whenever a child has ended; the arithmetic runs on the executor.
#include <algorithm>

#include "orchestrator/engine/move_costs.h"
#include "orchestrator/engine/planning.h"
#include "orchestrator/engine/rebalance_plan.h"
#include "orchestrator/policy/plan_words.h"

namespace mare::engine {
namespace {

// For each move of a round. With more the cluster does not hold still long enough.
constexpr std::size_t kForecastsForEachMove = 4;
constexpr std::size_t kLeastForecasts = 16;

Result<Operation> accept(store::Transaction& tx, Context& context, OperationKind kind,
                         RebalanceWish wish, const std::optional<OperationId>& parent) {
  const std::string noun = kind == OperationKind::PlanRebalance ? "plan" : "cluster";
  auto holder = tx.unfinished(noun, kTheCluster);
  if (!holder) return holder.error();
  if (*holder) {
    return make_error(Code::Conflict, (*holder)->id.value + " is at it already",
                      "wait for it, or cancel it");
  }
  auto busy = who_moves_vms(tx);
  if (!busy) return busy.error();
  if (!busy->empty()) {
    return make_error(Code::FailedPrecondition, *busy, "ask again when that is over");
  }
  Operation draft;
  draft.kind = kind;
  draft.target = kTheCluster;
  draft.parent = parent;
  draft.request = text_of(wish);
  return insert_operation(tx, context.ports.clock, draft);
}

class PlanRebalance final : public Planning {
 public:
  PlanRebalance(Context& context, const Operation& operation)
      : Planning(context, operation), wish_(rebalance_wish_from(operation.request)) {}

 private:
  struct Scene {
    policy::Cluster cluster;
    MoveCosts known;
    std::string busy;
  };
  struct Plans {
    policy::RebalancePlan plan;
    policy::RebalancePlan free;  // if moving cost nothing
  };

  void plan_on(Asked asked) override {
    auto scene = query<Scene>(store(), [&](const store::Reader& r) { return look(r, asked); });
    if (!scene) return again();
    if (!scene->busy.empty()) {
      if (asked.running > 0) return;  // their ends bring us back
      return give_up(make_error(Code::FailedPrecondition, scene->busy));
    }
    const int turn = ++turn_;
    call<Plans>(
        "rebalance",
        [cluster = scene->cluster, policy = policy_of(wish_)] {
          Plans out{policy::rebalance(cluster, policy), {}};
          policy::Cluster free = cluster;
          for (auto& vm : free.vms) vm.cost = {};
          out.free = policy::rebalance(free, policy);
          return out;
        },
        [this, turn, asked = std::move(asked), scene = *scene](Plans plans) {
          // A child has ended meanwhile: what it said is in a newer question.
          if (turn != turn_ || operation().cancel_requested) return;
          follow(scene, asked, std::move(plans));
        });
  }

  Result<Scene> look(const store::Reader& reader, const Asked& asked) const {
    Scene out;
    auto busy = who_moves_vms(reader);
    if (!busy) return busy.error();
    out.busy = std::move(*busy);
    auto cluster = read_rebalance_cluster(reader, wish_, clock().wall_now());
    if (!cluster) return cluster.error();
    out.cluster = std::move(*cluster);
    auto known = read_move_costs(reader, asked.children);
    if (!known) return known.error();
    out.known = std::move(*known);
    apply(out.known, out.cluster);
    if (!asked_enough(asked)) return out;
    for (auto& vm : out.cluster.vms) vm.locked |= !cost_of(out.known, vm.id);
    return out;
  }

  bool asked_enough(const Asked& asked) const {
    const std::size_t moves = wish_.max_moves > 0 ? static_cast<std::size_t>(wish_.max_moves) : 256;
    return asked.children.size() >= std::max(kLeastForecasts, kForecastsForEachMove * moves);
  }

  /// Of any of its moves.
  static const StrategyForecast* cost_of(const MoveCosts& known, const VmId& vm) {
    const auto found = std::find_if(known.costs.begin(), known.costs.end(),
                                    [&](const auto& one) { return one.first.first == vm; });
    return found == known.costs.end() ? nullptr : &found->second;
  }

  void follow(const Scene& scene, const Asked& asked, Plans plans) {
    std::vector<MoveRoute> missing;
    for (const auto& move : plans.plan.moves) {
      const MoveRoute route{move.vm, move.to};
      const bool told = scene.known.costs.contains(route) || scene.known.pending.contains(move.vm);
      if (!told && !asked_enough(asked)) missing.push_back(route);
    }
    if (!missing.empty()) return ask_more(missing, asked);
    if (asked.running > 0) return;
    sum_up(scene, std::move(plans));
  }

  void ask_more(const std::vector<MoveRoute>& missing, const Asked& asked) {
    std::size_t running = asked.running;
    bool busy = false;
    for (const auto& [vm, host] : missing) {
      if (running >= kAtOnce) return;
      ForecastRequest forecast;
      forecast.vm = vm;
      forecast.destination = host;
      auto child = start_child(context_, forecast, operation().id);
      if (!child && child.error().code != Code::Conflict) {
        if (running > 0) return;
        return give_up(child.error().during("VM '" + vm.value + "'"));
      }
      busy |= !child;
      running += child ? 1 : 0;
    }
    // Somebody else's operation holds the VM: then it is locked, or free, at the next look.
    if (busy && running == 0) after(std::chrono::seconds{1}, [this] { advance(); });
  }

  void sum_up(const Scene& scene, Plans plans) {
    RebalanceFound found{std::move(plans.plan), {}, {}};
    for (auto& move : found.plan.moves) {
      const auto exact = scene.known.costs.find(MoveRoute{move.vm, move.to});
      if (exact == scene.known.costs.end()) continue;  // then by another move of it
      move.cost = {exact->second.added_job_time_s.value, exact->second.sent_bytes.value};
    }
    found.refused = refused(scene, plans.free, found.plan);
    for (const auto& [vm, why] : scene.known.stay) found.stay.emplace_back(vm, why);
    set_request(text_of(wish_, found));
    const std::string words = in_words(found);
    made(words, [this, &found, &words](store::Transaction& tx) -> Status {
      auto row = tx.rebalancing();
      if (!row) return row.error();
      RebalanceProposal proposal = proposal_of(found.plan);
      proposal.operation = operation().id;
      proposal.reason = words;
      if (auto put = put_proposal(tx, clock(), *row, std::move(proposal)); !put) return put;
      return tx.put(*row);
    });
  }

  /// Moves that would be made if they cost nothing, and are not: by the rule of policy::rebalance.
  std::vector<std::pair<VmId, std::string>> refused(const Scene& scene,
                                                    const policy::RebalancePlan& free,
                                                    const policy::RebalancePlan& made_of) const {
    std::vector<std::pair<VmId, std::string>> out;
    const policy::PlanPolicy policy = policy_of(wish_);
    const auto usable = std::count_if(scene.cluster.hosts.begin(), scene.cluster.hosts.end(),
                                      [](const auto& host) { return host.usable; });
    for (const auto& move : free.moves) {
      const bool goes = std::any_of(made_of.moves.begin(), made_of.moves.end(),
                                    [&](const auto& one) { return one.vm == move.vm; });
      const auto* said = cost_of(scene.known, move.vm);
      if (goes || said == nullptr) continue;
      const double share = move.gain * static_cast<double>(usable) - policy.min_gain;
      const double gain_s = std::max(0.0, share * policy.horizon_s);
      if (said->added_job_time_s.value < gain_s) continue;  // another move was better
      out.emplace_back(move.vm, "its move to '" + move.to.value + "' would cost " +
                                    policy::figure(said->added_job_time_s.value, 1) +
                                    " s of added job time, more than the " +
                                    policy::figure(gain_s, 1) +
                                    " s that the balance is worth over the next " +
                                    policy::figure(policy.horizon_s, 0) + " s");
    }
    return out;
  }

  const RebalanceWish wish_;
  int turn_ = 0;
};

Result<RebalanceWish> wish_now(const store::Reader& reader, const std::string& cause) {
  auto row = reader.rebalancing();
  if (!row) return row.error();
  RebalanceWish out = wish_of(row->setting);
  out.cause = cause;
  return out;
}

}  // namespace

Result<Operation> plan(store::Transaction& tx, Context& context,
                       const RebalanceForecastRequest& request,
                       const std::optional<OperationId>& parent) {
  if (request.wish) return accept(tx, context, OperationKind::PlanRebalance, *request.wish, parent);
  auto wish = wish_now(tx, "");
  if (!wish) return wish.error();
  return accept(tx, context, OperationKind::PlanRebalance, *wish, parent);
}

Result<Operation> plan(store::Transaction& tx, Context& context, const RebalanceRequest& request) {
  auto wish = wish_now(tx, request.cause);
  if (!wish) return wish.error();
  auto accepted = accept(tx, context, OperationKind::ClusterRebalance, *wish, {});
  if (!accepted) return accepted;
  auto row = tx.rebalancing();
  if (!row) return row.error();
  row->operation = accepted->id;
  if (auto done = tx.put(*row); !done) return done.error();
  return accepted;
}

std::shared_ptr<Task> make_plan_rebalance(Context& context, const Operation& operation) {
  return std::make_shared<PlanRebalance>(context, operation);
}

}  // namespace mare::engine
