#include "hypervisor/dirtylog/page_samples.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>

#include "hypervisor/dirtylog/kernel_abi.h"

namespace mare::dirtylog {
namespace {

constexpr std::size_t kReadAtOnce = 256;
constexpr std::size_t kSamples = 2048;

std::uint64_t sum_of(const char* page) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < kPage; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, page + at, sizeof word);
    sum = (sum ^ word) * 0x9E3779B97F4A7C15U + 1;
  }
  return sum | 1U;  // 0 is for those that are not there
}

bool in_memory(const Fd& pagemap, std::uint64_t address) {
  std::uint64_t entry = 0;
  const auto offset = static_cast<off_t>(address / kPage * sizeof entry);
  return pread(pagemap.get(), &entry, sizeof entry, offset) == sizeof entry &&
         (entry & abi::kEntryPresent) != 0;
}

}  // namespace

Result<std::vector<std::uint64_t>> sums_of(const Process& process, const Fd& pagemap,
                                           const Mapping& ram,
                                           const std::vector<std::size_t>& pages) {
  std::vector<std::uint64_t> out(pages.size(), 0);
  std::vector<char> content(kReadAtOnce * kPage);
  for (std::size_t begin = 0; begin < pages.size(); begin += kReadAtOnce) {
    const std::size_t end = std::min(pages.size(), begin + kReadAtOnce);
    std::vector<iovec> from;  // of another process
    std::vector<std::size_t> which;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint64_t address = ram.start + pages[i] * kPage;
      if (address + kPage > ram.end || !in_memory(pagemap, address)) continue;
      from.push_back({reinterpret_cast<void*>(address), kPage});
      which.push_back(i);
    }
    if (from.empty()) continue;
    const iovec into{content.data(), from.size() * kPage};
    const ssize_t got = process_vm_readv(process.pid(), &into, 1, from.data(), from.size(), 0);
    const std::size_t read = got < 0 ? 0 : static_cast<std::size_t>(got) / kPage;
    if (read == 0) {
      const std::string why = system_text("its memory can't be read");
      if (!process.lives()) break;
      return make_error(Code::Unavailable, why, "the agent needs CAP_SYS_PTRACE");
    }
    for (std::size_t i = 0; i < read; ++i) out[which[i]] = sum_of(content.data() + i * kPage);
  }
  if (!process.lives()) return make_error(Code::NotFound, "its process has ended");
  return out;
}

std::size_t sampled_page(std::size_t i, std::size_t pages_each) {
  constexpr std::size_t kGolden = 0x9E3779B97F4A7C15U;
  return i * pages_each + (i * kGolden >> 33U) % pages_each;
}

Result<ContentReading> content_of(const Process& process, const Fd& pagemap, const Mapping& ram,
                                  const std::vector<pid_t>& vcpus) {
  ContentReading out;
  const std::size_t all = ram.size() / kPage;
  out.pages_each = std::max<std::size_t>(1, (all + kSamples - 1) / kSamples);
  std::vector<std::size_t> pages;
  for (std::size_t i = 0; (i + 1) * out.pages_each <= all; ++i) {
    pages.push_back(sampled_page(i, out.pages_each));
  }
  const Microseconds before = process.cpu_time(vcpus);
  auto sums = sums_of(process, pagemap, ram, pages);
  if (!sums) return sums.error();
  out.sums = std::move(*sums);
  out.progress = (before + process.cpu_time(vcpus)) / 2;
  return out;
}

std::optional<Change> change_between(const std::vector<std::uint64_t>& before,
                                     const std::vector<std::uint64_t>& after) {
  const std::size_t samples = std::min(before.size(), after.size());
  std::complex<double> sum;
  std::size_t changed = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    if (before[i] == after[i]) continue;
    ++changed;
    sum += std::polar(
        1.0, 2 * std::numbers::pi * (static_cast<double>(i) + 0.5) / static_cast<double>(samples));
  }
  if (changed == 0) return std::nullopt;
  const double turn = std::arg(sum) / (2 * std::numbers::pi);
  return Change{{turn < 0 ? turn + 1 : turn, std::abs(sum) / static_cast<double>(changed)},
                changed};
}

}  // namespace mare::dirtylog
