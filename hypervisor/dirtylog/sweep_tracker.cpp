#include "hypervisor/dirtylog/sweep_tracker.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <numbers>
#include <utility>

namespace mare::dirtylog {
namespace {

/// Reading them takes less than a millisecond; one is a five hundredth of the way.
constexpr std::size_t kSamples = 512;
constexpr std::size_t kFewest = 3;
constexpr double kOnePlace = 0.6;
constexpr std::size_t kPageWords = kPage / sizeof(std::uint64_t);

std::uint64_t sum_of(const std::array<std::uint64_t, kPageWords>& words) {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) sum = (sum ^ word) * 0x9E3779B97F4A7C15U + 1;
  return sum;
}

}  // namespace

Result<SweepTracker> SweepTracker::open(pid_t pid, Bytes memory, const PageSet& swept) {
  auto process = Process::open(pid);
  if (!process) return process.error();
  const auto ram = process->guest_ram(memory);
  if (!ram) return ram.error();
  const std::size_t count = swept.count();
  if (count == 0) return make_error(Code::NotFound, "nothing is known of what it sweeps");
  const std::size_t samples = std::min(kSamples, count);
  std::vector<std::uint64_t> addresses;
  std::size_t rank = 0;
  swept.each([&](std::size_t page) {
    const bool wanted = rank++ * samples / count == addresses.size();
    if (wanted && (page + 1) * kPage <= ram->size()) {
      addresses.push_back(ram->start + page * kPage);
    }
  });
  return SweepTracker(std::move(*process), std::move(addresses));
}

Result<std::vector<std::uint64_t>> SweepTracker::read() const {
  std::vector<std::uint64_t> out;
  std::array<std::uint64_t, kPageWords> words{};
  for (const std::uint64_t address : addresses_) {
    iovec here{words.data(), kPage};
    iovec there{reinterpret_cast<void*>(address), kPage};  // of another process
    if (process_vm_readv(process_.pid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(kPage)) {
      return make_error(Code::Unavailable, system_text("its memory can't be read"));
    }
    out.push_back(sum_of(words));
  }
  if (!process_.lives()) return make_error(Code::NotFound, "its process has ended");
  return out;
}

Result<std::optional<double>> SweepTracker::look() {
  auto now = read();
  if (!now) return now.error();
  const std::vector<std::uint64_t> before = std::exchange(sums_, std::move(*now));
  if (before.empty()) return std::optional<double>{};
  std::complex<double> sum;
  std::size_t changed = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (sums_[i] == before[i]) continue;
    ++changed;
    sum += std::polar(1.0, 2 * std::numbers::pi * (static_cast<double>(i) + 0.5) /
                               static_cast<double>(sums_.size()));
  }
  if (changed < kFewest || std::abs(sum) < kOnePlace * static_cast<double>(changed)) {
    return std::optional<double>{};
  }
  const double turn = std::arg(sum) / (2 * std::numbers::pi);
  return std::optional<double>{turn < 0 ? turn + 1 : turn};
}

}  // namespace mare::dirtylog
