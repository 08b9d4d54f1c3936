#include "orchestrator/engine/layout_plan.h"

#include <nlohmann/json.hpp>

namespace mare::engine {
namespace {
using nlohmann::json;

constexpr std::size_t kStaysTold = 3;

json wish_json(const LayoutWish& wish) {
  json out{{"layout", wish.layout == policy::Layout::Spread ? "spread" : "pack"},
           {"hosts", wish.hosts},
           {"remaining_s", wish.remaining ? json(wish.remaining->count()) : json(nullptr)},
           {"force", wish.force}};
  if (!wish.cause.empty()) out["cause"] = wish.cause;
  return out;
}

json found_json(const LayoutFound& found) {
  const policy::LayoutPlan& plan = found.plan;
  json moves = json::array();
  for (const auto& move : plan.moves) {
    moves.push_back({{"vm", move.vm.value},
                     {"from", move.from.value},
                     {"to", move.to.value},
                     {"added_job_time_s", move.cost.added_job_time_s},
                     {"bytes", move.cost.bytes},
                     {"reason", move.reason}});
  }
  json stay = json::array();
  for (const auto& [vm, why] : found.stay) stay.push_back({{"vm", vm.value}, {"reason", why}});
  return {{"worth", plan.worth},
          {"hosts_before", plan.hosts_before},
          {"hosts_after", plan.hosts_after},
          {"slowdown_before", plan.slowdown_before},
          {"slowdown_after", plan.slowdown_after},
          {"remaining_s", found.remaining.seconds},
          {"gain_s", plan.gain_s},
          {"added_job_time_s", plan.cost_s},
          {"moves", std::move(moves)},
          {"stay", std::move(stay)}};
}

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string text_of(const LayoutWish& wish) {
  return dumped(wish_json(wish));
}

std::string text_of(const LayoutWish& wish, const LayoutFound& found) {
  json out = wish_json(wish);
  out["plan"] = found_json(found);
  return dumped(out);
}

LayoutWish layout_wish_from(const std::string& text) {
  LayoutWish out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  const bool packs = from.value("layout", std::string()) == "pack";
  out.layout = packs ? policy::Layout::Pack : policy::Layout::Spread;
  out.hosts = from.value("hosts", 0);
  const auto remaining = from.find("remaining_s");
  if (remaining != from.end() && remaining->is_number()) {
    out.remaining = Seconds{remaining->get<double>()};
  }
  out.force = from.value("force", false);
  out.cause = from.value("cause", std::string());
  return out;
}

policy::LayoutPlan layout_plan_from(const std::string& text) {
  policy::LayoutPlan out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object() || !from.contains("plan")) return out;
  const json& plan = from["plan"];
  out.worth = plan.value("worth", false);
  out.hosts_after = plan.value("hosts_after", 0);
  for (const auto& one : plan.value("moves", json::array())) {
    policy::Relocation move;
    move.vm = VmId{one.value("vm", std::string())};
    move.from = HostId{one.value("from", std::string())};
    move.to = HostId{one.value("to", std::string())};
    out.moves.push_back(std::move(move));
  }
  return out;
}

std::string in_words(const LayoutFound& found) {
  std::string out = found.plan.reason;
  if (!found.plan.moves.empty()) out += " (" + found.remaining.why + ")";
  for (std::size_t i = 0; i < found.stay.size() && i < kStaysTold; ++i) {
    const auto& [vm, why] = found.stay[i];
    out += "; VM '" + vm.value + "' is not to be moved: " + why;
  }
  if (found.stay.size() > kStaysTold) {
    out += "; and " + std::to_string(found.stay.size() - kStaysTold) + " more";
  }
  return out;
}

}  // namespace mare::engine
