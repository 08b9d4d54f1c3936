#include "orchestrator/engine/scale_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mare::engine {
namespace {
using nlohmann::json;

Result<std::optional<Operation>> scaling(const store::Reader& reader, const PoolId& pool) {
  auto holder = reader.unfinished("pool", pool.value);
  if (!holder) return holder.error();
  if (*holder && (*holder)->kind == OperationKind::PoolScale) return holder;
  return std::optional<Operation>{};
}

}  // namespace

std::string text_of(const ScalePlan& plan) {
  json vms = json::array();
  for (const auto& vm : plan.vms) vms.push_back(vm.value);
  json out{{"size", plan.size},
           {"before", plan.before},
           {"best_effort", plan.best_effort},
           {"vms", std::move(vms)}};
  if (!plan.cause.empty()) out["cause"] = plan.cause;
  if (!plan.limit.empty()) out["limit"] = plan.limit;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

ScalePlan scale_plan_from(const std::string& text) {
  ScalePlan out;
  const json from = json::parse(text, nullptr, false);
  if (!from.is_object()) return out;
  out.size = from.value("size", 0);
  out.before = from.value("before", 0);
  out.best_effort = from.value("best_effort", false);
  for (const auto& vm : from.value("vms", json::array()))
    out.vms.emplace_back(vm.get<std::string>());
  out.cause = from.value("cause", std::string());
  out.limit = from.value("limit", std::string());
  return out;
}

Result<std::set<VmId>> leaving_vms(const store::Reader& reader, const PoolId& pool) {
  auto operation = scaling(reader, pool);
  if (!operation) return operation.error();
  if (!*operation) return std::set<VmId>{};
  const ScalePlan plan = scale_plan_from((*operation)->request);
  // What came by best effort stays, whatever becomes of the others.
  if (plan.grows() && plan.best_effort) return std::set<VmId>{};
  return std::set<VmId>(plan.vms.begin(), plan.vms.end());
}

Status check_not_scaled(const store::Reader& reader, const Vm& vm) {
  auto operation = scaling(reader, vm.pool);
  if (!operation) return operation.error();
  if (!*operation) return ok_status();
  const std::string& by = (*operation)->id.value;
  const ScalePlan plan = scale_plan_from((*operation)->request);
  if (std::find(plan.vms.begin(), plan.vms.end(), vm.id) == plan.vms.end()) return ok_status();
  return make_error(Code::Conflict,
                    "VM '" + vm.id.value + "' " +
                        (plan.grows() ? "is being added" : "is being taken away") + " by " + by +
                        " (pool.scale)",
                    "wait for it with 'mare operation wait " + by +
                        "' or cancel it with 'mare operation cancel " + by + "'");
}

}  // namespace mare::engine
