#include "orchestrator/policy/dirty_curve.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "orchestrator/policy/statistics.h"

namespace mare::policy {
namespace {

using Knot = MonotoneCurve::Knot;

constexpr std::size_t kMostKnots = 96;
// Two looks this close in progress are one knot.
constexpr double kSameProgress = 0.02;
// A single cycle says nothing of the spread: this share of D then, and as the weight of two cycles
// of 5% beside those that were seen.
constexpr double kUnknownSpread = 0.10;
constexpr double kPriorSpread = 0.05;
constexpr double kPriorCycles = 2;
// A VM that nobody watched: a tenth of its memory in use is rewritten in kGuessWindow; at best
// nothing, at worst all of it.
constexpr double kGuessShare = 0.1;
constexpr double kGuessWindow = 10;
// Cycles of one program in one phase differ by less than this factor, or by this many bytes.
constexpr double kSameKind = 2;
constexpr double kSameBytes = 2e6;
constexpr std::size_t kFewestToDraw = 3;
constexpr std::size_t kFewestToTell = 2;
// The log looks again after at most this many times as long as it has looked, and then this long.
constexpr double kNextLook = 2.5;
constexpr double kNextLookBeside = 0.3;   // s
constexpr double kShortestWindow = 0.01;  // s of progress
constexpr double kNextWindow = 1.5;       // of those that are compared, so many times as long
// Where cycles are compared, s of wall time: as the log is looked at.
constexpr double kClockGrid[] = {0.1, 0.2, 0.5, 1, 2, 5};
constexpr double kFewBytes = 64 * 1024;
constexpr double kClearlyLess = 0.9;
// A guest that waits for its clock: looks at so little time, in which so few bytes were written.
constexpr double kMomentOfWaiting = 0.12;  // s of wall time
constexpr double kWaitingBytes = 0.5e6;
// A guest that sleeps while it waits has no such share: then all its progress is taken for work.
constexpr double kLeastWaiting = 0.01;
// Between two looks, s of wall time: shorter ones tell no rate, as reading takes some of it.
constexpr double kLongEnoughToTell = 0.09;
// Smaller ones are none: of what is beyond the last look.
constexpr double kNoSlope = 1e-9;
constexpr double kNoFall = 1e-9;
// Up to so long a window, s of wall time, D is held to be concave.
constexpr double kConcaveUpTo = 1;
// From so long a window on, s of wall time, a cycle is held to what windows of that length write.
constexpr double kHeldFrom = 5;
constexpr double kHeldTo = 1.1;  // times the mean
// A program that wrote 396 MB in its first 5 s, and 58 in 20 s then, was said to send 910 MB where
// 627 came: of a second cycle of 20 s and that one nothing else could be made.
constexpr std::chrono::seconds kSetsUpFor{20};

double seconds(Microseconds span) {
  return std::chrono::duration<double>(span).count();
}

/// One cycle's D over progress: what its vCPUs were seen to take, or, by the clock, `share` of the
/// wall time; over wall time as it is if they were not seen to run at all.
struct CycleCurve {
  struct Look {
    double x = 0;
    double wall = 0;
    double progress = 0;
    double unique = 0;
  };
  MonotoneCurve curve;
  std::vector<Look> looks;
  double reach = 0;
  double share = 1;
  double wall = 0;
  std::size_t index = 0;  // among the cycles that it was made from
};

std::optional<CycleCurve> curve_of(const DirtyCycle& cycle, std::optional<double> by_the_clock) {
  if (cycle.points.empty()) return std::nullopt;
  const auto& last = cycle.points.back();
  const bool ran = last.progress.count() > 0;
  std::vector<Knot> knots{{0, 0}};
  CycleCurve out;
  for (const auto& point : cycle.points) {
    const double x = by_the_clock ? *by_the_clock * seconds(point.wall)
                                  : seconds(ran ? point.progress : point.wall);
    const auto unique = static_cast<double>(point.unique.count);
    knots.push_back({x, unique});
    out.looks.push_back({x, seconds(point.wall), seconds(point.progress), unique});
  }
  out.reach = knots.back().x;
  out.wall = seconds(last.wall);
  if (!(out.reach > 0) || !(out.wall > 0)) return std::nullopt;
  out.share = by_the_clock ? *by_the_clock : ran ? seconds(last.progress) / out.wall : 1;
  out.curve = MonotoneCurve(std::move(knots));
  return out;
}

/// How far cycles are apart: of what each wrote by the same x, the mean distance from their median,
/// as a logarithm.
double distance_of(const std::vector<CycleCurve>& cycles, const std::vector<double>& grid) {
  double sum = 0;
  double count = 0;
  for (const double x : grid) {
    std::vector<double> values;
    for (const auto& cycle : cycles) {
      if (cycle.reach >= x * (1 - kSameProgress)) {
        values.push_back(std::log(cycle.curve.at(x) + kFewBytes));
      }
    }
    if (values.size() < 2) continue;
    const double middle = median(values);
    for (const double value : values) sum += std::abs(value - middle);
    count += static_cast<double>(values.size());
  }
  return count > 0 ? sum / count : 0;
}

std::vector<CycleCurve> curves_of(const std::vector<DirtyCycle>& cycles,
                                  std::optional<double> by_the_clock) {
  std::vector<CycleCurve> out;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    auto curve = curve_of(cycles[i], by_the_clock);
    if (!curve) continue;
    curve->index = i;
    out.push_back(std::move(*curve));
  }
  return out;
}

/// A program that computes writes by its progress. One that waits for a clock writes by that, and
/// takes more CPU time for the same on a bad day: then cycles agree better over wall time.
std::vector<CycleCurve> curves_of(const std::vector<DirtyCycle>& cycles) {
  auto by_progress = curves_of(cycles, std::nullopt);
  double progress = 0;
  double wall = 0;
  for (const auto& cycle : cycles) {
    if (cycle.points.empty()) continue;
    progress += seconds(cycle.points.back().progress);
    wall += seconds(cycle.points.back().wall);
  }
  if (!(progress > 0) || !(wall > 0)) return by_progress;
  const double share = progress / wall;
  auto by_clock = curves_of(cycles, share);
  std::vector<double> grid;
  for (const double at : kClockGrid) grid.push_back(share * at);
  const bool clearly = distance_of(by_clock, grid) < kClearlyLess * distance_of(by_progress, grid);
  return clearly ? by_clock : by_progress;
}

bool is_long(const DirtyCycle& cycle) {
  return !cycle.points.empty() &&
         seconds(cycle.points.back().wall) >= kHeldFrom * (1 - kSameProgress);
}

/// Which are drawn: all but the first one after each pause of the log. In it a guest that has just
/// come writes as it will not again: its emulator translates its program anew. Of one that wrote
/// 8 MB in 50 ms, every 0.4 s, half a second then had 0.7 MB and any later one 8.8. All, if too few
/// are left.
std::vector<bool> settled(const std::vector<DirtyCycle>& cycles) {
  std::vector<bool> out(cycles.size(), false);
  // One that was seen by content began while another one, of the log, went on.
  std::optional<WallTime> goes_on_until;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    if (cycles[i].points.empty()) continue;
    out[i] = goes_on_until && cycles[i].began <= *goes_on_until;
    const double looked = seconds(cycles[i].points.back().wall);
    const auto until = cycles[i].began + std::chrono::duration_cast<Microseconds>(
                                             Seconds{kNextLook * looked + kNextLookBeside});
    goes_on_until = std::max(goes_on_until.value_or(until), until);
  }
  const auto left = std::count(out.begin(), out.end(), true);
  if (static_cast<std::size_t>(left) < kFewestToDraw) out.assign(cycles.size(), true);
  return out;
}

/// What is drawn; and beside it, where hardly any of that is long, the long ones that are not: they
/// tell how the others go on. Of a guest that moves every half minute the first cycle after each
/// move is the only one that is not cut short: without these, windows of 13 s of one that wrote
/// 25 MB every 2 s were taken to have 2 MB.
struct Drawn {
  std::vector<DirtyCycle> cycles;
  std::vector<bool> drawn;
};

Drawn to_draw(const std::vector<DirtyCycle>& all) {
  const std::vector<bool> drawn = settled(all);
  std::size_t long_ones = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (drawn[i] && is_long(all[i])) ++long_ones;
  }
  Drawn out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!drawn[i] && (long_ones >= kFewestToDraw || !is_long(all[i]))) continue;
    out.cycles.push_back(all[i]);
    out.drawn.push_back(drawn[i]);
  }
  return out;
}

bool alike(const CycleCurve& a, const CycleCurve& b) {
  const double x = std::min(a.reach, b.reach);
  const double less = std::min(a.curve.at(x), b.curve.at(x));
  const double more = std::max(a.curve.at(x), b.curve.at(x));
  return more <= kSameKind * less + kSameBytes;
}

/// Whether windows of one length differ by more than cycles of one kind do: bursts, in some of them
/// and not in others.
bool differ(const std::vector<CycleCurve>& cycles) {
  double reach = cycles.front().reach;
  for (const auto& cycle : cycles) reach = std::max(reach, cycle.reach);
  const auto differ_at = [&](double x) {
    double least = 0;
    double most = 0;
    std::size_t count = 0;
    for (const auto& cycle : cycles) {
      if (cycle.reach < x * (1 - kSameProgress)) continue;
      const double here = cycle.curve.at(x);
      least = count == 0 ? here : std::min(least, here);
      most = std::max(most, here);
      ++count;
    }
    return count >= kFewestToDraw && most > kSameKind * least + kSameBytes;
  };
  double x = kShortestWindow;
  while (x <= reach && !differ_at(x)) x *= kNextWindow;
  return x <= reach;
}

/// Where what is going on now began: the last boundary with no cycle before it like any after it,
/// as between a program's set-up, or another program, and its work. Phases that come back stay.
std::size_t begin_of_now(const std::vector<CycleCurve>& cycles) {
  for (std::size_t at = cycles.size() - 1; at > 0; --at) {
    bool apart = true;
    for (std::size_t i = 0; apart && i < at; ++i) {
      for (std::size_t j = at; apart && j < cycles.size(); ++j)
        apart = !alike(cycles[i], cycles[j]);
    }
    if (apart) return at;
  }
  return 0;
}

/// vCPU seconds a second that a guest takes while it waits for its clock (its kernel, a program
/// that asks again and again): by moments in which next to nothing was written. 0 if too few were
/// seen, or it sleeps.
double waiting_share(const std::vector<CycleCurve>& cycles) {
  std::vector<double> shares;
  for (const auto& cycle : cycles) {
    std::optional<double> share;
    for (const auto& look : cycle.looks) {
      if (look.wall > kMomentOfWaiting || look.unique > kWaitingBytes) break;
      share = look.progress / look.wall;
    }
    if (share) shares.push_back(*share);
  }
  if (shares.size() < kFewestToDraw) return 0;
  const double share = median(shares);
  return share < kLeastWaiting ? 0 : share;
}

/// Bytes a second that the guest writes while it does nothing else: the most that was seen.
double quickest_writing(const std::vector<CycleCurve>& cycles) {
  double out = 0;
  for (const auto& cycle : cycles) {
    CycleCurve::Look before;
    for (const auto& look : cycle.looks) {
      const double took = look.wall - before.wall;
      if (took >= kLongEnoughToTell) out = std::max(out, (look.unique - before.unique) / took);
      before = look;
    }
  }
  return out;
}

/// CPU time that was work by each look of a cycle. Who writes does not wait meanwhile: of the time
/// between two looks so much is work as the quickest writing explains, and beside it what is more
/// than waiting takes.
std::vector<double> work_until(const CycleCurve& cycle, double waiting, double quickest) {
  std::vector<double> out;
  double work = 0;
  CycleCurve::Look before;
  for (const auto& look : cycle.looks) {
    const double took = look.wall - before.wall;
    const double least = quickest > 0 ? (look.unique - before.unique) / quickest : 0;
    const double waited = waiting * std::max(0.0, took - least);
    work += std::max(0.0, look.progress - before.progress - waited);
    out.push_back(work);
    before = look;
  }
  return out;
}

/// What is not waiting, of all of them together. 0: it can't be told.
double work_share_of(const std::vector<CycleCurve>& cycles, double waiting, double quickest) {
  double work = 0;
  double wall = 0;
  for (const auto& cycle : cycles) {
    work += work_until(cycle, waiting, quickest).back();
    wall += cycle.wall;
  }
  return waiting > 0 && wall > 0 ? work / wall : 0;
}

/// A window that begins at any moment of a guest's own beat finds, on average, no more in its
/// second half than in its first: D is concave. What is not so was seen by cycles that fell in step
/// with the beat (of a guest that writes 1.5 MB each 100 ms most began just after it did: 0.1 MB in
/// 50 ms). So it is raised, up to `last`, to the least concave curve above it.
std::vector<Knot> concave(std::vector<Knot> knots, double last) {
  std::size_t count = 0;
  while (count < knots.size() && knots[count].x <= last) ++count;
  std::size_t from = 0;
  while (from + 1 < count) {
    std::size_t steepest = from + 1;
    const auto slope = [&](std::size_t to) {
      return (knots[to].y - knots[from].y) / (knots[to].x - knots[from].x);
    };
    for (std::size_t to = from + 2; to < count; ++to) {
      if (slope(to) > slope(steepest)) steepest = to;
    }
    const double rise = slope(steepest);
    for (std::size_t at = from + 1; at < steepest; ++at) {
      knots[at].y = knots[from].y + rise * (knots[at].x - knots[from].x);
    }
    from = steepest;
  }
  return knots;
}

/// Where the merged curve gets its knots: where cycles have theirs, thinned.
std::vector<double> grid_of(const std::vector<CycleCurve>& cycles) {
  std::vector<double> all;
  for (const auto& cycle : cycles) {
    for (const auto& knot : cycle.curve.knots()) all.push_back(knot.x);
  }
  std::sort(all.begin(), all.end());
  double same = kSameProgress;
  std::vector<double> out;
  do {
    out.clear();
    for (const double x : all) {
      if (x > 0 && (out.empty() || x > out.back() * (1 + same))) out.push_back(x);
    }
    same *= 2;
  } while (out.size() > kMostKnots);
  return out;
}

/// Unique bytes of the cycles that got that far.
std::vector<double> values_at(const std::vector<CycleCurve>& cycles, double progress) {
  std::vector<double> out;
  for (const auto& cycle : cycles) {
    if (cycle.reach >= progress * (1 - kSameProgress)) out.push_back(cycle.curve.at(progress));
  }
  return out;
}

/// What they wrote between two looks, those that got to the second.
std::vector<double> steps_between(const std::vector<CycleCurve>& cycles, double from, double to) {
  std::vector<double> out;
  for (const auto& cycle : cycles) {
    if (cycle.reach < to * (1 - kSameProgress)) continue;
    out.push_back(std::max(0.0, cycle.curve.at(to) - cycle.curve.at(from)));
  }
  return out;
}

double spread_of(const std::vector<double>& values, double middle) {
  const double n = static_cast<double>(values.size());
  if (values.size() < 2) return kUnknownSpread * middle;
  const double seen = robust_deviation(values);
  const double prior = kPriorSpread * middle;
  return std::sqrt((n * seen * seen + kPriorCycles * prior * prior) / (n + kPriorCycles));
}

/// A program that writes in bursts has cycles of two kinds in a short window, with a burst or
/// without: those that were seen count, however few.
double with_band(double middle, double spread, const std::vector<double>& seen, Band band) {
  if (band == Band::Low) {
    return std::max(0.0, std::min(quantile(seen, 0.05), middle - kTwoSided95 * spread));
  }
  if (band == Band::Middle) return middle;
  return std::max(quantile(seen, 0.95), middle + kTwoSided95 * spread);
}

std::vector<Knot> merge(const std::vector<CycleCurve>& cycles, Band band) {
  std::vector<Knot> out{{0, 0}};
  double before = 0;  // the last x, with its middle and its spread as a share of it
  double middle = 0;
  double share = kUnknownSpread;
  for (const double x : grid_of(cycles)) {
    const auto values = values_at(cycles, x);
    if (values.empty()) break;
    if (2 * values.size() >= cycles.size()) {
      middle = std::max(middle, median(values));
      if (middle > 0) share = spread_of(values, middle) / middle;
    } else {
      // Most were cut short: the few that went on tell how it goes on, not where it begins. But the
      // middle has no less than all of these, as a burst that most have met later is in them; and
      // no more, as one that most had met before is not in it twice.
      const double here = middle + median(steps_between(cycles, before, x));
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      const bool told = values.size() >= kFewestToTell;
      middle = std::max(middle, told ? std::clamp(here, *least, *most) : here);
    }
    before = x;
    out.push_back({x, with_band(middle, share * middle, values, band)});
  }
  return out;
}

/// A cycle beyond where it was seen. One that wrote more than the middle by then goes on so; one
/// that wrote less has met no burst yet: what the middle has at its beginning is still to come, and
/// by then it has written no less than any that got that far. (The bursts of a guest that writes
/// 8 MB each half second are in all windows of that length, and half of its cycles end before.)
std::vector<Knot> continued(const CycleCurve& cycle, const std::vector<CycleCurve>& all,
                            const MonotoneCurve& middle) {
  auto knots = cycle.curve.knots();
  const double here = cycle.curve.at(cycle.reach);
  const double above = here - middle.at(cycle.reach);
  std::vector<double> grid;
  for (const auto& knot : middle.knots()) {
    if (knot.x > cycle.reach) grid.push_back(knot.x);
    if (above < 0 && knot.x > 0) grid.push_back(cycle.reach + knot.x);
  }
  std::sort(grid.begin(), grid.end());
  for (const double x : grid) {
    if (x <= knots.back().x) continue;
    double y = above >= 0 ? middle.at(x) + above
                          : std::min(middle.at(x), here + middle.at(x - cycle.reach));
    const auto seen = values_at(all, x);
    if (seen.size() >= kFewestToTell) y = std::max(y, *std::min_element(seen.begin(), seen.end()));
    knots.push_back({x, std::max(knots.back().y, y)});
  }
  return knots;
}

/// Also beyond what was seen. Pages that are written again and again saturate: where the slope fell
/// from one doubling of the time to the next, it goes on falling, in each doubling by so much more
/// as it did: by twice as much for a guest that writes at random (6 MB/s into 32 MB: 29.8 MB in
/// 10 s and 36.5 in 33, where along the last slope it would have been 69), by no more for one that
/// writes some pages more often than others (11.8 MB in 5 s, 15.6 in 10).
double extended(const MonotoneCurve& curve, double x) {
  if (curve.empty() || x <= curve.knots().back().x) return curve.at(x);
  const double end = curve.knots().back().x;
  const auto slope_to = [&](double to) { return (curve.at(to) - curve.at(to / 2)) / (to / 2); };
  const double last = slope_to(end);
  const double before = slope_to(end / 2);
  if (!(last > 0)) return curve.at(end);
  if (before <= last) return curve.at(x);
  double fall = std::log(before / last);
  const double fell = std::log(std::max(1.0, slope_to(end / 4) / before));
  const double more = fell > 0 ? std::clamp(fall / fell, 1.0, 2.0) : 2.0;
  double y = curve.at(end);
  double slope = last;
  for (double from = end; from < x && slope > kNoSlope * last; from *= 2) {
    fall *= more;
    slope *= std::exp(-fall);
    // Within it, too.
    const double part = std::min(1.0, x / from - 1);
    y += slope * from * (fall > kNoFall ? std::expm1(-fall * part) / std::expm1(-fall) : part);
  }
  return y;
}

/// The progress after kHeldFrom, of the cycle that comes nearest; 0 if none got that far.
double progress_when_held(const CycleCurve& cycle) {
  double x = 0;
  for (const auto& look : cycle.looks) {
    if (look.wall < kHeldFrom * (1 + kSameProgress)) x = look.x;
  }
  return cycle.wall < kHeldFrom * (1 - kSameProgress) ? 0 : x;
}

/// Windows of one length look alike wherever they begin, so one of twice the length writes no more,
/// on average, than two. A cycle that saw much more than that, once, saw a program that set up: in
/// one 46 MB were written between 5 and 10 s, and 8 MB in any 10 s since, of which no other cycle
/// of that length told; two moves were said to send 16 and 32% more than they did.
void hold_to_mean(std::vector<CycleCurve>& cycles) {
  std::vector<double> progresses;
  for (const auto& cycle : cycles) {
    if (const double x = progress_when_held(cycle); x > 0) progresses.push_back(x);
  }
  if (progresses.size() < kFewestToTell) return;
  const double from = median(progresses);
  const auto values = values_at(cycles, from);
  if (values.size() < kFewestToTell) return;
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  // What is written once in a minute is a twelfth of it in any 5 s.
  for (const auto& cycle : cycles) {
    if (cycle.reach > from) mean = std::max(mean, cycle.curve.at(cycle.reach) * from / cycle.reach);
  }
  for (auto& cycle : cycles) {
    auto knots = cycle.curve.knots();
    const double usual = std::max(mean, cycle.curve.at(from));
    for (auto& knot : knots) {
      if (knot.x > from) {
        knot.y = std::clamp(kHeldTo * usual * knot.x / from, cycle.curve.at(from), knot.y);
      }
    }
    cycle.curve = MonotoneCurve(std::move(knots));
  }
}

std::vector<Knot> guess(double in_use, Band band) {
  if (band == Band::Low) return {{0, 0}, {kGuessWindow, 0}};
  const double wws = band == Band::High ? in_use : kGuessShare * in_use;
  return {{0, 0}, {kGuessWindow, wws}, {2 * kGuessWindow, wws}};
}

}  // namespace

std::vector<DirtyCycle> cycles_since(std::vector<DirtyCycle> cycles, WallTime begin) {
  auto first = std::find_if(cycles.begin(), cycles.end(), [&](const DirtyCycle& cycle) {
    return cycle.began >= begin && !cycle.points.empty();
  });
  if (first == cycles.end() && !cycles.empty()) --first;
  cycles.erase(cycles.begin(), first);
  return cycles;
}

std::vector<DirtyCycle> cycles_of_program(std::vector<DirtyCycle> cycles, WallTime begin) {
  cycles = cycles_since(std::move(cycles), begin);
  const WallTime settled = begin + kSetsUpFor;
  const bool enough = std::any_of(cycles.begin(), cycles.end(), [&](const DirtyCycle& cycle) {
    return cycle.began >= settled && is_long(cycle);
  });
  return enough ? cycles_since(std::move(cycles), settled) : cycles;
}

DirtyCurve::DirtyCurve(std::vector<Knot> knots, double share, double total_bytes)
    : curve_(std::move(knots)), share_(share), total_(total_bytes) {
  find_wws();
}

void DirtyCurve::find_wws() {
  flattens_ = false;
  for (const auto& knot : curve_.knots()) {
    const double here = bytes(knot.x);
    wws_ = here;
    if (!(knot.x > 0) || 2 * knot.x > curve_.knots().back().x) continue;
    if (bytes(2 * knot.x) - here < 0.1 * here) {
      flattens_ = true;
      wws_ = bytes(2 * knot.x);
      break;
    }
  }
}

DirtyCurve DirtyCurve::from(const MemoryProfile& profile, Band band) {
  const auto total = static_cast<double>(profile.total.count);
  auto cycles = curves_of(profile.cycles);
  if (cycles.empty()) {
    DirtyCurve out(guess(static_cast<double>((profile.total - profile.zero).count), band), 1,
                   total);
    out.watched_ = false;
    return out;
  }
  cycles.erase(cycles.begin(), cycles.begin() + static_cast<std::ptrdiff_t>(begin_of_now(cycles)));
  hold_to_mean(cycles);
  std::vector<double> shares;
  for (const auto& cycle : cycles) shares.push_back(cycle.share);
  // Of bursts the middle is the usual window, not the mean.
  const double last = differ(cycles) ? 0 : kConcaveUpTo * median(shares);
  const auto merged = [&](Band which) {
    auto knots = merge(cycles, which);
    return which == Band::Low ? knots : concave(std::move(knots), last);
  };
  DirtyCurve out(merged(band), median(shares), total);
  if (band != Band::Middle) {
    out.middle_ = MonotoneCurve(merged(Band::Middle));
    out.band_ = band;
    out.find_wws();
  }
  return out;
}

std::vector<DirtyCurve> DirtyCurve::each(const MemoryProfile& profile) {
  const Drawn chosen = to_draw(profile.cycles);
  auto all = curves_of(chosen.cycles);
  if (all.empty()) return {};
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin_of_now(all)));
  hold_to_mean(all);
  std::vector<CycleCurve> cycles;
  std::copy_if(all.begin(), all.end(), std::back_inserter(cycles),
               [&](const CycleCurve& cycle) { return chosen.drawn[cycle.index]; });
  if (cycles.size() < kFewestToDraw || !differ(cycles)) return {};
  const MonotoneCurve middle(merge(all, Band::Middle));
  const auto total = static_cast<double>(profile.total.count);
  std::vector<double> shares;
  for (const auto& cycle : cycles) shares.push_back(cycle.share);
  const double waiting = waiting_share(cycles);
  const double quickest = quickest_writing(cycles);
  const double work_share = work_share_of(cycles, waiting, quickest);
  std::vector<DirtyCurve> out;
  for (const auto& cycle : cycles) {
    DirtyCurve& curve = out.emplace_back(continued(cycle, all, middle), median(shares), total);
    curve.work_share_ = work_share;
    const auto work = work_until(cycle, waiting, quickest);
    for (std::size_t i = 0; i < work.size(); ++i) {
      curve.paces_.push_back({cycle.looks[i].x, cycle.looks[i].wall, work[i]});
    }
  }
  return out;
}

double DirtyCurve::bytes_held(double wall_s, double awake, double first_write_s) const {
  if (!told_apart()) return bytes(awake * wall_s);
  if (!(awake > 0)) return 0;
  const bool late = work_share_ > awake;
  double done = 0;  // wall time
  Pace before;
  for (const auto& pace : paces_) {
    const double fresh = bytes(pace.x) - bytes(before.x);
    const double worked = done + (pace.work - before.work + first_write_s * fresh) / awake;
    const double then = late ? worked : std::max(pace.wall, worked);
    if (then > wall_s) {
      return bytes(before.x + (pace.x - before.x) * (wall_s - done) / (then - done));
    }
    done = then;
    before = pace;
  }
  return bytes(before.x + (wall_s - done) * share_ * (late ? awake / work_share_ : 1));
}

double DirtyCurve::bytes(double progress_s) const {
  if (progress_s <= 0) return 0;
  double here = band_ == Band::High ? curve_.at(progress_s) : extended(curve_, progress_s);
  if (band_ == Band::Low) here = std::min(here, extended(middle_, progress_s));
  if (band_ == Band::High) here = std::max(here, extended(middle_, progress_s));
  return std::min(total_, here);
}

double DirtyCurve::progress_for(double wanted) const {
  if (wanted <= 0) return 0;
  double high = curve_.empty() ? 1 : std::max(1e-3, curve_.knots().back().x);
  while (bytes(high) < wanted) {
    high *= 2;
    if (high > kNever) return kNever;
  }
  double low = 0;
  for (int i = 0; i < 60 && high - low > 1e-9 * high; ++i) {
    const double middle = (low + high) / 2;
    (bytes(middle) < wanted ? low : high) = middle;
  }
  return high;
}

double DirtyCurve::in_both(double first_s, double second_s) const {
  const double first = bytes(first_s);
  const double second = bytes(second_s);
  return std::clamp(first + second - bytes(first_s + second_s), 0.0, std::min(first, second));
}

double DirtyCurve::dirty_rate(double wall_s) const {
  return wall_s > 0 ? bytes(share_ * wall_s) / wall_s : 0;
}

}  // namespace mare::policy
