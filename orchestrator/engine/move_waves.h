// What host.drain and layout.change share: migrations that are children, wave after wave.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/children.h"
#include "orchestrator/engine/moves_plan.h"

namespace mare::engine {

/// What the children of a parent that moves VMs came to.
struct MovesMade {
  std::optional<Operation> plan;  // the one that says what moves
  std::size_t migrations = 0;
  std::map<std::string, int> failures;  // by VM
  std::string trouble;                  // the first
};
/// None while some go on; then their ends bring the parent back. If `cancel`, they are cancelled.
std::optional<MovesMade> moves_made(Context& context, const std::vector<Operation>& children,
                                    bool cancel);

struct NextMove {
  Vm vm;
  std::optional<HostId> destination;  // none: placement decides
};
/// Of these VMs those of the first wave that has some; empty if the plan has none of them.
std::vector<NextMove> next_wave(const std::vector<Vm>& vms, const MovesPlan& plan);

/// Of these VMs all that the plan has, in the order of its waves: each begins when its hosts and
/// its link have a place for it.
std::vector<NextMove> moves_left(const std::vector<Vm>& vms, const MovesPlan& plan);

/// What a VM does whose move to where the plan says has failed, or has become impossible.
enum class Else { MovesAnywhere, TriesAgain };

struct WaveStart {
  std::size_t started = 0;
  bool busy = false;             // somebody else holds a VM, and will end
  std::optional<Error> trouble;  // a VM that can't be moved
};
/// `policy`: of these moves, against their pools'.
WaveStart start_wave(Context& context, const OperationId& parent, const std::vector<NextMove>& wave,
                     const MovesMade& past, Else otherwise, const PolicyChange& policy = {});

}  // namespace mare::engine
