#include "hypervisor/dirtylog/sweep_tracker.h"

#include <algorithm>

#include "hypervisor/dirtylog/page_samples.h"

namespace mare::dirtylog {
namespace {

/// Reading them takes less than a millisecond; one is a five hundredth of the way.
constexpr std::size_t kSamples = 512;
constexpr std::size_t kFewest = 3;
constexpr double kOnePlace = 0.6;

/// Evenly, in the order of addresses.
std::vector<std::size_t> spread_over(const PageSet& pages) {
  const std::size_t all = pages.count();
  const std::size_t samples = std::min(kSamples, all);
  std::vector<std::size_t> out;
  std::size_t rank = 0;
  pages.each([&](std::size_t page) {
    if (rank++ * samples / all == out.size()) out.push_back(page);
  });
  return out;
}

}  // namespace

Result<SweepTracker> SweepTracker::open(pid_t pid, Bytes memory, const PageSet& swept) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  auto ram = process->guest_ram(memory);
  if (!ram) return ram.error();
  auto pagemap = process->pagemap();
  if (!pagemap) return pagemap.error();
  auto samples = spread_over(swept);
  if (samples.empty()) return make_error(Code::NotFound, "nothing is known of what it sweeps");
  return SweepTracker(std::move(*process), std::move(*pagemap), std::move(*ram),
                      std::move(samples));
}

Result<std::optional<double>> SweepTracker::look() {
  auto now = sums_of(process_, pagemap_, ram_, samples_);
  if (!now) return now.error();
  const std::vector<std::uint64_t> before = std::exchange(sums_, std::move(*now));
  const auto change = change_between(before, sums_);
  if (!change || change->count < kFewest || change->centre.unity < kOnePlace) {
    return std::optional<double>{};
  }
  return std::optional<double>{change->centre.place};
}

}  // namespace mare::dirtylog
