// What a plan.layout found, as its operation keeps it beside what was asked. 'mare job spread
// --dry-run' shows it, layout.change follows it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/requests.h"
#include "orchestrator/policy/remaining.h"

namespace mare::engine {

struct LayoutFound {
  policy::LayoutPlan plan;
  policy::Remaining remaining;
  std::vector<std::pair<VmId, std::string>> stay;  // had better not move, and why
};

/// JSON.
std::string text_of(const LayoutWish& wish);
std::string text_of(const LayoutWish& wish, const LayoutFound& found);
LayoutWish layout_wish_from(const std::string& text);
/// The plan in it; without moves if it has none.
policy::LayoutPlan layout_plan_from(const std::string& text);

/// One or two sentences.
std::string in_words(const LayoutFound& found);

}  // namespace mare::engine
