#include "hypervisor/dirtylog/page_samples.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <complex>
#include <numbers>

namespace mare::dirtylog {
namespace {

constexpr std::size_t kPageWords = kPage / sizeof(std::uint64_t);

std::uint64_t sum_of(const std::array<std::uint64_t, kPageWords>& words) {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) sum = (sum ^ word) * 0x9E3779B97F4A7C15U + 1;
  return sum;
}

}  // namespace

std::vector<std::size_t> spread_over(const PageSet& pages, std::size_t count) {
  const std::size_t all = pages.count();
  const std::size_t samples = std::min(count, all);
  std::vector<std::size_t> out;
  std::size_t rank = 0;
  pages.each([&](std::size_t page) {
    if (rank++ * samples / all == out.size()) out.push_back(page);
  });
  return out;
}

Result<std::vector<std::uint64_t>> sums_of(const Process& process, const Mapping& ram,
                                           const std::vector<std::size_t>& pages) {
  std::vector<std::uint64_t> out;
  out.reserve(pages.size());
  std::array<std::uint64_t, kPageWords> words{};
  for (const std::size_t page : pages) {
    if ((page + 1) * kPage > ram.size()) {
      out.push_back(0);
      continue;
    }
    iovec here{words.data(), kPage};
    iovec there{reinterpret_cast<void*>(ram.start + page * kPage), kPage};  // of another process
    if (process_vm_readv(process.pid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(kPage)) {
      const std::string why = system_text("its memory can't be read");
      if (!process.lives()) return make_error(Code::NotFound, "its process has ended");
      return make_error(Code::Unavailable, why, "the agent needs CAP_SYS_PTRACE");
    }
    out.push_back(sum_of(words));
  }
  if (!process.lives()) return make_error(Code::NotFound, "its process has ended");
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
