// D(t): unique bytes that a guest writes in t seconds of its own progress (vCPU time), merged from
// the cycles of the dirty-page log. The input of every forecast (replay.h). Of a guest that writes
// by a clock, whose cycles agree clearly better over wall time, t is its mean share of the wall
// time.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/core/units.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/monotone_curve.h"

namespace mare::policy {

/// Where D(t) of one window to come is to be looked for: the middle of the cycles that were seen,
/// or the ends of their 95% range.
enum class Band { Low, Middle, High };

/// Those that began at that time or later: what was written before, another program wrote. The last
/// one stays in any case.
std::vector<DirtyCycle> cycles_since(std::vector<DirtyCycle> cycles, WallTime begin);

/// The same of a program that began then, and without those that began while it set up (MPI's
/// start, memory that it fills once) if others tell enough of it.
std::vector<DirtyCycle> cycles_of_program(std::vector<DirtyCycle> cycles, WallTime begin);

class DirtyCurve {
 public:
  /// Median and spread over the cycles of the phase that goes on now, at each progress that one of
  /// them reached. Where most were cut short, the others' steps are added.
  static DirtyCurve from(const MemoryProfile& profile, Band band = Band::Middle);
  /// One for each cycle of the phase that goes on now, beyond its own end along the middle of all.
  /// Empty where they are alike, or fewer than three: then the middle and its range tell all. A
  /// guest that writes in bursts is like none of its middles.
  static std::vector<DirtyCurve> each(const MemoryProfile& profile);
  /// From knots of progress (s) and unique bytes, for tests and baselines. `share`: vCPU seconds a
  /// second of wall time. Never above total_bytes.
  DirtyCurve(std::vector<MonotoneCurve::Knot> knots, double share, double total_bytes);

  /// D(progress_s). After the last knot as it flattened before, never above the memory's size; the
  /// high end of the range along the last slope.
  double bytes(double progress_s) const;
  /// The least progress in which that much is written; what the curve never reaches takes kNever.
  double progress_for(double bytes) const;
  /// What is written in so much wall time by a guest whose CPUs are held back to `awake` of one
  /// (over 0). One that waits for a clock does its work when that strikes, however long it takes,
  /// and is only late if it does not get done before the next time; then it does not wait any more,
  /// and all windows are full of its work. Where told_apart(); else D(awake x wall).
  /// `first_write_s`: what each byte that is written for the first time takes beyond that, in CPU
  /// time.
  double bytes_held(double wall_s, double awake, double first_write_s = 0) const;
  /// Whether its work could be told from its waiting for a clock: of each() alone.
  bool told_apart() const { return work_share_ > 0; }
  /// vCPU seconds a second of wall time that are its work, not its waiting for a clock.
  double work_share() const { return work_share_; }
  /// Bytes written in both of two adjoining windows: D(a) + D(b) - D(a + b), as windows of one
  /// length look alike wherever they begin.
  double in_both(double first_s, double second_s) const;

  double share() const { return share_; }
  double total_bytes() const { return total_; }
  /// WWS: D where twice the progress adds less than a tenth; if it never flattens, the last D.
  double wws_bytes() const { return wws_; }
  bool flattens() const { return flattens_; }
  /// Unique bytes a second of wall time in a window of `wall_s`, the guest running freely.
  double dirty_rate(double wall_s) const;
  /// False: no cycle was seen, and the curve is a guess (see dirty_curve.cpp).
  bool watched() const { return watched_; }

  static constexpr double kNever = 1e12;  // s

 private:
  /// Where the cycle was after so much wall time and work.
  struct Pace {
    double x = 0;  // as in D(x)
    double wall = 0;
    double work = 0;
  };
  void find_wws();

  MonotoneCurve curve_;
  std::vector<Pace> paces_;
  double work_share_ = 0;  // 0: not known
  // An end of the range crosses the middle nowhere, though curves through ordered knots may cross.
  MonotoneCurve middle_;
  Band band_ = Band::Middle;
  double share_ = 1;
  double total_ = 0;
  double wws_ = 0;
  bool flattens_ = false;
  bool watched_ = true;
};

/// A time at which the VM is going to write less than usual.
struct Trough {
  WallTime at{0};
  Seconds period{0};  // the writing repeats after it
  Seconds lasts{0};   // one cycle of the log: it is not known more exactly
  double bytes = 0;   // written in a window of kTroughWindow then
  double usual = 0;   // and at the median
};
inline constexpr double kTroughWindow = 5;  // s of wall time: as the log is read in every cycle

/// Looks for a period in the cycles' history (autocorrelation of the bytes of each cycle's first
/// kTroughWindow) and tells when the next trough begins, at the earliest `now`, at the latest
/// `deadline`. None: too short a history, no period, or no trough below 7/10 of the usual.
std::optional<Trough> next_trough(const std::vector<DirtyCycle>& cycles, WallTime now,
                                  WallTime deadline);
/// Those cycles that began as far into their period as the trough does: how the VM writes then.
std::vector<DirtyCycle> cycles_of(const std::vector<DirtyCycle>& cycles, const Trough& trough);

}  // namespace mare::policy
