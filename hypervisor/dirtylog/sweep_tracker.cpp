#include "hypervisor/dirtylog/sweep_tracker.h"

#include "hypervisor/dirtylog/page_samples.h"

namespace mare::dirtylog {
namespace {

constexpr std::size_t kFewest = 3;
constexpr double kOnePlace = 0.6;

}  // namespace

Result<SweepTracker> SweepTracker::open(pid_t pid, Bytes memory, const PageSet& swept) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  auto ram = process->guest_ram(memory);
  if (!ram) return ram.error();
  auto samples = spread_over(swept, kSamplesOfASweep);
  if (samples.empty()) return make_error(Code::NotFound, "nothing is known of what it sweeps");
  return SweepTracker(std::move(*process), std::move(*ram), std::move(samples));
}

Result<std::optional<double>> SweepTracker::look() {
  auto now = sums_of(process_, ram_, samples_);
  if (!now) return now.error();
  const std::vector<std::uint64_t> before = std::exchange(sums_, std::move(*now));
  const auto change = change_between(before, sums_);
  if (!change || change->count < kFewest || change->centre.unity < kOnePlace) {
    return std::optional<double>{};
  }
  return std::optional<double>{change->centre.place};
}

}  // namespace mare::dirtylog
