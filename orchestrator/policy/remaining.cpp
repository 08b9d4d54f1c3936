#include "orchestrator/policy/remaining.h"

#include <algorithm>

#include "orchestrator/policy/plan_words.h"

namespace mare::policy {

Remaining remaining_of(double elapsed_s, std::vector<double> earlier_s) {
  elapsed_s = std::max(0.0, elapsed_s);
  if (!earlier_s.empty()) {
    const auto middle = earlier_s.begin() + static_cast<std::ptrdiff_t>(earlier_s.size() / 2);
    std::nth_element(earlier_s.begin(), middle, earlier_s.end());
    if (*middle > elapsed_s) {
      return {*middle - elapsed_s, counted(earlier_s.size(), "earlier run") + " of it took " +
                                       figure(*middle, 0) + " s, it has run for " +
                                       figure(elapsed_s, 0) + " s"};
    }
  }
  return {elapsed_s,
          "it has run for " + figure(elapsed_s, 0) + " s and is expected to run as long again"};
}

}  // namespace mare::policy
