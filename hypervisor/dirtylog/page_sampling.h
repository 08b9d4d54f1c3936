// The dirty-page log of last resort: some pages are read, and read again, and those that differ
// stand for all. Needs nothing of the kernel, of QEMU or of the guest, and costs the guest nothing.
//
// Misses a page that is rewritten with the same content, which a migration sends all the same, and
// knows a share only as well as a sample of kSampledPages can tell it: 0.8 percentage points (one
// deviation) where a half is written, 0.3 where a twentieth is. Forecasts from it are wider.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hypervisor/dirtylog/page_log.h"
#include "hypervisor/dirtylog/page_samples.h"
#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/rng.h"

namespace mare::dirtylog {

inline constexpr std::size_t kSampledPages = 4096;

class PageSampling final : public PageLog {
 public:
  /// Watches the RAM of the VM in process `pid`. NotFound: no such process.
  static Result<std::unique_ptr<PageLog>> open(pid_t pid, Bytes memory);

  /// Takes a new sample: one page at random out of each of kSampledPages equal parts.
  Result<Microseconds> arm() override;
  Result<LogReading> read() override;
  Result<ContentReading> content() override;

 private:
  PageSampling(Process process, Fd pagemap, Mapping ram);

  Process process_;
  Fd pagemap_;
  Mapping ram_;
  std::vector<pid_t> vcpus_;
  SystemRng rng_;
  std::vector<std::size_t> sample_;  // pages
  std::vector<std::uint64_t> sums_;  // of their content, when it was armed
};

}  // namespace mare::dirtylog
