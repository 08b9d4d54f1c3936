// Who gets how much of shared links. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace mare::sim {

/// One transfer: the links it crosses (indices into the capacities) and what it asks at most.
struct Flow {
  std::vector<std::size_t> links;
  double cap = 0;  // bytes/s
};

/// Max-min fair rates in bytes/s, one a flow: no flow can get more without taking from one that has
/// less. Progressive filling (Bertsekas, Gallager, Data Networks, 6.5.2); it is what many TCP
/// streams on shared links come to.
std::vector<double> fair_share(const std::vector<double>& capacities,
                               const std::vector<Flow>& flows);

}  // namespace mare::sim
