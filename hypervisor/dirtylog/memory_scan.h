// What of a VM's memory a migration would really send: pages that hold something, and how well they
// compress. Read from outside, while the guest runs; changes nothing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "hypervisor/dirtylog/page_set.h"
#include "hypervisor/dirtylog/process.h"

namespace mare::dirtylog {

struct MemoryContent {
  Bytes total;                         // of the guest's RAM
  Bytes zero;                          // of it never touched, or only zeros
  double compressed_fraction = 1;      // of the rest, after zstd -1; 0 to 1
  double hot_compressed_fraction = 1;  // the same of what is written
  BytesPerSecond compress_rate;        // of the rest, by one CPU of this host; 0: not known
  BytesPerSecond unpack_rate;          // the same of unpacking it, into pages that were not there
};

/// Looks at the RAM of the VM in process `pid`: at every present page up to 1 GiB of them, beyond
/// that at an even sample of so many. NotFound: no such process, or it ended meanwhile.
/// `written`: what a log saw written. From a log that samples, that is empty, and `heat`, its share
/// of each of kHeatRegions, stands in; without either, all is alike.
Result<MemoryContent> scan_memory(pid_t pid, Bytes memory, const std::vector<double>& heat = {},
                                  const PageSet& written = {});

bool is_zero_page(const std::byte* page);

}  // namespace mare::dirtylog
