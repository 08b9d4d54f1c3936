// The dirty-page log of one VM, as the watcher uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hypervisor/dirtylog/page_set.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::dirtylog {

/// Regions of a heat strip.
inline constexpr std::size_t kHeatRegions = 64;

/// Auto: exactly where this host can, else by sampling.
enum class LogChoice : std::uint8_t { Auto, PageSampling, None };

struct LogReading {
  Bytes unique;              // written since arm()
  Microseconds progress{0};  // CPU time of all vCPUs, from any origin
  Microseconds waited{0};    // that they wanted to run and did not get a CPU, from any origin
  std::vector<double> heat;  // share of each region written since arm()
  PageSet written;           // since arm(); empty from a log that samples
  std::size_t vcpus = 1;
};

/// Of one page out of each `pages_each` that follow one another, always the same (sampled_page()).
struct ContentReading {
  std::vector<std::uint64_t> sums;  // of its content; 0: it is not in memory
  std::size_t pages_each = 1;
  Microseconds progress{0};  // as of a LogReading
};

/// Not thread-safe: the watcher calls it under the VM's lock. The destructor ends all cost for the
/// guest.
class PageLog {
 public:
  virtual ~PageLog() = default;
  /// From now on every page counts as not written; answers the progress of this moment. NotFound:
  /// the VM has ended.
  virtual Result<Microseconds> arm() = 0;
  /// Changes nothing: two readings without arm() between them add up.
  virtual Result<LogReading> read() = 0;
  /// What some pages hold at this moment, armed or not; costs the guest nothing. Unavailable: its
  /// memory can't be read.
  virtual Result<ContentReading> content() = 0;
};

/// Opens the log of a VM that runs here now. NotFound: it is not here any more. Unsupported: it
/// can't be watched, and why; FailedPrecondition, Unavailable: not at this moment.
using OpenLog = std::function<Result<std::unique_ptr<PageLog>>(const std::string& uuid)>;

}  // namespace mare::dirtylog
