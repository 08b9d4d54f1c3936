// Where a guest that sweeps is at this moment, while it is being sent and its dirty-page log is
// closed: by the content of some of its pages. Costs the guest nothing. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "hypervisor/dirtylog/page_set.h"
#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::dirtylog {

class SweepTracker {
 public:
  /// `swept`: the pages that it goes through. NotFound: the process, or its RAM, is not there.
  static Result<SweepTracker> open(pid_t pid, Bytes memory, const PageSet& swept);

  /// The middle of what it wrote since the last look, as a share of what it sweeps, in the order of
  /// addresses. None: the first look, or what changed is too little or all over. Unavailable: its
  /// memory can't be read, for want of CAP_SYS_PTRACE say.
  Result<std::optional<double>> look();

 private:
  SweepTracker(Process process, Fd pagemap, Mapping ram, std::vector<std::size_t> samples)
      : process_(std::move(process)),
        pagemap_(std::move(pagemap)),
        ram_(std::move(ram)),
        samples_(std::move(samples)) {}

  Process process_;
  Fd pagemap_;
  Mapping ram_;
  std::vector<std::size_t> samples_;  // pages, evenly spread
  std::vector<std::uint64_t> sums_;   // of their content, at the last look
};

}  // namespace mare::dirtylog
