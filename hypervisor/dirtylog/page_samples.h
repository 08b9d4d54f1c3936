// What some of a guest's pages hold: by what changes in them it is seen how it writes at this
// moment, while no log is armed. Costs the guest nothing; a page that is rewritten with the same
// content is not seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hypervisor/dirtylog/page_log.h"
#include "hypervisor/dirtylog/process.h"
#include "hypervisor/dirtylog/sweep_steps.h"
#include "orchestrator/core/result.h"

namespace mare::dirtylog {

/// A sum of the content of each page, by its number since the RAM's start; 0 of one that is not in
/// memory (to read it would make it). NotFound: the process has ended. Unavailable: its memory
/// can't be read, for want of CAP_SYS_PTRACE say.
Result<std::vector<std::uint64_t>> sums_of(const Process& process, const Fd& pagemap,
                                           const Mapping& ram,
                                           const std::vector<std::size_t>& pages);

/// Which page a ContentReading has of the i-th so many: not all in the same place among them, as of
/// a program that goes through its memory in steps. Pure.
std::size_t sampled_page(std::size_t i, std::size_t pages_each);

/// Of some thousands, all over its RAM: so many that what was written in a second is known to some
/// percent, and reading them takes some milliseconds.
Result<ContentReading> content_of(const Process& process, const Fd& pagemap, const Mapping& ram,
                                  const std::vector<pid_t>& vcpus);

/// Of samples that are evenly spread over what a guest sweeps.
struct Change {
  Centre centre;          // of those that changed
  std::size_t count = 0;  // of them
};
/// Between two looks at the same samples. None: not one changed. Pure.
std::optional<Change> change_between(const std::vector<std::uint64_t>& before,
                                     const std::vector<std::uint64_t>& after);

}  // namespace mare::dirtylog
