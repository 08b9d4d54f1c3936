// When a hybrid migration of a guest that sweeps over its memory had best switch to post-copy.
//
// Such a guest, faster than the link, never converges. After the switch the missing pages come
// once, in the order of addresses, and it stands still wherever it is before they are: one that is
// twice as fast as the link loses between half and all of the time that they take, by where it is
// then. But what was sent after it had been there is not missing. So a while after the last whole
// round it comes to a stretch that is at the destination already, and while it goes through that,
// the stream gets ahead of it.
//
// Pure. Time in units of what sending all that it sweeps takes once; places as shares of that, in
// the order of addresses.
#pragma once

#include <vector>

namespace mare::policy {

struct SweepEnd {
  double missing = 0;  // of what it sweeps, at the switch
  double lost = 0;     // its time, until all is there
};

class SweepReplay {
 public:
  /// `speed`: times through a unit of time, so over 1 where it is faster than the link. `slowdown`:
  /// of it, while it is sent before the switch.
  SweepReplay(double speed, double slowdown, bool descending);

  /// With the switch so long after the end of a round that sent all, the guest being at `place`
  /// then.
  SweepEnd switched(double place, double wait) const;
  /// The wait after which it loses least, if it is near that place; at most kLongestWait.
  double best_wait(double place) const;
  /// That for places in so many equal parts.
  std::vector<double> best_waits(int parts) const;
  /// Which of these places it had best begin from: it loses least there and beside it, as nobody
  /// hits a place exactly.
  double best_place(const std::vector<double>& waits) const;
  /// How far before the best place (share of one time through) the round is worth being held up for
  /// it, if a second of that is worth three tenths of one of the guest's: so that over all places
  /// most is won.
  double longest_way(const std::vector<double>& waits, double best) const;

  /// The guest's way from that place to the best one, share of one time through.
  double way(double place, double best) const;

  /// How far from the best place it may be, a standard case and the most.
  static constexpr double kUsualMiss = 0.08;
  static constexpr double kMostMiss = 0.2;

  // Rounds end earlier than all is sent; a new one would mark all anew.
  static constexpr double kLongestWait = 0.9;

 private:
  double speed_;
  double slowed_;
  bool descending_;
};

}  // namespace mare::policy
