#include "orchestrator/model/hovering_rounds.h"

#include <cstddef>

namespace mare {
namespace {

// So many in a row. One that rewrites a few pages comes down to them in steps: with two it was
// stopped, in the replay, for 55 ms more than some rounds later.
constexpr std::size_t kToTell = 4;
// Three rounds leave an eighth of what a guest that writes at half of the link's rate has above its
// limit.
constexpr double kNoSmaller = 0.9;

}  // namespace

bool HoveringRounds::limit_rises(double marked, double fits) {
  if (marked > fits) {
    fitting_.clear();
    return false;
  }
  fitting_.push_back(marked);
  if (fitting_.size() >= kToTell) {
    hovers_ = hovers_ || marked >= kNoSmaller * fitting_[fitting_.size() - kToTell];
  }
  return hovers_;
}

}  // namespace mare
