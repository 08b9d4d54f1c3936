#include "hypervisor/dirtylog/sweep_finder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace mare::dirtylog {
namespace {

constexpr std::size_t kChunksKept = 12;
constexpr double kAgain = 0.8;
constexpr double kLeastReach = 0.02;
constexpr int kTurns = 5;
constexpr int kFewestOfALog = 2;
/// The newest ones: what a boot or a set-up wrote before them is over.
constexpr int kStepsJudged = 5;
/// Shorter ones have hardly seen a guest come round.
constexpr Microseconds kLeastCycle{1'000'000};
constexpr std::size_t kCyclesOfSweeps = 4;  // with the running one
/// Periods of a sweep after which it has come round to what it wrote: one whose end was not seen
/// yet is told to be as long as it was looked at.
constexpr double kComeRound = 1.25;

bool mostly(const PageSet& pages, const PageSet& among) {
  const auto others = static_cast<double>(pages.without(among).count());
  return others <= (1 - kAgain) * static_cast<double>(pages.count());
}

}  // namespace

std::optional<Centre> centre_of(const PageSet& pages, const PageSet& all) {
  const auto count = static_cast<double>(all.count());
  if (count == 0) return std::nullopt;
  struct Part {
    double place = 0;
    double pages = 0;
  };
  std::vector<Part> parts;  // 64 pages each, at most
  double counted = 0;
  double rank = 0;
  for (std::size_t i = 0; i < all.words().size(); ++i) {
    const auto mine = static_cast<double>(std::popcount(all.words()[i]));
    const std::uint64_t both = i < pages.words().size() ? pages.words()[i] & all.words()[i] : 0;
    if (both != 0) {
      parts.push_back({(rank + mine / 2) / count, static_cast<double>(std::popcount(both))});
      counted += parts.back().pages;
    }
    rank += mine;
  }
  if (counted == 0) return std::nullopt;
  // What is written all the time, a stack or the kernel's own, is among them and lies anywhere: the
  // centre is of those around it alone.
  const double reach = std::max(counted / count, kLeastReach);
  Centre out;
  for (int turn = 0; turn < kTurns; ++turn) {
    std::complex<double> sum;
    double near = 0;
    for (const Part& part : parts) {
      if (turn > 0 && std::abs(step_between(out.place, part.place)) > reach) continue;
      sum += std::polar(part.pages, 2 * std::numbers::pi * part.place);
      near += part.pages;
    }
    if (near == 0) break;
    const double angle = std::arg(sum) / (2 * std::numbers::pi);
    out = {angle < 0 ? angle + 1 : angle, std::abs(sum) / counted};
  }
  return out;
}

void SweepFinder::begin_cycle(const PageSet& known) {
  if (cycles_.front().length < kLeastCycle) cycles_.pop_front();
  cycles_.emplace_front();
  if (cycles_.size() > kCyclesOfSweeps) cycles_.pop_back();
  making_ = {};
  known_ = known;
}

void SweepFinder::look(const PageSet& written, Microseconds wall) {
  Seen& cycle = cycles_.front();
  making_.pages.add(written.without(cycle.pages));
  making_.length += wall - cycle.length;
  cycle = {written, wall};
  making_.count = making_.pages.count();
  if (making_.count < kChunkPages) return;
  making_.again = mostly(making_.pages, known_);
  chunks_.push_back(std::exchange(making_, {}));
  making_.follows = true;
  if (chunks_.size() > kChunksKept) chunks_.pop_front();
}

SweepFinder::Found SweepFinder::found(const PageSet& written) const {
  const auto came_round = [&](const Seen& cycle, const Sweep& sweep) {
    return has_come_round(cycle.length, sweep) && mostly(chunks_.back().pages, cycle.pages);
  };
  for (const Seen& cycle : cycles_) {
    const Sweep sweep = judged(cycle.pages);
    if (came_round(cycle, sweep)) return {sweep, cycle.pages};
  }
  return {judged(written), written};
}

SweepFinder::Found SweepFinder::over(const PageSet& pages, const SweepSpeed& speed) {
  const auto count = static_cast<double>(pages.count());
  if (count < static_cast<double>(kLeastSwept)) return {};
  const auto period = static_cast<Microseconds::rep>(count / speed.pages_per_s * 1e6);
  return {Sweep{speed.descending, Microseconds{period}}, pages};
}

bool SweepFinder::has_come_round(Microseconds length, const Sweep& sweep) {
  return sweep.period.count() > 0 && static_cast<double>(length.count()) >=
                                         kComeRound * static_cast<double>(sweep.period.count());
}

SweepFinder::Found SweepFinder::found(const PageSet& written, const SweepSpeed& speed) const {
  for (const Seen& cycle : cycles_) {
    auto found = over(cycle.pages, speed);
    if (has_come_round(cycle.length, found.sweep)) return found;
  }
  return over(written, speed);
}

Sweep SweepFinder::judged(const PageSet& swept) const {
  const auto all = static_cast<double>(swept.count());
  if (chunks_.size() < 2 || swept.count() < kLeastSwept) return {};
  // It may be that not all of it has been seen.
  if (!chunks_.back().again && !chunks_[chunks_.size() - 2].again) return {};
  SweepSteps steps;
  std::vector<double> periods;
  for (std::size_t i = chunks_.size() - 1; i > 0 && steps.count() < kStepsJudged; --i) {
    const Chunk& one = chunks_[i - 1];
    const Chunk& next = chunks_[i];
    if (!next.follows) continue;
    const auto from = centre_of(one.pages, swept);
    const auto to = centre_of(next.pages, swept);
    if (!steps.add(from, to, static_cast<double>(one.count + next.count) / 2 / all)) continue;
    periods.push_back(static_cast<double>(next.length.count()) * all /
                      static_cast<double>(next.count));
  }
  if (!steps.agree(kFewestOfALog)) return {};
  // The middle: a chunk at whose end it had come round took longer than its pages tell.
  const auto middle = periods.begin() + static_cast<std::ptrdiff_t>(periods.size() / 2);
  std::nth_element(periods.begin(), middle, periods.end());
  return {steps.descending(), Microseconds{static_cast<Microseconds::rep>(*middle)}};
}

}  // namespace mare::dirtylog
