// The one row of rebalancing. Read as a whole, never searched: JSON.
#include <nlohmann/json.hpp>

#include "orchestrator/store/rows.h"

namespace mare::store {
namespace {
using nlohmann::json;

constexpr const char* kRebalancingId = "cluster";

std::string rebalance_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string rebalance_setting_text(const RebalanceSetting& setting) {
  json pools = json::object();
  for (const auto& [pool, mode] : setting.pools) pools[pool.value] = to_string(mode);
  return rebalance_text({{"mode", to_string(setting.mode)},
                         {"threshold", setting.threshold},
                         {"hold_s", setting.hold.count()},
                         {"margin", setting.margin},
                         {"cooldown_s", setting.cooldown.count()},
                         {"max_moves", setting.max_moves},
                         {"rest_s", setting.rest.count()},
                         {"pools", std::move(pools)}});
}

RebalanceMode mode_from(const json& value, RebalanceMode otherwise) {
  if (!value.is_string()) return otherwise;
  return rebalance_mode_from(value.get<std::string>()).value_or(otherwise);
}

RebalanceSetting rebalance_setting_from(const std::string& text) {
  RebalanceSetting out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  out.mode = mode_from(from.value("mode", json()), out.mode);
  out.threshold = from.value("threshold", out.threshold);
  out.hold = Seconds{from.value("hold_s", out.hold.count())};
  out.margin = from.value("margin", out.margin);
  out.cooldown = Seconds{from.value("cooldown_s", out.cooldown.count())};
  out.max_moves = from.value("max_moves", out.max_moves);
  out.rest = Seconds{from.value("rest_s", out.rest.count())};
  const json pools = from.value("pools", json::object());
  for (const auto& [pool, mode] : pools.items()) {
    out.pools[PoolId{pool}] = mode_from(mode, RebalanceMode::Manual);
  }
  return out;
}

json proposal_json(const RebalanceProposal& proposal) {
  json moves = json::array();
  for (const auto& move : proposal.moves) {
    moves.push_back({{"vm", move.vm.value},
                     {"from", move.from.value},
                     {"to", move.to.value},
                     {"added_job_time_s", move.added_job_time_s},
                     {"bytes", move.bytes},
                     {"reason", move.reason}});
  }
  json out{{"made_us", proposal.made.count()},
           {"score_before", proposal.score_before},
           {"score_after", proposal.score_after},
           {"broken_before", proposal.broken_before},
           {"broken_after", proposal.broken_after},
           {"moves", std::move(moves)},
           {"reason", proposal.reason}};
  if (proposal.operation) out["operation"] = proposal.operation->value;
  return out;
}

RebalanceProposal proposal_from(const json& from) {
  RebalanceProposal out;
  out.made = WallTime{from.value("made_us", std::int64_t{0})};
  out.score_before = from.value("score_before", 0.0);
  out.score_after = from.value("score_after", 0.0);
  out.broken_before = from.value("broken_before", 0);
  out.broken_after = from.value("broken_after", 0);
  out.reason = from.value("reason", std::string());
  if (from.contains("operation")) out.operation = OperationId{from.value("operation", "")};
  for (const auto& one : from.value("moves", json::array())) {
    out.moves.push_back({VmId{one.value("vm", "")}, HostId{one.value("from", "")},
                         HostId{one.value("to", "")}, one.value("added_job_time_s", 0.0),
                         one.value("bytes", 0.0), one.value("reason", "")});
  }
  return out;
}

std::string rebalance_state_text(const Rebalancing& row) {
  json out{{"looked_us", row.looked.count()},
           {"score", row.score},
           {"broken", row.broken},
           {"reason", row.reason},
           {"rounds", row.rounds},
           {"moves", row.moves},
           {"refusals", row.refusals}};
  if (row.above_since) out["above_since_us"] = row.above_since->count();
  if (row.ended) out["ended_us"] = row.ended->count();
  if (row.operation) out["operation"] = row.operation->value;
  if (row.proposal) out["proposal"] = proposal_json(*row.proposal);
  return rebalance_text(out);
}

std::optional<WallTime> time_at(const json& from, const char* name) {
  const auto found = from.find(name);
  if (found == from.end() || !found->is_number_integer()) return std::nullopt;
  return WallTime{found->get<std::int64_t>()};
}

void take_state(const std::string& text, Rebalancing& out) {
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return;
  out.looked = time_at(from, "looked_us").value_or(WallTime{0});
  out.score = from.value("score", 0.0);
  out.broken = from.value("broken", 0);
  out.reason = from.value("reason", std::string());
  out.rounds = from.value("rounds", std::uint64_t{0});
  out.moves = from.value("moves", std::uint64_t{0});
  out.refusals = from.value("refusals", std::uint64_t{0});
  out.above_since = time_at(from, "above_since_us");
  out.ended = time_at(from, "ended_us");
  if (from.contains("operation")) out.operation = OperationId{from.value("operation", "")};
  if (from.contains("proposal")) out.proposal = proposal_from(from["proposal"]);
}

}  // namespace

Rebalancing read_rebalancing(Statement& row) {
  Rebalancing out;
  static_cast<void>(row.text());  // its id: there is one
  out.setting = rebalance_setting_from(row.text());
  take_state(row.text(), out);
  return out;
}

void bind_row(Statement& to, const Rebalancing& rebalancing) {
  to.bind(std::string(kRebalancingId))
      .bind(rebalance_setting_text(rebalancing.setting))
      .bind(rebalance_state_text(rebalancing));
}

}  // namespace mare::store
