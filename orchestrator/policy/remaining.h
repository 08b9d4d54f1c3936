// How long a job will still run. An MPI program does not say: it is taken from how long its earlier
// runs took, or else from how long it has run.
#pragma once

#include <string>
#include <vector>

namespace mare::policy {

struct Remaining {
  double seconds = 0;
  std::string why;  // where it is from, in words
};

/// `earlier_s`: how long runs of the same program took. Of one that has outlasted their median, or
/// that has none, nothing is known but that it runs: it is as likely to be in its first half as in
/// its second.
Remaining remaining_of(double elapsed_s, std::vector<double> earlier_s);

}  // namespace mare::policy
