#include "orchestrator/policy/beat.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "orchestrator/core/rng.h"
#include "orchestrator/policy/statistics.h"

namespace mare::policy {
namespace {

constexpr std::size_t kFewestCycles = 3;
constexpr double kNewest_s = 20;  // a clock that is off by 1% is off by 0.2 s then
constexpr double kFresh_s = 1;
// Shorter ones are in most rounds anyway; and what is as short may be twice a shorter one.
constexpr double kShortest_s = 0.8;
constexpr double kLeastPeriod_s = 1.2;
constexpr double kLongest_s = 20;
// On a busy machine a burst comes a little later or earlier than its clock strikes; and so much
// else is written (1 deviation).
constexpr double kJitter_s = 0.02;
constexpr double kShareOff = 0.06;
constexpr double kBytesOff = 0.4e6;
constexpr double kMostOff = 9;        // that one cycle counts, in squared deviations
constexpr double kFewestBytes = 4e6;  // smaller bursts are not worth it
// Where no cycle is like none of the others, nothing tells of bursts.
constexpr double kLeastOff = kMostOff;
// A beat is taken for one when it is off by less than this share of what a guess without it is off
// by, and by so much at most for each cycle.
constexpr double kBeatClearlyLess = 0.4;
constexpr double kMostOffOnAverage = 2;
// The grid of periods is so fine that the oldest cycle is off by this share of one; and so many
// moments of each.
constexpr double kDrift = 0.05;
constexpr int kMoments = 24;
constexpr double kBurstShares[] = {0.04, 0.08, 0.13, 0.2, 0.3, 0.4, 0.5, 0.65};
constexpr double kFillShares[] = {1, 0.6};
// And the walks from its best candidates.
constexpr std::size_t kWalks = 6;
constexpr int kSteps = 300;
constexpr int kStepsToForget = 100;
constexpr double kFarOff = 8;  // from the best one so far: then it is none
// A burst that lasts for most of its period is no burst, and one that nobody can see neither.
constexpr double kLongestBurst = 0.7;  // of the period
constexpr double kShortestBurst_s = 0.01;
constexpr double kQuickestFill = 0.1;  // of the burst

struct Seen {
  double began = 0;  // s after the profile was taken, so below 0
  std::vector<double> at;
  std::vector<double> bytes;
};

double in_seconds(Microseconds span) {
  return std::chrono::duration<double>(span).count();
}

/// Newest first.
std::vector<Seen> newest_of(const MemoryProfile& profile) {
  std::vector<Seen> out;
  for (auto cycle = profile.cycles.rbegin(); cycle != profile.cycles.rend(); ++cycle) {
    Seen seen;
    seen.began = in_seconds(cycle->began - profile.taken);
    if (cycle->points.empty() || seen.began < -kNewest_s) continue;
    for (const auto& point : cycle->points) {
      seen.at.push_back(in_seconds(point.wall));
      seen.bytes.push_back(static_cast<double>(point.unique.count));
    }
    out.push_back(std::move(seen));
  }
  return out;
}

double bytes_at(const Seen& cycle, double at) {
  double before_at = 0;
  double before = 0;
  for (std::size_t i = 0; i < cycle.at.size(); ++i) {
    if (cycle.at[i] >= at) {
      const double part =
          cycle.at[i] > before_at ? (at - before_at) / (cycle.at[i] - before_at) : 1;
      return before + part * (cycle.bytes[i] - before);
    }
    before_at = cycle.at[i];
    before = cycle.bytes[i];
  }
  return before;
}

double square_off(double seen, double said, double bytes) {
  const double off = (seen - said) / (kShareOff * bytes + kBytesOff);
  return std::min(kMostOff, off * off);
}

/// Of what the beat may write between two moments, that which is nearest to what was seen.
double nearest(const Beat& beat, double from_s, double to_s, double seen) {
  const double most = beat.written(from_s - kJitter_s, to_s + kJitter_s);
  const bool lasts = to_s - from_s > 2 * kJitter_s;
  return std::clamp(seen, lasts ? beat.written(from_s + kJitter_s, to_s - kJitter_s) : 0, most);
}

class Fit {
 public:
  explicit Fit(std::vector<Seen> cycles) : cycles_(std::move(cycles)) {
    for (const auto& cycle : cycles_) {
      oldest_ = std::max(oldest_, -cycle.began);
      most_ = std::max(most_, cycle.bytes.back());
    }
  }

  double oldest_s() const { return oldest_; }
  double most() const { return most_; }

  /// What one whole period writes: by the cycles that lasted for it.
  double bytes_of(double period_s) const {
    std::vector<double> values;
    for (const auto& cycle : cycles_) {
      if (cycle.at.back() >= period_s) values.push_back(bytes_at(cycle, period_s));
    }
    return values.empty() ? most_ : median(values);
  }

  /// How far it is from what was seen: of each cycle the look that is furthest off. Of two periods
  /// that explain the same the shorter is likelier. Stops counting above `enough`.
  double off(const Beat& beat, double enough) const {
    double sum = 2 * std::log(beat.period_s / kShortest_s);
    for (const auto& cycle : cycles_) {
      double most = 0;
      for (std::size_t i = 0; i < cycle.at.size(); ++i) {
        const double said = nearest(beat, cycle.began, cycle.began + cycle.at[i], cycle.bytes[i]);
        most = std::max(most, square_off(cycle.bytes[i], said, beat.bytes));
      }
      sum += most;
      if (sum > enough) break;
    }
    return sum;
  }

  /// The same of a guess without a beat: what the other cycles have in their middle.
  double off_of_others() const {
    double sum = 0;
    for (const auto& cycle : cycles_) {
      double most = 0;
      for (std::size_t i = 0; i < cycle.at.size(); ++i) {
        const auto others = of_others(cycle, cycle.at[i]);
        if (others.empty()) continue;
        most = std::max(most, square_off(cycle.bytes[i], median(others), most_));
      }
      sum += most;
    }
    return sum;
  }

  std::size_t cycles() const { return cycles_.size(); }

 private:
  std::vector<double> of_others(const Seen& cycle, double at) const {
    std::vector<double> out;
    for (const auto& other : cycles_) {
      if (&other != &cycle && other.at.back() >= at) out.push_back(bytes_at(other, at));
    }
    return out;
  }

  std::vector<Seen> cycles_;
  double oldest_ = 0;
  double most_ = 0;
};

struct Candidate {
  Beat beat;
  double off = 0;
};

std::vector<Candidate> peaks_of(const std::vector<Candidate>& by_period) {
  std::vector<Candidate> out;
  for (std::size_t i = 0; i < by_period.size(); ++i) {
    const bool first = i == 0 || by_period[i].off < by_period[i - 1].off;
    const bool last = i + 1 == by_period.size() || by_period[i].off <= by_period[i + 1].off;
    if (first && last) out.push_back(by_period[i]);
  }
  std::sort(out.begin(), out.end(),
            [](const Candidate& a, const Candidate& b) { return a.off < b.off; });
  if (out.size() > kWalks) out.resize(kWalks);
  return out;
}

/// The best of the grid, each with a period that explains more than those beside it.
std::vector<Candidate> best_of_grid(const Fit& fit) {
  std::vector<Candidate> out;
  double best = fit.off_of_others();
  double period = kShortest_s;
  while (period <= kLongest_s) {
    std::optional<Candidate> here;
    Beat beat{period, 0, 0, fit.bytes_of(period), 0};
    for (const double burst : kBurstShares) {
      for (const double fill : kFillShares) {
        beat.burst_s = burst * period;
        beat.fill_s = fill * beat.burst_s;
        for (int moment = 0; moment < kMoments; ++moment) {
          beat.since_s = period * moment / kMoments;
          const double enough = here ? here->off : best + kFarOff;
          const double off = fit.off(beat, enough);
          if (off < enough) here = Candidate{beat, off};
        }
      }
    }
    if (here) {
      out.push_back(*here);
      best = std::min(best, here->off);
    }
    period += std::max(0.01, period * period * kDrift / fit.oldest_s());
  }
  return peaks_of(out);
}

/// As in Metropolis et al. 1953: a step is taken by how much better or worse it explains what was
/// seen, so that in the end candidates are met as often as they are likely.
class Walk {
 public:
  Walk(const Fit& fit, const Candidate& begin) : fit_(fit), here_(begin) {}

  const Candidate& step() {
    // Small steps find the way where little is possible, large ones elsewhere.
    const double scale = rng_.chance(0.5) ? 1 : 0.2;
    Beat next = here_.beat;
    next.period_s *= std::exp(scale * within(0.05));
    next.burst_s *= std::exp(scale * within(0.3));
    next.fill_s *= std::exp(scale * within(0.3));
    next.since_s += scale * within(0.1) * next.period_s;
    next.since_s -= std::floor(next.since_s / next.period_s) * next.period_s;
    next.bytes = fit_.bytes_of(next.period_s);
    if (!possible(next)) return here_;
    const double enough = here_.off - 2 * std::log(1 - rng_.unit());
    const double off = fit_.off(next, enough);
    if (off <= enough) here_ = {next, off};
    return here_;
  }

 private:
  static bool possible(const Beat& beat) {
    return beat.period_s >= kShortest_s && beat.period_s <= kLongest_s &&
           beat.burst_s >= kShortestBurst_s && beat.burst_s <= kLongestBurst * beat.period_s &&
           beat.fill_s >= kQuickestFill * beat.burst_s && beat.fill_s <= beat.burst_s;
  }
  double within(double most) { return most * (2 * rng_.unit() - 1); }

  const Fit& fit_;
  Candidate here_;
  SeededRng rng_{1};  // the same profile, the same way
};

struct Walked {
  std::vector<Candidate> met;
  Candidate best;
};

Walked walked(const Fit& fit, const Candidate& begin) {
  Walked out{{}, begin};
  Walk walk(fit, begin);
  for (int step = 0; step < kSteps; ++step) {
    const Candidate& candidate = walk.step();
    if (candidate.off < out.best.off) out.best = candidate;
    const bool believed = candidate.beat.period_s >= kLeastPeriod_s;
    if (believed && step >= kStepsToForget) out.met.push_back(candidate);
  }
  return out;
}

const Candidate& best_of(const std::vector<Walked>& walks) {
  return std::min_element(walks.begin(), walks.end(),
                          [](const Walked& a, const Walked& b) { return a.best.off < b.best.off; })
      ->best;
}

/// Each walk counts by how well its best one explains what was seen.
std::vector<Beat> drawn_from(const std::vector<Walked>& walks, std::size_t count) {
  if (walks.empty()) return {};
  const double best = best_of(walks).off;
  SeededRng rng(1);
  std::vector<Beat> out;
  while (out.size() < count) {
    const Walked& walk = walks[rng.below(walks.size())];
    if (rng.chance(std::exp((best - walk.best.off) / 2))) {
      out.push_back(walk.met[rng.below(walk.met.size())].beat);
    }
  }
  return out;
}

}  // namespace

double Beat::written(double from_s, double to_s) const {
  const auto in_bursts = [this](double at) {
    const double beats = std::floor(at / period_s);
    return beats * burst_s + std::min(at - beats * period_s, burst_s);
  };
  const double time = in_bursts(to_s + since_s) - in_bursts(from_s + since_s);
  return bytes * std::clamp(time / fill_s, 0.0, 1.0);
}

std::vector<Beat> plausible_beats(const MemoryProfile& profile, std::size_t count) {
  auto cycles = newest_of(profile);
  if (cycles.size() < kFewestCycles || count == 0) return {};
  if (cycles.front().began + cycles.front().at.back() < -kFresh_s) return {};
  const Fit fit(std::move(cycles));
  if (fit.most() < kFewestBytes) return {};
  const double without = fit.off_of_others();
  if (without < kLeastOff) return {};
  const auto candidates = best_of_grid(fit);
  if (candidates.empty()) return {};
  const double most =
      std::min(kBeatClearlyLess * without, kMostOffOnAverage * static_cast<double>(fit.cycles()));
  std::vector<Walked> walks;
  for (const auto& candidate : candidates) walks.push_back(walked(fit, candidate));
  const Candidate best = best_of(walks);
  if (best.off > most || best.beat.period_s < kLeastPeriod_s) return {};
  std::erase_if(walks, [](const Walked& walk) { return walk.met.empty(); });
  return drawn_from(walks, count);
}

}  // namespace mare::policy
