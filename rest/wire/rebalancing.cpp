#include "rest/wire/rebalancing.h"

namespace mare::wire {
namespace {

constexpr double kMostRebalanceTime_s = 86'400;
constexpr double kMostScore = 1000;
constexpr double kMostMoves = 1024;
constexpr std::size_t kMostPools = 1000;
const char* const kModes = "manual, partial, automatic";

Json moves_json(const std::vector<ProposedMove>& moves, bool costs_known) {
  Json out = Json::array();
  for (const auto& move : moves) {
    out.push_back({{"vm", move.vm.value},
                   {"from", move.from.value},
                   {"to", move.to.value},
                   {"added_job_time_s", costs_known ? Json(move.added_job_time_s) : Json(nullptr)},
                   {"bytes", costs_known ? Json(move.bytes) : Json(nullptr)},
                   {"reason", move.reason}});
  }
  return out;
}

Json proposal_json(const RebalanceProposal& proposal) {
  const auto& operation = proposal.operation;
  return Json{{"made", time_json(proposal.made)},
              {"operation", operation ? Json(operation->value) : Json(nullptr)},
              {"score_before", proposal.score_before},
              {"score_after", proposal.score_after},
              {"broken_rules_before", proposal.broken_before},
              {"broken_rules_after", proposal.broken_after},
              {"moves", moves_json(proposal.moves, operation.has_value())},
              {"reason", proposal.reason}};
}

void read_pools(ObjectReader& from, RebalanceSetting& setting, Faults& faults) {
  const Json* given = from.object("pools", false);
  if (given == nullptr) return;
  if (given->size() > kMostPools) return from.fault("pools", "has more than 1000 pools");
  ObjectReader reader(*given, from.pointer_to("pools"), Strictness::Strict, faults);
  for (const auto& [pool, mode] : given->items()) {
    const auto parsed = reader.name_of<RebalanceMode>(pool, rebalance_mode_from, kModes);
    if (parsed) setting.pools[PoolId{pool}] = *parsed;
  }
  reader.finish();
}

}  // namespace

Json to_json(const RebalancingBody& body) {
  const RebalanceSetting& setting = body.setting;
  Json pools = Json::object();
  for (const auto& [pool, mode] : setting.pools) pools[pool.value] = to_string(mode);
  return Json{{"mode", to_string(setting.mode)},        {"threshold", setting.threshold},
              {"hold_s", setting.hold.count()},         {"margin", setting.margin},
              {"cooldown_s", setting.cooldown.count()}, {"max_moves", setting.max_moves},
              {"rest_s", setting.rest.count()},         {"pools", std::move(pools)}};
}

Json to_json(const Rebalancing& rebalancing) {
  Json out = to_json(RebalancingBody{rebalancing.setting});
  const bool seen = rebalancing.looked.count() > 0;
  out["looked"] = time_json(rebalancing.looked);
  out["score"] = seen ? Json(rebalancing.score) : Json(nullptr);
  out["broken_rules"] = seen ? Json(rebalancing.broken) : Json(nullptr);
  out["above_since"] = time_json(rebalancing.above_since.value_or(WallTime{0}));
  out["reason"] = rebalancing.reason.empty() ? Json(nullptr) : Json(rebalancing.reason);
  const auto& operation = rebalancing.operation;
  out["operation"] = operation ? Json(operation->value) : Json(nullptr);
  out["ended"] = time_json(rebalancing.ended.value_or(WallTime{0}));
  out["rounds"] = rebalancing.rounds;
  out["moves"] = rebalancing.moves;
  out["refusals"] = rebalancing.refusals;
  out["proposal"] = rebalancing.proposal ? proposal_json(*rebalancing.proposal) : Json(nullptr);
  return out;
}

void read(const Json& json, RebalancingBody& body, Faults& faults) {
  ObjectReader from(json, "", Strictness::Strict, faults);
  RebalanceSetting& setting = body.setting;
  const auto time = [&from](const char* member, Seconds& value) {
    if (auto seconds = from.number(member, false, {0, kMostRebalanceTime_s}))
      value = Seconds{*seconds};
  };
  if (auto mode = from.name_of<RebalanceMode>("mode", rebalance_mode_from, kModes)) {
    setting.mode = *mode;
  }
  setting.threshold = from.number("threshold", false, {0, kMostScore}).value_or(setting.threshold);
  time("hold_s", setting.hold);
  setting.margin = from.number("margin", false, {0, 0.99}).value_or(setting.margin);
  time("cooldown_s", setting.cooldown);
  setting.max_moves =
      static_cast<int>(from.whole("max_moves", false, {0, kMostMoves}).value_or(setting.max_moves));
  time("rest_s", setting.rest);
  read_pools(from, setting, faults);
  from.finish();
}

}  // namespace mare::wire
