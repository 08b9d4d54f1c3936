// A host that will fail at a known time: which of its VMs can leave before, and which jobs are
// saved by a checkpoint instead. Pure arithmetic on upper bounds: what is planned ends in time if
// every move and checkpoint takes no longer than it was said to take at most. docs/checkpoints.md.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/core/ids.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/move_plan.h"

namespace mare::policy {

/// One way to move a VM, and how long it takes at most when nothing else uses its links (s, > 0).
struct WayOut {
  Strategy strategy = Strategy::PreCopy;
  double longest_s = 0;
};

struct LeavingVm {
  VmId vm;
  HostId destination;
  std::optional<JobId> job;  // that runs on it
  std::vector<WayOut> ways;  // as is liked best first; empty: it can't be told, or can't move
  std::string why_not = {};  // then: why
};

struct ThreatenedJob {
  JobId job;
  bool has_checkpoint = false;  // a complete one, of whenever
  bool covered = false;         // one since the warning, so that nothing has to be saved now
  bool saving = false;          // one is being taken: its VMs do not move meanwhile
  double waits_s = 0;           // VMs of it are on their way for so long at most; then one begins
  bool overdue = false;         // they take longer than was said already
  std::optional<double> checkpoint_s;  // at most, alone; none: it can't be taken
  std::string why_not = {};            // then: why
};

/// A migration that goes on already. One that nobody knows the end of has left_s = infinity.
struct MoveUnderWay {
  HostId source;
  HostId destination;
  double left_s = 0;
};

struct Threat {
  HostId host;
  double left_s = 0;  // until it fails
  double lead_s = 0;  // of each move, before its first page
  MoveCaps caps;
  std::vector<LeavingVm> vms;  // on the host, and not on their way
  std::vector<ThreatenedJob> jobs;
  std::vector<MoveUnderWay> under_way;
};

struct PlannedLeave {
  std::size_t index = 0;  // into Threat::vms
  Strategy strategy = Strategy::PreCopy;
  double begins_s = 0;
  double ends_s = 0;  // at the latest
};
struct PlannedSave {
  JobId job;
  double ends_s = 0;  // at the latest; all begin at once
};
struct LeftBehind {
  std::size_t index = 0;  // into Threat::vms
  std::string why;
};

struct EvacuationPlan {
  std::vector<PlannedLeave> moves;  // in the order of their beginnings
  std::vector<PlannedSave> saves;
  std::vector<std::size_t> covered;  // stay; their job is saved, or will be by this plan
  std::vector<LeftBehind> left;      // stay, and nothing is promised for them
};

/// First every job that can be saved is, then as many as fit go on without a break: a job moves
/// with all its VMs of that host or is saved, since one VM less ends it. Jobs without a checkpoint
/// go first, then the shortest; VMs without a job last. A job that can neither move whole nor be
/// saved leaves with as many VMs as fit. Moves keep the caps; those that share a link, and
/// checkpoints that are being written, lengthen each other. Every VM is in one of the four lists.
EvacuationPlan plan_evacuation(const Threat& threat);

/// One sentence, without times, so that it changes only when the plan does.
std::string in_words(const EvacuationPlan& plan, const Threat& threat);

}  // namespace mare::policy
