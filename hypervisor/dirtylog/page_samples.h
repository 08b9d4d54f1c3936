// What changes in some of a guest's pages, by their content: where it writes at this moment, while
// no log is armed. Costs the guest nothing; a page that is rewritten with the same content is not
// seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hypervisor/dirtylog/page_set.h"
#include "hypervisor/dirtylog/process.h"
#include "hypervisor/dirtylog/sweep_steps.h"
#include "orchestrator/core/result.h"

namespace mare::dirtylog {

/// Reading so many takes a millisecond or two; one is a five hundredth of the way.
inline constexpr std::size_t kSamplesOfASweep = 512;

/// At most `count` of them, evenly spread in the order of addresses. Pure.
std::vector<std::size_t> spread_over(const PageSet& pages, std::size_t count);

/// A sum of the content of each page, by its number since the RAM's start; of one beyond its end 0.
/// NotFound: the process has ended. Unavailable: its memory can't be read, for want of
/// CAP_SYS_PTRACE say.
Result<std::vector<std::uint64_t>> sums_of(const Process& process, const Mapping& ram,
                                           const std::vector<std::size_t>& pages);

/// Of samples that are evenly spread over what a guest sweeps.
struct Change {
  Centre centre;          // of those that changed
  std::size_t count = 0;  // of them
};
/// Between two looks at the same samples. None: not one changed. Pure.
std::optional<Change> change_between(const std::vector<std::uint64_t>& before,
                                     const std::vector<std::uint64_t>& after);

}  // namespace mare::dirtylog
