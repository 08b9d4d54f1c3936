#include "orchestrator/engine/move_waves.h"

#include <algorithm>

namespace mare::engine {
namespace {

constexpr int kTries = 2;  // of each VM

/// To where the plan says, unless that has become impossible or has failed before.
Result<Operation> start_move(Context& context, const OperationId& parent, const NextMove& next,
                             int tries, Else otherwise, const PolicyChange& policy) {
  MigrateRequest request;
  request.vm = next.vm.id;
  request.policy = policy;
  const bool anywhere = otherwise == Else::MovesAnywhere;
  if (tries == 0 || !anywhere) request.destination = next.destination;
  auto child = start_child(context, request, parent);
  if (child || !request.destination || !anywhere || child.error().code == Code::Conflict) {
    return child;
  }
  request.destination.reset();
  return start_child(context, request, parent);
}

std::vector<NextMove> moves_in(const policy::Wave& wave, const std::vector<Vm>& vms,
                               const MovesPlan& plan) {
  std::vector<NextMove> out;
  for (const auto& planned : wave.moves) {
    const auto& wanted = plan.moves[planned.index];
    const auto here =
        std::find_if(vms.begin(), vms.end(), [&](const Vm& vm) { return vm.id == wanted.vm; });
    if (here != vms.end()) out.push_back({*here, wanted.destination});
  }
  return out;
}

}  // namespace

std::optional<MovesMade> moves_made(Context& context, const std::vector<Operation>& children,
                                    bool cancel) {
  MovesMade past;
  bool wait = false;
  for (const auto& child : children) {
    if (!child.finished()) {
      wait = true;
      if (cancel) cancel_child(context, child.id);
      continue;
    }
    if (child.kind != OperationKind::VmMigrate) {
      past.plan = child;
      continue;
    }
    ++past.migrations;
    if (child.outcome == Outcome::Succeeded) continue;
    ++past.failures[child.target];
    if (past.trouble.empty()) past.trouble = "VM '" + child.target + "': " + child.reason;
  }
  if (wait) return std::nullopt;
  return past;
}

std::vector<NextMove> next_wave(const std::vector<Vm>& vms, const MovesPlan& plan) {
  for (const auto& wave : plan.plan.waves) {
    auto out = moves_in(wave, vms, plan);
    if (!out.empty()) return out;
  }
  return {};
}

std::vector<NextMove> moves_left(const std::vector<Vm>& vms, const MovesPlan& plan) {
  std::vector<NextMove> out;
  for (const auto& wave : plan.plan.waves) {
    for (auto& next : moves_in(wave, vms, plan)) out.push_back(std::move(next));
  }
  return out;
}

WaveStart start_wave(Context& context, const OperationId& parent, const std::vector<NextMove>& wave,
                     const MovesMade& past, Else otherwise, const PolicyChange& policy) {
  WaveStart out;
  for (const auto& next : wave) {
    const auto failed = past.failures.find(next.vm.id.value);
    const int tries = failed == past.failures.end() ? 0 : failed->second;
    if (tries >= kTries) {
      out.trouble = make_error(Code::FailedPrecondition, past.trouble);
      continue;
    }
    auto child = start_move(context, parent, next, tries, otherwise, policy);
    if (child) {
      ++out.started;
      continue;
    }
    // Somebody else's operation holds the VM: wait for it, as long as it has a chance to end.
    const bool ends = child.error().code == Code::Conflict || next.vm.state == VmState::Starting ||
                      next.vm.state == VmState::Stopping;
    out.busy |= ends;
    if (!ends) out.trouble = child.error().during("VM '" + next.vm.id.value + "' can't move");
  }
  return out;
}

}  // namespace mare::engine
