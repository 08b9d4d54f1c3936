#include "hypervisor/driver.h"

#include <array>
#include <utility>

namespace mare {
namespace {
constexpr std::array<std::pair<OutgoingPhase, std::string_view>, 6> kPhases{{
    {OutgoingPhase::None, "none"},
    {OutgoingPhase::PreCopying, "pre_copying"},
    {OutgoingPhase::Switching, "switching"},
    {OutgoingPhase::Completed, "completed"},
    {OutgoingPhase::Failed, "failed"},
    {OutgoingPhase::Cancelled, "cancelled"},
}};
}

std::string_view to_string(OutgoingPhase phase) {
  for (const auto& [known, name] : kPhases) {
    if (known == phase) return name;
  }
  return "none";
}

std::optional<OutgoingPhase> outgoing_phase_from(std::string_view text) {
  for (const auto& [phase, name] : kPhases) {
    if (name == text) return phase;
  }
  return std::nullopt;
}

}  // namespace mare
