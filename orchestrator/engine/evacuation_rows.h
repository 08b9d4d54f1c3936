// What an evacuation sees: rows as policy::Threat, and, at its end, what came of every VM.
// plan.evacuate shows the plan that follows, host.evacuate follows it. Reads only.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/evacuation.h"

namespace mare::engine {

/// How long a host has been given, 1 s to a day.
inline constexpr Seconds kShortestWarning{1};
inline constexpr Seconds kLongestWarning{86400};

struct Warning {
  HostId host;
  WallTime since{0};     // forecasts and checkpoints from before are of another day
  WallTime deadline{0};  // then it fails
  WallTime now{0};
  std::vector<Operation> children;  // of the evacuation: what failed is not tried for ever
};

/// NotFound when the host is gone.
Result<policy::Threat> read_threat(const store::Reader& reader, const Settings& settings,
                                   const Warning& warning);

/// A complete checkpoint that was begun after that; none if there is none.
Result<std::optional<Checkpoint>> covering(const store::Reader& reader, const JobId& job,
                                           WallTime since);

enum class FateKind : std::uint8_t {
  Moved,        // it runs elsewhere
  BroughtBack,  // its host failed before, and its job went back to a checkpoint
  Covered,      // it is there; its job comes back by itself from a complete checkpoint
  Left,         // it is there, and goes with its host
  Gone,         // it was ended meanwhile
};
struct Fate {
  VmId vm;
  FateKind kind = FateKind::Left;
  std::string words;  // to where, by what, or why not
};
/// Of every VM that the evacuation began with or found later, in the order of `vms`.
Result<std::vector<Fate>> read_fates(const store::Reader& reader, const Warning& warning,
                                     const std::vector<VmId>& vms,
                                     const policy::EvacuationPlan& plan,
                                     const policy::Threat& threat);
/// "2 of 3 VMs moved: demo-0 (to h3), demo-1 (to h2); 1 left: demo-2 (...)"
std::string in_words(const std::vector<Fate>& fates);
std::string_view to_string(FateKind kind);  // "moved", "brought back", ...

}  // namespace mare::engine
