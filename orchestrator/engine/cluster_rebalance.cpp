// cluster.rebalance: running VMs move to where the cluster is better for it. A plan.rebalance, its
// first child, says which and what they cost; then they move in waves, in the order of the plan,
// for each of its moves is an improvement only after those before it. Before each wave it is asked
// again whether its moves still are: hosts come and go meanwhile. What can't be done ends the
// round; the next one begins with what there is then.
#include <algorithm>

#include "orchestrator/engine/move_waves.h"
#include "orchestrator/engine/rebalance_plan.h"
#include "orchestrator/policy/plan_words.h"

namespace mare::engine {
namespace {

class ClusterRebalance final : public Task {
 public:
  ClusterRebalance(Context& context, const Operation& operation)
      : Task(context, operation), wish_(rebalance_wish_from(operation.request)) {}

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
  LayoutChangeState state() const {
    LayoutChangeState parsed{};
    MARE_ASSERT(state_from(operation().state, parsed));
    return parsed;
  }

  void advance() {
    auto children = children_of(context_, operation().id);
    if (!children) return again();
    const auto past = moves_made(context_, *children, operation().cancel_requested);
    if (!past) return;  // their ends bring us back
    if (state() == LayoutChangeState::Costing) return decide(*past);
    if (state() == LayoutChangeState::Moving) return move(*past);
  }

  // --- Costing

  void decide(const MovesMade& past) {
    if (operation().cancel_requested) return refuse(make_error(Code::Cancelled, "cancelled"), 0);
    if (!past.plan) return ask_for_plan();
    const Operation& planned = *past.plan;
    const std::size_t refused = refused_in(planned.request);
    if (planned.outcome != Outcome::Succeeded) {
      const bool cancelled = planned.outcome == Outcome::Cancelled;
      finish(to_string(LayoutChangeEvent::GiveUp), to_string(LayoutChangeState::Failed),
             cancelled ? Outcome::Cancelled : Outcome::Failed, planned.reason, planned.error_code,
             round_is_over(0, 0, planned.reason));
      return;
    }
    if (proposal_from(planned.request).moves.empty()) {
      if (refused > 0) return refuse(make_error(Code::FailedPrecondition, planned.reason), refused);
      finish(to_string(LayoutChangeEvent::Reached), to_string(LayoutChangeState::Done),
             Outcome::Succeeded, planned.reason, {}, round_is_over(0, 0, planned.reason));
      return;
    }
    if (commit(to_string(LayoutChangeEvent::Move), to_string(LayoutChangeState::Moving),
               planned.reason)) {
      move(past);
    }
  }

  void ask_for_plan() {
    auto child = start_child(context_, RebalanceForecastRequest{wish_}, operation().id);
    if (child) return;
    // Somebody asked for a dry run: it ends soon.
    if (child.error().code == Code::Conflict) return come_back();
    refuse(child.error(), 0);
  }

  void refuse(const Error& error, std::size_t refused) {
    const auto outcome = error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    finish(to_string(LayoutChangeEvent::GiveUp), to_string(LayoutChangeState::Failed), outcome,
           error.text(), std::string(to_string(error.code)),
           round_is_over(0, refused, error.text()));
  }

  // --- Moving

  struct Scene {
    std::vector<NextMove> wave;                // what is left of the first one that has some
    std::vector<policy::Relocation> to_check;  // the same
    std::size_t there = 0;                     // VMs that are where the plan wants them
    std::string trouble;
    policy::Cluster cluster;
  };

  Result<Scene> look(const store::Reader& reader, const RebalanceProposal& plan) const {
    Scene out;
    auto busy = who_moves_vms(reader);
    if (!busy) return busy.error();
    out.trouble = std::move(*busy);
    std::vector<policy::Route> routes;
    std::map<std::size_t, Vm> left;
    for (std::size_t i = 0; i < plan.moves.size(); ++i) {
      const auto& one = plan.moves[i];
      routes.emplace_back(one.from, one.to);
      auto vm = reader.vm(one.vm);
      if (!vm && vm.error().code != Code::NotFound) return vm.error();
      if (vm && vm->host == one.to) {
        ++out.there;
      } else if (vm && vm->host == one.from) {
        left.emplace(i, *vm);
      } else if (out.trouble.empty()) {
        out.trouble = "VM '" + one.vm.value + "' is no longer on host '" + one.from.value + "'";
      }
    }
    for (const auto& wave : policy::waves_in_order(routes, settings().move_caps)) {
      for (const std::size_t i : wave) {
        const auto vm = left.find(i);
        if (vm == left.end()) continue;
        const auto& one = plan.moves[i];
        out.wave.push_back({vm->second, one.to});
        policy::Relocation check;
        check.vm = one.vm;
        check.from = one.from;
        check.to = one.to;
        out.to_check.push_back(std::move(check));
      }
      if (!out.wave.empty()) break;
    }
    auto cluster = read_rebalance_cluster(reader, wish_, clock().wall_now());
    if (!cluster) return cluster.error();
    out.cluster = std::move(*cluster);
    return out;
  }

  void move(const MovesMade& past) {
    MARE_ASSERT(past.plan);
    const auto plan = proposal_from(past.plan->request);
    auto scene = query<Scene>(store(), [&](const store::Reader& r) { return look(r, plan); });
    if (!scene) return again();
    const std::size_t all = plan.moves.size();
    const std::size_t refused = refused_in(past.plan->request);
    progress(static_cast<double>(scene->there) / static_cast<double>(all));
    save_progress();
    const Made made{scene->there, all, refused};
    if (scene->there == all) return end(made, std::nullopt);
    if (operation().cancel_requested) return end(made, make_error(Code::Cancelled, "cancelled"));
    if (!scene->trouble.empty()) {
      return end(made, make_error(Code::FailedPrecondition, scene->trouble));
    }
    const int turn = ++turn_;
    call<std::string>(
        "rebalance",
        [cluster = std::move(scene->cluster), policy = policy_of(wish_), moves = scene->to_check] {
          return policy::check_moves(cluster, policy, moves);
        },
        [this, turn, made, past, wave = scene->wave](std::string why_not) {
          if (turn != turn_ || operation().cancel_requested) return;
          if (!why_not.empty()) return end(made, make_error(Code::FailedPrecondition, why_not));
          start(made, past, wave);
        });
  }

  struct Made {
    std::size_t there = 0;
    std::size_t all = 0;
    std::size_t refused = 0;
  };

  void start(const Made& made, const MovesMade& past, const std::vector<NextMove>& wave) {
    const auto begun = start_wave(context_, operation().id, wave, past, Else::TriesAgain);
    if (begun.started > 0) return;
    if (begun.trouble) return end(made, *begun.trouble);
    come_back();
  }

  void come_back() {
    after(std::chrono::seconds{1}, [this] { advance(); });
  }

  void end(const Made& made, const std::optional<Error>& trouble) {
    if (!trouble) {
      const std::string words = policy::counted(made.all, "move") + " made";
      finish(to_string(LayoutChangeEvent::Reached), to_string(LayoutChangeState::Done),
             Outcome::Succeeded, words, {}, round_is_over(made.there, made.refused, words));
      return;
    }
    const bool some = made.there > 0;
    const auto event = some ? LayoutChangeEvent::PartlyReached : LayoutChangeEvent::GiveUp;
    const auto to = some ? LayoutChangeState::Partial : LayoutChangeState::Failed;
    const auto outcome = trouble->code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
    const std::string words = trouble->text() + "; " + std::to_string(made.there) + " of " +
                              policy::counted(made.all, "move") + " made";
    finish(to_string(event), to_string(to), outcome, words, std::string(to_string(trouble->code)),
           round_is_over(made.there, made.refused, words));
  }

  /// In the same transaction as its end: the cooldown begins.
  Also round_is_over(std::size_t moved, std::size_t refused, const std::string& words) {
    return [this, moved, refused, words](store::Transaction& tx) -> Status {
      auto row = tx.rebalancing();
      if (!row) return row.error();
      row->ended = clock().wall_now();
      row->reason = operation().id.value + ": " + words;
      row->rounds += 1;
      row->moves += moved;
      row->refusals += refused;
      if (moved > 0) row->proposal.reset();  // it was of another placement
      return tx.put(*row);
    };
  }

  const RebalanceWish wish_;
  int turn_ = 0;
};

}  // namespace

std::shared_ptr<Task> make_cluster_rebalance(Context& context, const Operation& operation) {
  return std::make_shared<ClusterRebalance>(context, operation);
}

}  // namespace mare::engine
