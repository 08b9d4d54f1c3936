#include "orchestrator/engine/rebalancing.h"

#include <cmath>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/policy/rebalance_loop.h"

namespace mare::engine {
namespace {

constexpr const char* kRebalanceLane = "rebalance";
constexpr auto kPlanPause = std::chrono::seconds{60};
// A row as old as that was left by a process that ended long ago.
constexpr auto kGap = std::chrono::minutes{5};
constexpr auto kRefresh = std::chrono::minutes{1};
constexpr double kMostScore = 1000;
constexpr int kMostMoves = 1024;

/// To what can be seen: a score that trembles is not written again and again.
double score_to_see(double score) {
  return std::round(score * 1e4) / 1e4;
}

bool nothing_new(const Rebalancing& a, const Rebalancing& b) {
  return a.score == b.score && a.broken == b.broken && a.above_since == b.above_since &&
         a.reason == b.reason && a.operation == b.operation &&
         a.proposal.has_value() == b.proposal.has_value() &&
         (!a.proposal || a.proposal->made == b.proposal->made);
}

Status time_within(const char* field, Seconds value) {
  if (value.count() >= 0 && value.count() <= kMostTime_s) return ok_status();
  return field_error(field, "so long a time can't be kept", "give 0 to 86400 s");
}

}  // namespace

void RebalanceLoop::beat() {
  if (context_.settings.rebalance_period.count() <= 0) return;
  look();
  context_.after(context_.settings.rebalance_period, [this] { beat(); });
}

void RebalanceLoop::look_soon() {
  next_plan_ = MonotonicTime{0};
  if (context_.settings.rebalance_period.count() > 0) look();
}

Result<RebalanceLoop::Scene> RebalanceLoop::read() const {
  return query<Scene>(context_.ports.store, [&](const store::Reader& reader) -> Result<Scene> {
    Scene out;
    auto row = reader.rebalancing();
    if (!row) return row.error();
    out.row = std::move(*row);
    auto cluster =
        read_rebalance_cluster(reader, wish_of(out.row.setting), context_.ports.clock.wall_now());
    if (!cluster) return cluster.error();
    out.cluster = std::move(*cluster);
    auto busy = who_moves_vms(reader);
    if (!busy) return busy.error();
    out.busy = std::move(*busy);
    auto own = reader.unfinished("cluster", kTheCluster);
    if (!own) return own.error();
    if (*own) out.busy = (*own)->id.value + " goes on";
    return out;
  });
}

void RebalanceLoop::look() {
  if (asking_) return;
  auto scene = read();
  if (!scene) return;  // the next look may read
  asking_ = true;
  context_.ports.executor.run(kRebalanceLane,
                              [this, inbox = context_.inbox, cluster = std::move(scene->cluster)] {
                                const auto health = policy::cluster_health(cluster, {});
                                inbox->post([this, health] {
                                  asking_ = false;
                                  judge(health);
                                });
                              });
}

void RebalanceLoop::judge(policy::ClusterHealth health) {
  auto scene = read();
  if (!scene) return;
  const WallTime now = context_.ports.clock.wall_now();
  const bool stale = first_ && now - scene->row.looked > kGap;
  first_ = false;
  const auto since = stale ? std::optional<WallTime>{} : scene->row.above_since;
  const auto due = policy::rebalance_due(scene->row.setting, since, scene->row.ended,
                                         {now, health.score, health.broken});
  const bool waits = due.plan && context_.ports.clock.now() < next_plan_;
  const bool plans = due.plan && scene->busy.empty() && !waits;
  keep([&](store::Transaction&, Rebalancing& row) {
    row.score = score_to_see(health.score);
    row.broken = health.broken;
    row.above_since = due.above_since;
    // What was proposed unasked has its day when the placement is good again.
    if (!due.above_since && row.proposal && !row.proposal->operation) row.proposal.reset();
    if (!scene->busy.empty()) {
      row.reason = due.reason + "; " + scene->busy;
    } else if (!due.plan) {
      row.reason = due.reason;
    }  // else the plan has the word, or had it
    return ok_status();
  });
  if (plans) make_plan();
}

void RebalanceLoop::make_plan() {
  auto scene = read();
  if (!scene || asking_) return;
  asking_ = true;
  const auto policy = policy_of(wish_of(scene->row.setting));
  context_.ports.executor.run(
      kRebalanceLane, [this, inbox = context_.inbox, policy, cluster = std::move(scene->cluster)] {
        auto plan = policy::rebalance(cluster, policy);
        inbox->post([this, plan = std::move(plan)] {
          asking_ = false;
          follow(plan);
        });
      });
}

void RebalanceLoop::pause() {
  next_plan_ = context_.ports.clock.now() + kPlanPause;
}

void RebalanceLoop::follow(const policy::RebalancePlan& plan) {
  auto row = query<Rebalancing>(context_.ports.store,
                                [](const store::Reader& r) { return r.rebalancing(); });
  if (!row) return;
  if (!plan.moves.empty() && row->setting.mode != RebalanceMode::Manual) return start(plan);
  pause();
  keep([&](store::Transaction& tx, Rebalancing& now) -> Status {
    now.reason = plan.moves.empty() ? plan.reason : "proposes " + plan.reason;
    if (plan.moves.empty()) {
      now.proposal.reset();
      return ok_status();
    }
    return put_proposal(tx, context_.ports.clock, now, proposal_of(plan));
  });
}

void RebalanceLoop::start(const policy::RebalancePlan& moves) {
  Result<Operation> accepted = make_error(Code::Internal, "not planned");
  auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
    accepted = plan(tx, context_, RebalanceRequest{moves.reason});
    if (!accepted) return accepted.error();
    auto row = tx.rebalancing();
    if (!row) return row.error();
    row->reason = accepted->id.value + ": " + moves.reason;
    return tx.put(*row);
  });
  if (!done) {
    pause();
    keep([&](store::Transaction&, Rebalancing& row) {
      row.reason = "waits: " + done.error().text();
      return ok_status();
    });
    return;
  }
  context_.ports.log.info("rebalance", accepted->id.value + ": " + moves.reason);
  context_.changed();
  context_.adopt(*accepted, false);
}

void RebalanceLoop::keep(const std::function<Status(store::Transaction&, Rebalancing&)>& change) {
  bool written = false;
  auto done = context_.ports.store.write([&](store::Transaction& tx) -> Status {
    auto row = tx.rebalancing();
    if (!row) return row.error();
    const Rebalancing before = *row;
    if (auto changed = change(tx, *row); !changed) return changed;
    const WallTime now = context_.ports.clock.wall_now();
    // While it is above, the row also tells that this was seen.
    const bool fresh = !row->above_since || now - before.looked < kRefresh;
    if (nothing_new(before, *row) && fresh) return ok_status();
    row->looked = now;
    written = true;
    return tx.put(*row);
  });
  if (!done) {
    context_.ports.log.error("rebalance", done.error().text());
  } else if (written) {
    context_.changed();
  }
}

Status check(const RebalanceSetting& setting) {
  if (!(setting.threshold >= 0 && setting.threshold <= kMostScore)) {
    return field_error("threshold", "this is no score", "give 0 to 1000");
  }
  if (!(setting.margin >= 0 && setting.margin < 1)) {
    return field_error("margin", "this is no share of the score", "give 0 to less than 1");
  }
  if (setting.max_moves < 0 || setting.max_moves > kMostMoves) {
    return field_error("max_moves", "so many moves can't be made in a round",
                       "give 0 (any) to " + std::to_string(kMostMoves));
  }
  if (auto good = time_within("hold_s", setting.hold); !good) return good;
  if (auto good = time_within("cooldown_s", setting.cooldown); !good) return good;
  return time_within("rest_s", setting.rest);
}

}  // namespace mare::engine
