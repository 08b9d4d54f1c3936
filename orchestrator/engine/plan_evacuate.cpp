// plan.evacuate: what can leave a host in a given time, and what is saved instead. Children
// forecast the move of each VM that another host has room for; nothing moves. Beside it the checks
// of requests to evacuate.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/engine/evacuation_rows.h"
#include "orchestrator/engine/planning.h"

namespace mare::engine {
namespace {

nlohmann::json as_json(const policy::EvacuationPlan& plan, const policy::Threat& threat) {
  auto out = nlohmann::json{{"moves", nlohmann::json::array()},
                            {"saves", nlohmann::json::array()},
                            {"covered", nlohmann::json::array()},
                            {"left", nlohmann::json::array()}};
  for (const auto& one : plan.moves) {
    const auto& vm = threat.vms[one.index];
    out["moves"].push_back({{"vm", vm.vm.value},
                            {"to", vm.destination.value},
                            {"strategy", to_string(one.strategy)},
                            {"begins_s", one.begins_s},
                            {"ends_s", one.ends_s}});
  }
  for (const auto& one : plan.saves) {
    out["saves"].push_back({{"job", one.job.value}, {"ends_s", one.ends_s}});
  }
  for (const auto index : plan.covered) out["covered"].push_back(threat.vms[index].vm.value);
  for (const auto& one : plan.left) {
    out["left"].push_back({{"vm", threat.vms[one.index].vm.value}, {"why", one.why}});
  }
  return out;
}

class PlanEvacuate final : public Planning {
 public:
  using Planning::Planning;

 private:
  HostId id() const { return HostId{operation().target}; }

  void plan_on(Asked asked) override {
    std::set<std::string> vms = refused_;
    for (const auto& child : asked.children) vms.insert(child.target);
    auto more = ask_more(vms, asked.running);
    if (!more) return give_up(more.error());
    if (!*more) sum_up();
  }

  /// Of every VM of the host the one that has room for it, if there is one; in the order of VMs.
  Result<std::vector<std::pair<VmId, HostId>>> places() const {
    using Places = std::vector<std::pair<VmId, HostId>>;
    return query<Places>(store(), [&](const store::Reader& reader) -> Result<Places> {
      auto host = reader.host(id());
      if (!host) return host.error();
      auto alike = encrypting_alike(reader, *host);
      if (!alike) return alike.error();
      auto rooms = rooms_now(reader, *alike, id());
      if (!rooms) return rooms.error();
      auto vms = reader.vms_on(id());
      if (!vms) return vms.error();
      Places out;
      for (const auto& vm : *vms) {
        const auto place = policy::place(*rooms, vm.memory);
        if (!place) continue;
        for (auto& room : *rooms) {
          if (room.host != *place) continue;
          room.free = room.free - (vm.memory + room.vm_overhead);
          ++room.vms;
        }
        out.emplace_back(vm.id, *place);
      }
      return out;
    });
  }

  /// True when there is still something to wait for.
  Result<bool> ask_more(const std::set<std::string>& asked, std::size_t running) {
    auto all = places();
    if (!all) return all.error();
    for (const auto& [vm, place] : *all) {
      if (asked.contains(vm.value)) continue;
      if (running >= kAtOnce) return true;
      ForecastRequest request;
      request.vm = vm;
      request.destination = place;
      // One that can't be forecast holds up no other: its job may be saved.
      if (start_child(context_, request, operation().id)) {
        ++running;
      } else {
        refused_.insert(vm.value);
      }
    }
    return running > 0;
  }

  void sum_up() {
    auto request = nlohmann::json::parse(operation().request, nullptr, false);
    const Seconds within{request.value("within_s", 60.0)};
    Warning warning{id(), operation().created, {}, clock().wall_now(), {}};
    warning.deadline = warning.now + std::chrono::duration_cast<WallTime>(within);
    auto threat = query<policy::Threat>(
        store(), [&](const store::Reader& r) { return read_threat(r, settings(), warning); });
    if (!threat) return again();
    const auto plan = policy::plan_evacuation(*threat);
    request["plan"] = as_json(plan, *threat);
    set_request(request.dump());
    made(policy::in_words(plan, *threat));
  }

  std::set<std::string> refused_;  // VMs of which no forecast can be made
};

/// May this host be evacuated, and is there a place to go to?
Status check_warning(const store::Reader& reader, const HostId& id, Seconds within) {
  if (!(within >= kShortestWarning && within <= kLongestWarning)) {
    return field_error("within_s",
                       "nothing can be done within " + std::to_string(within.count()) + " s",
                       "give 1 to 86400 seconds: the time until the host fails");
  }
  auto host = reader.host(id);
  if (!host) return host.error();
  if (host->health != HostHealth::Up) {
    return make_error(Code::Unavailable,
                      "host '" + id.value + "' is " + std::string(to_string(host->health)) +
                          (host->health_reason.empty() ? "" : ": " + host->health_reason),
                      "jobs that have checkpoints come back by themselves; others can't be saved "
                      "while its agent does not answer");
  }
  auto vms = reader.vms_on(id);
  if (!vms) return vms.error();
  auto alike = encrypting_alike(reader, *host);
  if (!alike) return alike.error();
  auto rooms = rooms_now(reader, *alike, id);
  if (!rooms) return rooms.error();
  if (!vms->empty() && rooms->empty()) {
    return make_error(
        Code::FailedPrecondition,
        "there is no other host that is up and in use for the VMs of host '" + id.value + "'",
        "add one with 'mare host add', or activate a drained one");
  }
  return ok_status();
}

}  // namespace

Result<Operation> plan(store::Transaction& tx, Context& context,
                       const EvacuationForecastRequest& request,
                       const std::optional<OperationId>& parent) {
  if (auto good = check_warning(tx, request.id, request.within); !good) return good.error();
  Operation draft;
  draft.kind = OperationKind::PlanEvacuate;
  draft.target = request.id.value;
  draft.parent = parent;
  draft.request = nlohmann::json{{"within_s", request.within.count()}}.dump();
  return insert_operation(tx, context.ports.clock, draft);
}

Result<Operation> plan(store::Transaction& tx, Context& context, const EvacuateRequest& request) {
  if (auto good = check_warning(tx, request.id, request.within); !good) return good.error();
  auto host = tx.host(request.id);
  if (!host) return host.error();
  Operation draft;
  draft.kind = OperationKind::HostEvacuate;
  draft.target = request.id.value;
  draft.request = nlohmann::json{{"within_s", request.within.count()},
                                 {"reason", request.reason},
                                 {"admin_before", to_string(host->admin)}}
                      .dump();
  draft.deadline =
      context.ports.clock.wall_now() + std::chrono::duration_cast<WallTime>(request.within);
  return insert_operation(tx, context.ports.clock, draft);
}

Result<std::optional<Operation>> tighten(store::Transaction& tx, Context& context,
                                         const EvacuateRequest& request) {
  auto holder = tx.unfinished("host", request.id.value);
  if (!holder) return holder.error();
  const bool same = *holder && (*holder)->kind == OperationKind::HostEvacuate;
  if (!same || (*holder)->cancel_requested) return std::optional<Operation>{};
  if (!(request.within >= kShortestWarning && request.within <= kLongestWarning)) {
    return std::optional<Operation>{};  // which is refused
  }
  Operation row = std::move(**holder);
  const WallTime now = context.ports.clock.wall_now();
  const WallTime wanted = now + std::chrono::duration_cast<WallTime>(request.within);
  if (wanted >= row.deadline) return std::optional<Operation>{std::move(row)};
  row.deadline = wanted;
  if (auto done = tx.update(row); !done) return done.error();
  const std::string detail =
      "until " + format_rfc3339(wanted) + (request.reason.empty() ? "" : ": " + request.reason);
  const OperationEvent line{0, row.id, now, row.state, "Tighten", row.state, detail};
  if (auto done = tx.append(line); !done) return done.error();
  return std::optional<Operation>{std::move(row)};
}

std::shared_ptr<Task> make_plan_evacuate(Context& context, const Operation& operation) {
  return std::make_shared<PlanEvacuate>(context, operation);
}

}  // namespace mare::engine
