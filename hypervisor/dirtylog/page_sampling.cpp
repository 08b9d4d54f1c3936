#include "hypervisor/dirtylog/page_sampling.h"

#include <algorithm>
#include <array>
#include <utility>

#include "hypervisor/dirtylog/page_samples.h"

namespace mare::dirtylog {

PageSampling::PageSampling(Process process, Fd pagemap, Mapping ram)
    : process_(std::move(process)),
      pagemap_(std::move(pagemap)),
      ram_(std::move(ram)),
      vcpus_(process_.vcpu_threads()) {}

Result<std::unique_ptr<PageLog>> PageSampling::open(pid_t pid, Bytes memory) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  auto ram = process->guest_ram(memory);
  if (!ram) return ram.error();
  auto pagemap = process->pagemap();
  if (!pagemap) return pagemap.error();
  return std::unique_ptr<PageLog>(
      new PageSampling(std::move(*process), std::move(*pagemap), std::move(*ram)));
}

Result<Microseconds> PageSampling::arm() {
  if (vcpus_.empty()) vcpus_ = process_.vcpu_threads();
  const std::uint64_t pages = ram_.size() / kPage;
  const std::uint64_t wanted = std::min<std::uint64_t>(pages, kSampledPages);
  sample_.clear();
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const std::uint64_t first = pages * i / wanted;
    const std::uint64_t count = pages * (i + 1) / wanted - first;
    sample_.push_back(first + rng_.next() % count);
  }
  const Microseconds before = process_.cpu_time(vcpus_);
  auto sums = sums_of(process_, pagemap_, ram_, sample_);
  if (!sums) return sums.error();
  sums_ = std::move(*sums);
  return (before + process_.cpu_time(vcpus_)) / 2;
}

Result<LogReading> PageSampling::read() {
  const Microseconds before = process_.cpu_time(vcpus_);
  const auto sums = sums_of(process_, pagemap_, ram_, sample_);
  if (!sums) return sums.error();
  LogReading out;
  out.progress = (before + process_.cpu_time(vcpus_)) / 2;
  out.waited = process_.waiting_time(vcpus_);
  out.vcpus = vcpus_.size();
  out.heat.assign(kHeatRegions, 0);
  std::array<std::size_t, kHeatRegions> sampled{};
  std::size_t written = 0;
  const std::uint64_t width = (ram_.size() + kHeatRegions - 1) / kHeatRegions;
  for (std::size_t i = 0; i < sample_.size(); ++i) {
    const std::uint64_t region = sample_[i] * kPage / width;
    ++sampled.at(region);
    // One that went to swap, or was given back, was not written.
    if ((*sums)[i] == 0 || (*sums)[i] == sums_[i]) continue;
    ++written;
    out.heat.at(region) += 1;
  }
  for (std::size_t i = 0; i < kHeatRegions; ++i) {
    if (sampled.at(i) != 0) out.heat[i] /= static_cast<double>(sampled.at(i));
  }
  if (!sample_.empty()) {
    out.unique = Bytes{ram_.size() / kPage * written / sample_.size() * kPage};
  }
  return out;
}

Result<ContentReading> PageSampling::content() {
  return content_of(process_, pagemap_, ram_, vcpus_);
}

}  // namespace mare::dirtylog
