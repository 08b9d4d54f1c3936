// When rounds of pre-copy hover above the downtime limit, and what is done about it.
//
// QEMU ends a round as soon as the rest of it would fit into the limit, looks at its log, and stops
// if the rest still fits beside what was written meanwhile. Of a guest that never rests it does
// not: what is marked hovers above the limit, by what the guest writes in a round, until by chance
// one finds next to nothing new. Where a migration goes by a shorter limit than its policy allows,
// that may well fit into the longer one: told that, QEMU stops at its next look. It would not if it
// had gone by the longer one all along, as then it would hover above that.
// (docs/adr/0018-limit-rises-early.md)
#pragma once

#include <vector>

namespace mare {

class HoveringRounds {
 public:
  /// Of each round once, as it begins with so much marked, where `fits` would go into a stop of the
  /// longer limit (bytes of memory): whether that limit is to be told. Not before four in a row
  /// have fitted and become no smaller, since until then a shorter stop may come; from then on for
  /// each that fits, and for no other one.
  bool limit_rises(double marked, double fits);

 private:
  std::vector<double> fitting_;  // what was marked, of those in a row that fitted
  bool hovers_ = false;
};

}  // namespace mare
