#include "orchestrator/model/rebalancing.h"

#include "orchestrator/model/names.h"

namespace mare {
namespace {

constexpr std::array kRebalanceMode{Name<RebalanceMode>{RebalanceMode::Manual, "manual"},
                                    Name<RebalanceMode>{RebalanceMode::Partial, "partial"},
                                    Name<RebalanceMode>{RebalanceMode::Automatic, "automatic"}};

}  // namespace

std::string_view to_string(RebalanceMode value) {
  return name_of(kRebalanceMode, value);
}

std::optional<RebalanceMode> rebalance_mode_from(std::string_view text) {
  return value_of(kRebalanceMode, text);
}

}  // namespace mare
