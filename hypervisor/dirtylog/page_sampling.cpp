#include "hypervisor/dirtylog/page_sampling.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "hypervisor/dirtylog/kernel_abi.h"

namespace mare::dirtylog {
namespace {

constexpr std::size_t kSampledAtOnce = 256;

std::uint64_t digest_of(const char* page) {
  // 0 is for pages that do not exist.
  return std::hash<std::string_view>{}(std::string_view(page, kPage)) | 1U;
}

}  // namespace

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

/// To read one that does not exist would make it.
bool PageSampling::exists(std::uint64_t address) const {
  std::uint64_t entry = 0;
  const auto offset = static_cast<off_t>(address / kPage * sizeof entry);
  return pread(pagemap_.get(), &entry, sizeof entry, offset) == sizeof entry &&
         (entry & abi::kEntryPresent) != 0;
}

/// The digests of the sampled pages as they are now.
Status PageSampling::look(std::vector<std::uint64_t>& digests) const {
  digests.assign(sample_.size(), 0);
  std::vector<char> content(kSampledAtOnce * kPage);
  for (std::size_t begin = 0; begin < sample_.size(); begin += kSampledAtOnce) {
    const std::size_t end = std::min(sample_.size(), begin + kSampledAtOnce);
    std::vector<iovec> from;
    std::vector<std::size_t> which;
    for (std::size_t i = begin; i < end; ++i) {
      if (!exists(sample_[i].address)) continue;
      from.push_back({reinterpret_cast<void*>(sample_[i].address), kPage});
      which.push_back(i);
    }
    if (from.empty()) continue;
    const iovec into{content.data(), from.size() * kPage};
    const ssize_t got = process_vm_readv(process_.pid(), &into, 1, from.data(), from.size(), 0);
    const std::size_t pages = got < 0 ? 0 : static_cast<std::size_t>(got) / kPage;
    if (pages == 0 && process_.lives()) {
      return make_error(Code::Unavailable, system_text("its memory can't be read"),
                        "the agent needs CAP_SYS_PTRACE");
    }
    for (std::size_t i = 0; i < pages; ++i) {
      digests[which[i]] = digest_of(content.data() + i * kPage);
    }
  }
  if (!process_.lives()) return make_error(Code::NotFound, "its process has ended");
  return ok_status();
}

Result<Microseconds> PageSampling::arm() {
  if (vcpus_.empty()) vcpus_ = process_.vcpu_threads();
  const std::uint64_t pages = ram_.size() / kPage;
  const std::uint64_t wanted = std::min<std::uint64_t>(pages, kSampledPages);
  sample_.clear();
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const std::uint64_t first = pages * i / wanted;
    const std::uint64_t count = pages * (i + 1) / wanted - first;
    sample_.push_back({ram_.start + (first + rng_.next() % count) * kPage, 0});
  }
  const Microseconds before = process_.cpu_time(vcpus_);
  std::vector<std::uint64_t> digests;
  if (auto looked = look(digests); !looked) return looked.error();
  for (std::size_t i = 0; i < sample_.size(); ++i) sample_[i].digest = digests[i];
  return (before + process_.cpu_time(vcpus_)) / 2;
}

Result<LogReading> PageSampling::read() {
  const Microseconds before = process_.cpu_time(vcpus_);
  std::vector<std::uint64_t> digests;
  if (auto looked = look(digests); !looked) return looked.error();
  LogReading out;
  out.progress = (before + process_.cpu_time(vcpus_)) / 2;
  out.waited = process_.waiting_time(vcpus_);
  out.heat.assign(kHeatRegions, 0);
  std::array<std::size_t, kHeatRegions> sampled{};
  std::size_t written = 0;
  const std::uint64_t width = (ram_.size() + kHeatRegions - 1) / kHeatRegions;
  for (std::size_t i = 0; i < sample_.size(); ++i) {
    const std::uint64_t region = (sample_[i].address - ram_.start) / width;
    ++sampled.at(region);
    // One that went to swap, or was given back, was not written.
    if (digests[i] == 0 || digests[i] == sample_[i].digest) continue;
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

}  // namespace mare::dirtylog
