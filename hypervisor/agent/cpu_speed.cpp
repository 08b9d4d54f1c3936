#include "hypervisor/agent/cpu_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "orchestrator/core/thread_cpu.h"

namespace mare::agent {
namespace {

constexpr std::size_t kTable = 32768;  // of 8 bytes: 256 KiB
constexpr int kSteps = 400'000;        // some 2 ms
constexpr int kTries = 20;

std::uint64_t run(std::vector<std::uint64_t>& table, std::uint64_t state) {
  for (int i = 0; i < kSteps; ++i) {
    state ^= state << 13U;  // Marsaglia 2003, "Xorshift RNGs"
    state ^= state >> 7U;
    state ^= state << 17U;
    auto& cell = table[state % kTable];
    cell += state;
    state += cell >> 32U;
  }
  return state;
}

}  // namespace

double measure_cpu_speed() {
  std::vector<std::uint64_t> table(kTable, 1);
  std::uint64_t state = 88172645463325252U;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto before = thread_cpu_time();
    state = run(table, state | 1U);
    const double took = std::chrono::duration<double>(thread_cpu_time() - before).count();
    if (took > 0) best = std::max(best, kSteps / took / 1e6);
  }
  // A loop of which nothing is used could be left out.
  return state == 0 ? 0 : std::round(best * 10) / 10;
}

}  // namespace mare::agent
