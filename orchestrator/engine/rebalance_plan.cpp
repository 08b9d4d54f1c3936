#include "orchestrator/engine/rebalance_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/engine/cluster_rows.h"
#include "orchestrator/policy/plan_words.h"

namespace mare::engine {
namespace {
using nlohmann::json;

constexpr std::size_t kVmsTold = 3;

json wish_json(const RebalanceWish& wish) {
  json pools = json::object();
  for (const auto& [pool, mode] : wish.pools) pools[pool.value] = to_string(mode);
  json out{{"scope", wish.by_rule_only ? "partial" : "automatic"},
           {"margin", wish.margin},
           {"max_moves", wish.max_moves},
           {"rest_s", wish.rest.count()},
           {"pools", std::move(pools)}};
  if (!wish.cause.empty()) out["cause"] = wish.cause;
  return out;
}

json kept_json(const std::vector<std::pair<VmId, std::string>>& kept) {
  json out = json::array();
  for (const auto& [vm, why] : kept) out.push_back({{"vm", vm.value}, {"reason", why}});
  return out;
}

json found_json(const RebalanceFound& found) {
  const policy::RebalancePlan& plan = found.plan;
  json moves = json::array();
  for (const auto& move : plan.moves) {
    moves.push_back({{"vm", move.vm.value},
                     {"from", move.from.value},
                     {"to", move.to.value},
                     {"added_job_time_s", move.cost.added_job_time_s},
                     {"bytes", move.cost.bytes},
                     {"reason", move.reason}});
  }
  return {{"score_before", plan.score_before},   {"score_after", plan.score_after},
          {"broken_before", plan.broken_before}, {"broken_after", plan.broken_after},
          {"moves", std::move(moves)},           {"refused", kept_json(found.refused)},
          {"stay", kept_json(found.stay)},       {"reason", plan.reason}};
}

std::string rebalance_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json rebalance_plan_in(const std::string& text) {
  const json from = json::parse(text, nullptr, false);
  return from.is_object() && from.contains("plan") ? from["plan"] : json::object();
}

std::string kept_words(const std::vector<std::pair<VmId, std::string>>& kept, const char* what) {
  std::string out;
  for (std::size_t i = 0; i < kept.size() && i < kVmsTold; ++i) {
    out += "; VM '" + kept[i].first.value + "' " + what + kept[i].second;
  }
  if (kept.size() > kVmsTold) out += "; and " + std::to_string(kept.size() - kVmsTold) + " more";
  return out;
}

/// VMs that have come to their hosts less than `rest` ago.
Result<std::set<VmId>> moved_lately(const store::Reader& reader, Seconds rest, WallTime now) {
  const WallTime since = now - std::chrono::duration_cast<WallTime>(rest);
  // 0 is of moves that never switched.
  auto moved = reader.moved_after(std::max(since, WallTime{0}));
  if (!moved) return moved.error();
  return std::set<VmId>(moved->begin(), moved->end());
}

}  // namespace

RebalanceWish wish_of(const RebalanceSetting& setting) {
  RebalanceWish out;
  out.by_rule_only = setting.mode == RebalanceMode::Partial;
  out.margin = setting.margin;
  out.max_moves = setting.max_moves;
  out.rest = setting.rest;
  out.pools = setting.pools;
  return out;
}

policy::PlanPolicy policy_of(const RebalanceWish& wish) {
  policy::PlanPolicy out;
  out.threshold = 0;  // that was the loop's question
  out.margin = wish.margin;
  out.max_moves = wish.max_moves;
  out.exchanges = false;  // half of one makes it worse
  return out;
}

std::string text_of(const RebalanceWish& wish) {
  return rebalance_text(wish_json(wish));
}

std::string text_of(const RebalanceWish& wish, const RebalanceFound& found) {
  json out = wish_json(wish);
  out["plan"] = found_json(found);
  return rebalance_text(out);
}

RebalanceWish rebalance_wish_from(const std::string& text) {
  RebalanceWish out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  out.by_rule_only = from.value("scope", std::string()) == "partial";
  out.margin = from.value("margin", out.margin);
  out.max_moves = from.value("max_moves", out.max_moves);
  out.rest = Seconds{from.value("rest_s", out.rest.count())};
  const json pools = from.value("pools", json::object());
  for (const auto& [pool, mode] : pools.items()) {
    const auto parsed = mode.is_string() ? rebalance_mode_from(mode.get<std::string>())
                                         : std::optional<RebalanceMode>{};
    if (parsed) out.pools[PoolId{pool}] = *parsed;
  }
  out.cause = from.value("cause", std::string());
  return out;
}

RebalanceProposal proposal_from(const std::string& text) {
  RebalanceProposal out;
  const json plan = rebalance_plan_in(text);
  out.score_before = plan.value("score_before", 0.0);
  out.score_after = plan.value("score_after", 0.0);
  out.broken_before = plan.value("broken_before", 0);
  out.broken_after = plan.value("broken_after", 0);
  out.reason = plan.value("reason", std::string());
  for (const auto& one : plan.value("moves", json::array())) {
    out.moves.push_back({VmId{one.value("vm", std::string())},
                         HostId{one.value("from", std::string())},
                         HostId{one.value("to", std::string())}, one.value("added_job_time_s", 0.0),
                         one.value("bytes", 0.0), one.value("reason", std::string())});
  }
  return out;
}

std::size_t refused_in(const std::string& text) {
  return rebalance_plan_in(text).value("refused", json::array()).size();
}

RebalanceProposal proposal_of(const policy::RebalancePlan& plan) {
  RebalanceProposal out;
  out.score_before = plan.score_before;
  out.score_after = plan.score_after;
  out.broken_before = plan.broken_before;
  out.broken_after = plan.broken_after;
  out.reason = plan.reason;
  for (const auto& move : plan.moves) {
    out.moves.push_back(
        {move.vm, move.from, move.to, move.cost.added_job_time_s, move.cost.bytes, move.reason});
  }
  return out;
}

std::string in_words(const RebalanceFound& found) {
  return found.plan.reason + kept_words(found.refused, "stays: ") +
         kept_words(found.stay, "is not to be moved: ");
}

Result<policy::Cluster> read_rebalance_cluster(const store::Reader& reader,
                                               const RebalanceWish& wish, WallTime now) {
  auto cluster = read_cluster(reader);
  if (!cluster) return cluster.error();
  auto lately = moved_lately(reader, wish.rest, now);
  if (!lately) return lately.error();
  auto vms = reader.vms();
  if (!vms) return vms.error();
  std::map<VmId, RebalanceMode> modes;
  for (const auto& vm : *vms) {
    const auto held = wish.pools.find(vm.pool);
    if (held != wish.pools.end()) modes[vm.id] = held->second;
  }
  for (auto& vm : cluster->vms) {
    const auto found = modes.find(vm.id);
    const auto mode = found == modes.end() ? RebalanceMode::Automatic : found->second;
    vm.locked |= mode == RebalanceMode::Manual || lately->contains(vm.id);
    vm.by_rule_only = wish.by_rule_only || mode == RebalanceMode::Partial;
  }
  return cluster;
}

Result<std::string> who_moves_vms(const store::Reader& reader) {
  store::OperationFilter filter;
  filter.unfinished_only = true;
  filter.limit = 1'000'000;
  auto all = reader.operations(filter);
  if (!all) return all.error();
  for (const auto& one : *all) {
    const std::string by = " (" + one.id.value + ")";
    switch (one.kind) {
      case OperationKind::HostDrain:
        return "host '" + one.target + "' is being drained" + by;
      case OperationKind::HostEvacuate:
        return "host '" + one.target + "' is being evacuated" + by;
      case OperationKind::LayoutChange:
        return "the VMs of job '" + one.target + "' are being spread or packed" + by;
      case OperationKind::CheckpointRestore:
      case OperationKind::RecoveryRun:
        return "job '" + one.target + "' is being brought back" + by;
      default:
        break;
    }
  }
  return std::string();
}

Status put_proposal(store::Transaction& tx, const Clock& clock, Rebalancing& row,
                    RebalanceProposal proposal) {
  const auto same = [](const ProposedMove& a, const ProposedMove& b) {
    return a.vm == b.vm && a.from == b.from && a.to == b.to;
  };
  const bool known =
      row.proposal && std::equal(proposal.moves.begin(), proposal.moves.end(),
                                 row.proposal->moves.begin(), row.proposal->moves.end(), same);
  // One whose cost is known is worth more than the same without.
  if (known && !proposal.operation) return ok_status();
  proposal.made = clock.wall_now();
  json moves = json::array();
  for (const auto& move : proposal.moves) {
    moves.push_back({{"vm", move.vm.value}, {"from", move.from.value}, {"to", move.to.value}});
  }
  const json data{{"reason", proposal.reason}, {"moves", std::move(moves)}};
  row.proposal = std::move(proposal);
  if (known || row.proposal->moves.empty()) return ok_status();
  return emit(tx, clock, "cluster", kTheCluster, "rebalance.proposed", rebalance_text(data));
}

}  // namespace mare::engine
