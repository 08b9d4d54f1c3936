#include "orchestrator/engine/move_costs.h"

#include <algorithm>

#include "orchestrator/engine/past_moves.h"

namespace mare::engine {
namespace {

Status learn(const store::Reader& reader, const Operation& child, MoveCosts& known) {
  const VmId vm{child.target};
  if (!child.finished()) {
    known.pending.insert(vm);
    return ok_status();
  }
  if (child.outcome != Outcome::Succeeded) {
    known.stay.emplace(vm, child.reason);
    return ok_status();
  }
  auto forecast = reader.forecast(child.id);
  if (!forecast) return forecast.error();
  const auto* said = forecast->choice ? forecast_of(*forecast, *forecast->choice) : nullptr;
  if (said != nullptr) {
    known.costs.emplace(MoveRoute{vm, forecast->destination}, *said);
  } else {
    known.stay.emplace(vm, forecast->reason);
  }
  return ok_status();
}

}  // namespace

Result<MoveCosts> read_move_costs(const store::Reader& reader,
                                  const std::vector<Operation>& children) {
  MoveCosts out;
  for (const auto& child : children) {
    if (auto learned = learn(reader, child, out); !learned) return learned.error();
  }
  return out;
}

void apply(const MoveCosts& known, policy::Cluster& cluster) {
  for (auto& vm : cluster.vms) {
    vm.locked |= known.stay.contains(vm.id);
    for (const auto& [route, said] : known.costs) {
      if (route.first != vm.id) continue;
      vm.cost = {std::max(vm.cost.added_job_time_s, said.added_job_time_s.value),
                 std::max(vm.cost.bytes, said.sent_bytes.value)};
    }
  }
}

}  // namespace mare::engine
