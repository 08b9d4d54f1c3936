// The rounds of pre-copy as QEMU 10 makes them.
//
//   marked    pages that are to be sent; all at first. A page that is written after it was sent is
//             marked again only when the log is looked at ("sync"), never between.
//   slice     pages go out; after each slice: if marked < bandwidth * downtime limit, sync; if
//             marked is still below, stop and send the rest, else a new round begins.
// So a round ends before all its pages are sent, and the rest goes over into the next one.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>

#include "orchestrator/core/rng.h"
#include "orchestrator/model/hovering_rounds.h"
#include "orchestrator/policy/crowding.h"
#include "orchestrator/policy/replay.h"
#include "orchestrator/policy/statistics.h"
#include "orchestrator/policy/sweep.h"

namespace mare::policy {
namespace {

constexpr int kMostRounds = 500;
constexpr int kMostRoundsDrawn = 200;
constexpr double kLongest = 7 * 86400;  // s
// So many rounds alike, each within this share of the one before, go on for ever.
constexpr int kAlike = 8;
constexpr double kSame = 1e-4;
// However crowded a host is, a thread comes to run.
constexpr double kLeastCpu = 0.05;
// The dirty-page log looks for at least so long.
constexpr double kGlance = 0.2;  // s
// A round that leaves a little more than the threshold may as well have left less: which pages are
// written, and where in a slice it ends, varies. By as much as windows of its length were seen to
// be below their middle (of a sweep that a link at 100 Mbit/s just carries, rounds of 0.1 s had
// 0.4 to 1.8 MB, mostly 1.5), and at least as if each page were written by chance, so with the
// square root of their number; a deviation is at most this share of what is left. Of a sort and a
// sweep that auto-converge slowed on a link that they nearly fill, four moves took 24 to 35 s: 10%
// gave one of them 61, 25% another one 23, 15% all within 15%.
constexpr double kMostUnsure = 0.15;
// Of the looks at a guest that is late with its work one in so many finds nothing written: its
// kernel's turn, or that of what waits for another rank. (6 of some 64 looks at throttled ones; the
// rest found 1 to 6 MB each.)
constexpr std::uint64_t kLooksForNothing = 10;
// Wire and CPUs of a compressed move add by this power. First rounds over 1 Gbit/s were 4.5% longer
// in the median of 14 moves than 2.5 makes them, and 26% longer of 28 on a machine half as quick:
// in time those are said 1% too short so (14% by 2.5), and 24 over 100 Mbit/s, where packing takes
// a fifth of the wire's time, 1% too long.
constexpr double kOverlap = 1.5;

class Rounds {
 public:
  Rounds(const ReplayInput& input, const HypervisorCosts& costs)
      : in_(input),
        costs_(costs),
        curve_(*input.curve),
        cold_(input.total_bytes),
        rng_(input.seed) {
    const double total = std::max(1.0, input.total_bytes);
    zero_share_ = std::clamp(input.zero_bytes / total, 0.0, 1.0);
    const bool compressed = strategy() == Strategy::Compressed;
    const double header = costs.page_header_bytes / costs.page_bytes;
    const auto wire = [&](double fraction) {
      return (compressed ? std::clamp(fraction, 0.001, 1.0) : 1) + header;
    };
    page_wire_ = wire(input.compressed_fraction);
    hot_wire_ = wire(input.hot_compressed_fraction.value_or(input.compressed_fraction));
    cold_wire_ =
        (1 - zero_share_) * page_wire_ + zero_share_ * costs.zero_page_bytes / costs.page_bytes;
    limit_ = std::min(input.link_rate, settable(input.rate_limit.value_or(input.link_rate)));
    if (!compressed) limit_ = std::min(limit_, input.link_rate * filled_share());
    cpu_rate_ = compressed ? compress_rate() : costs.copy_rate;
    // One packet waits for a channel, and of those that the channels have half is sent.
    if (compressed)
      in_channels_ = costs.channel_bytes * (1 + 0.5 * std::max(1, input.sending.channels));
    rate_ = limit_;
    if (strategy() == Strategy::RateControlled) rate_ = std::min(limit_, settable(least_rate()));
    now_ = costs.set_up_s;
    looked_ = now_;
    next_look_ = costs.throttle_sync_s;
  }

  double rate_of_last_round() const { return std::min(in_.link_rate, 1 / hot_s(in_.link_rate)); }

  Replay run() {
    if (strategy() == Strategy::PostCopy) {
      lead();
      switch_to_post_copy();
      return out_;
    }
    while (!over_) round();
    return out_;
  }

 private:
  Strategy strategy() const { return in_.sending.strategy; }
  double least_rate() const {
    return std::min(most_rate(), std::max(1.0, in_.sending.rate_min.value));
  }
  double most_rate() const {
    const double asked = in_.sending.rate_max.value;
    return asked > 0 ? std::min(limit_, asked) : limit_;
  }
  double marked() const { return cold_ + hot_; }
  double limit_share() const {
    return told_ ? 1 : later_limit_share(static_cast<int>(out_.rounds.size()));
  }
  bool limit_rises() const { return in_.later_downtime_limit_s && limit_share() < 1; }
  double downtime_limit_s() const {
    const double most = in_.later_downtime_limit_s.value_or(in_.downtime_limit_s);
    return in_.downtime_limit_s + limit_share() * (most - in_.downtime_limit_s);
  }
  /// A throttled guest may use what is left of its CPUs: one that is idle half of the time does all
  /// its work at 50%.
  double awake() const {
    return std::max({in_.most_share, in_.awake_share, curve_.share()}) * (1 - throttle_);
  }
  /// Of a guest under a quota a throttle takes first what that keeps from it anyway; until then a
  /// burst is as long as ever and comes by its clock.
  bool held_back() const { return throttle_ > 0 && awake() < in_.most_share; }
  double progress_rate() const { return std::min(curve_.share(), awake()) * (1 - in_.slowdown); }
  /// Of the job's time, a second: what it would have done and does not. One that computes half of
  /// the time that it may loses half of it.
  double held_rate() const {
    if (!(curve_.share() > 0) || !(throttle_ > 0)) return 0;
    const double inflation = in_.emulated ? costs_.emulated_inflation : 1;
    if (told_apart()) {
      return std::max(0.0, 1 - awake() / (in_.cycles->front().work_share() * inflation));
    }
    const double wanted = curve_.share() * inflation;
    const double busy = std::min(1.0, curve_.share() / in_.most_share);
    return busy * std::max(0.0, 1 - awake() / wanted);
  }
  /// What comes of a limit below the link's own rate: it is set in whole steps, and exceeded by a
  /// part of a write in each window.
  double settable(double rate) const {
    if (rate >= in_.link_rate || !(costs_.rate_step > 0)) return rate;
    const double told = std::max(1.0, std::floor(rate / costs_.rate_step)) * costs_.rate_step;
    const double writes = std::ceil(told * costs_.rate_window_s / costs_.write_bytes);
    return std::min(in_.link_rate, writes * costs_.write_bytes / costs_.rate_window_s);
  }

  /// Of the link's time in a live round.
  double filled_share() const {
    const double others = unfilled_share(in_.busy_cpus, in_.host_cpus, in_.link_rate, costs_);
    return std::min(1.0, in_.filled_by_job * (1 - others));
  }

  /// What all channels together compress. Where the host has no CPUs to spare, they and the guests
  /// get a share of what they want, all alike; but guests with a quota want little and get it, and
  /// the channels what is left. Of the same CPUs the other end unpacks, if it is on this machine.
  double compress_rate() {
    const double threads =
        std::min<double>(std::max(1, in_.sending.channels), costs_.compress_cpus);
    const double wire = limit_ / page_wire_;
    const double each = in_.one_machine ? 1 / (1 / costs_.compress_rate + 1 / costs_.unpack_rate)
                                        : costs_.compress_rate;
    double rate = costs_.compress_rate * threads;
    if (in_.one_machine) rate = std::min(rate, costs_.unpack_rate * threads);
    const double wanted = std::min(rate, wire) / each;
    double share = 1;
    if (in_.host_cpus > 0) share = std::min(1.0, in_.host_cpus / (in_.busy_cpus + wanted));
    out_.crowded = std::max(1 - share, 0.5 * others_busy(wanted));
    unpack_s_ = costs_.unpack_s * behind();
    if (in_.host_cpus > 0 && in_.cpu_quota > 0) return std::min(rate, each * beside_quotas());
    return rate * share;
  }

  /// Of the time: the CPUs that the guest is not on are all busy with what wants so many CPUs, and
  /// what of it wakes then shares the guest's own by halves.
  double others_busy(double wanted) const {
    return in_.host_cpus > 0 ? all_busy(wanted, in_.host_cpus, std::max(1.0, in_.host_cpus - 1))
                             : 0;
  }

  /// How busy the destination's slower end is with what comes last, 0 to 1, of a CPU: that may be
  /// the most compressible of the memory, of which the wire brings most.
  double behind() const {
    const double comes = limit_ / std::min(page_wire_, hot_wire_);
    return std::min(1.0, comes / std::min(costs_.compress_rate, costs_.unpack_rate));
  }

  /// CPUs that are left for the threads of a VM that are no CPU of its guest, on a host of guests
  /// that each have its quota: what is idle, or its equal part as one of them.
  double beside_quotas() const {
    const double guests = std::max(1.0, in_.busy_cpus / in_.cpu_quota);
    const double part = in_.host_cpus / guests - in_.cpu_quota;
    return std::max({in_.host_cpus - in_.busy_cpus, part, kLeastCpu});
  }

  /// Seconds to send a marked byte: the wire or the CPU, whichever is slower.
  double cold_s(double rate) const {
    return together(cold_wire_ / rate, (1 - zero_share_) / cpu_rate_) +
           zero_share_ / costs_.zero_scan_rate;
  }
  double hot_s(double rate) const { return together(hot_wire_ / rate, 1 / cpu_rate_); }
  /// A channel sends nothing while it packs, and what waits for the other end to unpack is bounded:
  /// the wire is idle at times though it is the slower, and so are the CPUs.
  double together(double wire_s, double cpu_s) const {
    if (strategy() != Strategy::Compressed) return std::max(wire_s, cpu_s);
    return std::pow(std::pow(wire_s, kOverlap) + std::pow(cpu_s, kOverlap), 1 / kOverlap);
  }
  double marked_s(double rate) const { return cold_ * cold_s(rate) + hot_ * hot_s(rate); }
  double marked_wire() const { return cold_ * cold_wire_ + hot_ * hot_wire_; }

  bool rate_is_told() const { return in_.sending.switchover_bandwidth.has_value(); }
  /// Memory below which QEMU stops, by the rate that it was told or else sees: it takes compressed
  /// bytes a second for pages a second.
  double threshold() const { return rate_of_stop() * downtime_limit_s(); }
  double rate_of_stop() const {
    return rate_is_told() ? in_.sending.switchover_bandwidth->value : hot_wire_ / hot_s(rate_);
  }

  void round();
  void send_for(double duration);
  void look();
  void wait_for_cpu();
  void throttle_by(double fresh);
  void control_rate(double duration);
  bool steady(double before, double rate_before, double throttle_before, double duration);
  double once_round_s(double duration) const;
  double slice_s(double per_byte) const;
  void go_on_for_ever();
  void lead();
  void force(LimitAction how);
  void leave(double most, double in_channels);
  void stop_and_send_rest();
  void switch_to_post_copy();
  double waited_for_pages(const PostCopyPhase& phase) const;
  void wait_for_sweep();
  double until_next_look(double wanted);
  double written_since_look();
  double written_by(const Beat& beat) const;
  std::optional<Beat> held_beat() const;
  double first_write_s() const;
  bool has_beat() const { return in_.beats != nullptr && !in_.beats->empty(); }
  const Beat& beat() const { return in_.beats->at(in_.seed % in_.beats->size()); }
  bool drawn() const { return in_.cycles != nullptr && !in_.cycles->empty(); }
  /// Its work from its waiting for a clock; then a throttle takes the waiting first.
  bool told_apart() const { return drawn() && in_.cycles->front().told_apart(); }
  bool ends_by_now(double seen);
  void follow_hovering();

  const ReplayInput& in_;
  const HypervisorCosts& costs_;
  const DirtyCurve& curve_;
  Replay out_;
  bool over_ = false;

  double zero_share_ = 0;
  double page_wire_ = 1;  // of a byte of a page that is not zero
  double hot_wire_ = 1;   // of one that was written lately
  double cold_wire_ = 1;
  double cpu_rate_ = 0;
  double in_channels_ = 0;  // bytes of memory that are marked no more and not sent yet
  double unpack_s_ = 0;
  double limit_ = 0;
  double rate_ = 0;

  double now_ = 0;
  double cold_ = 0;        // marked since the start, evenly spread over memory
  double hot_ = 0;         // marked by a sync,
  double window_ = 0;      // as if written in this much progress
  double since_look_ = 0;  // progress
  double wall_since_look_ = 0;
  double looked_ = 0;  // when
  double sent_ = 0;    // in this round, on the wire

  double throttle_ = 0;
  int high_ = 0;
  double period_began_ = 0;
  double period_sent_ = 0;
  double period_fresh_ = 0;
  double next_look_ = 0;
  double waited_ = 0;  // for the last look
  int looks_ = 1;      // the one of the set-up
  int looks_at_tick_ = 1;
  std::optional<double> lost_in_sweep_;
  int alike_ = 0;
  double alike_since_ = 0;
  double unsure_ = 0;   // of what was written since the last look, bytes (1 deviation)
  bool asked_ = false;  // for the switch to post-copy
  HoveringRounds hovering_;
  bool told_ = false;   // in this round, the longer limit
  double goes_on_ = 1;  // the probability that none of its rounds so far was the last
  SeededRng rng_;
};

/// By where in its beat it is; and no less than it writes in any glance. (Of a window as long as
/// this one few were seen, and none that had a burst's end and the next one's beginning.)
double Rounds::written_by(const Beat& beat) const {
  const double glance = since_look_ * std::min(1.0, kGlance / std::max(1e-6, now_ - looked_));
  double least = in_.low != nullptr ? in_.low->bytes(glance) : 0;
  if (drawn()) {
    least = curve_.total_bytes();
    for (const auto& cycle : *in_.cycles) least = std::min(least, cycle.bytes(glance));
  }
  return std::max(least, beat.written(in_.beats_from_s + looked_, in_.beats_from_s + now_));
}

/// A throttle makes its bursts longer: each by what it is of work, at what is left of its CPUs.
/// None: one is not over when the next one begins, so that no beat is left.
std::optional<Beat> Rounds::held_beat() const {
  if (!has_beat()) return std::nullopt;
  Beat out = beat();
  if (!(throttle_ > 0)) return out;
  if (!told_apart()) return held_back() ? std::nullopt : std::optional(out);
  const double work_s =
      in_.cycles->front().work_share() * out.period_s + first_write_s() * out.bytes;
  const double lasts_s = std::max(out.burst_s, work_s / std::max(awake(), 1e-9));
  if (lasts_s >= out.period_s) return std::nullopt;
  out.fill_s *= lasts_s / out.burst_s;
  out.burst_s = lasts_s;
  return out;
}

/// CPU time, for each byte of a page that is written for the first time since a look.
double Rounds::first_write_s() const {
  return in_.emulated ? costs_.emulated_first_write_s / costs_.page_bytes : 0;
}

double Rounds::written_since_look() {
  if (const auto beat = held_beat()) return written_by(*beat);
  if (!drawn()) return curve_.bytes(since_look_);
  const DirtyCurve& cycle = in_.cycles->at(rng_.next() % in_.cycles->size());
  if (!(throttle_ > 0) || !cycle.told_apart()) {
    return cycle.bytes(in_.longer_windows * since_look_);
  }
  const bool late = awake() < cycle.work_share();
  if (late && rng_.next() % kLooksForNothing == 0) return 0;
  return cycle.bytes_held(in_.longer_windows * wall_since_look_ * (1 - in_.slowdown), awake(),
                          first_write_s());
}

/// Auto-converge's timer: it looks when nobody else did since its last tick, but not in round 0.
double Rounds::until_next_look(double wanted) {
  if (strategy() != Strategy::Throttled) return wanted;
  // Ticks at which nothing can be due, at once: over a link that is nearly dead there are millions.
  const double idle = looks_ > 1 ? now_ : now_ + wanted;
  if (next_look_ <= idle) {
    next_look_ +=
        costs_.throttle_sync_s * (std::floor((idle - next_look_) / costs_.throttle_sync_s) + 1);
    looks_at_tick_ = looks_;
  }
  while (next_look_ > idle && next_look_ <= now_ + wanted) {
    const bool due = looks_ > 1 && looks_ == looks_at_tick_ && next_look_ > now_;
    looks_at_tick_ = looks_ + (due ? 1 : 0);  // with its own
    const double at = next_look_;
    next_look_ += costs_.throttle_sync_s;
    if (due) return at - now_;
  }
  return wanted;
}

void Rounds::send_for(double duration) {
  const double all = marked_s(rate_);
  const double share = all > 0 ? std::min(1.0, duration / all) : 1;
  sent_ += share * marked_wire();
  cold_ -= share * cold_;
  hot_ -= share * hot_;
  now_ += duration;
  since_look_ += duration * progress_rate();
  wall_since_look_ += duration;
  out_.held_s += duration * held_rate();
}

/// A CPU that sleeps does nothing for the look, and nothing is sent while that waits.
void Rounds::wait_for_cpu() {
  waited_ = 0;
  if (!in_.emulated || !(throttle_ > 0)) return;
  waited_ = costs_.throttle_slice_s * throttle_ / (1 - std::min(throttle_, 0.999));
  now_ += waited_;
  out_.live_s += waited_;
  since_look_ += waited_ * progress_rate();
  wall_since_look_ += waited_;
  out_.held_s += waited_ * held_rate();
}

/// What was written since the last look joins what is still marked; what is in both counts once.
void Rounds::look() {
  wait_for_cpu();
  const double written = written_since_look();
  if (in_.low != nullptr) {
    unsure_ = std::max(0.0, curve_.bytes(since_look_) - in_.low->bytes(since_look_)) / kTwoSided95;
  }
  // A throttled one's are in what it is held back by.
  if (in_.emulated && !(throttle_ > 0)) {
    out_.first_writes_s += costs_.emulated_first_write_s * written / costs_.page_bytes;
  }
  const double seen = curve_.bytes(window_);
  const double cold_again = written * std::min(1.0, cold_ / std::max(1.0, in_.total_bytes));
  const double again =
      std::lerp(costs_.written_again, costs_.written_again_in_order, in_.sequential);
  // A round in which less was written than usual writes less of what is left again.
  const double usual = curve_.bytes(since_look_);
  const double hot_again = seen > 0 && usual > 0
                               ? curve_.in_both(window_, since_look_) * std::min(1.0, hot_ / seen) *
                                     again * std::min(1.0, written / usual)
                               : 0;
  const double fresh = std::max(0.0, written - cold_again - hot_again);
  cold_ -= std::min(cold_, cold_again);
  const bool rest = hot_ > 0.001 * written;
  // All of it was written since the first of it was.
  const double since_then = std::max({written, hot_, curve_.bytes(window_ + since_look_)});
  hot_ = std::min({written + hot_ - hot_again, since_then, std::max(0.0, in_.total_bytes - cold_)});
  window_ = rest ? std::max(since_look_, curve_.progress_for(hot_)) : since_look_;
  if (window_ >= DirtyCurve::kNever) window_ = since_look_;
  since_look_ = 0;
  wall_since_look_ = 0;
  looked_ = now_;
  ++looks_;
  throttle_by(fresh);
}

void Rounds::throttle_by(double fresh) {
  period_fresh_ += fresh;
  if (strategy() != Strategy::Throttled || now_ - period_began_ < costs_.throttle_period_s) return;
  const double sent = out_.sent_bytes + sent_ - period_sent_;
  if (period_fresh_ > costs_.throttle_trigger * sent && ++high_ >= 2) {
    high_ = 0;
    const double first = in_.sending.throttle_initial_percent / 100.0;
    const double step = in_.sending.throttle_step_percent / 100.0;
    throttle_ = std::min(costs_.throttle_most, throttle_ > 0 ? throttle_ + step : first);
  }
  period_began_ = now_;
  period_sent_ = out_.sent_bytes + sent_;
  period_fresh_ = 0;
}

/// Eq. 4.1 and 4.2 of Neves 2009; what fits into the downtime at V_max is sent at V_max.
void Rounds::control_rate(double duration) {
  if (strategy() != Strategy::RateControlled) return;
  if (marked() <= most_rate() * downtime_limit_s()) {
    rate_ = most_rate();
  } else if (duration > 0) {
    rate_ = settable(
        std::clamp(rate_ + in_.sending.rate_gain * marked() / duration, least_rate(), most_rate()));
  }
}

/// Looks wander through a guest's beat by what a round differs from a whole number of periods. One
/// that falls into a burst ends a row of rounds that were alike: so these tell of the next ones
/// only when looks have come round. (A MigTest of 24 MiB each 2 s over 100 Mbit/s had 18 and 22
/// rounds of 1.9 s, and then some of 0.3 to 1.7.)
double Rounds::once_round_s(double duration) const {
  const double off = std::abs(std::remainder(duration, beat().period_s));
  return off > 0 ? duration * beat().period_s / off : kLongest;
}

bool Rounds::steady(double before, double rate_before, double throttle_before, double duration) {
  const bool same = std::abs(marked() - before) <= kSame * before && rate_ == rate_before &&
                    throttle_ == throttle_before && cold_ <= kSame * in_.total_bytes;
  // One that is late with its work is ended by chance, however alike its rounds are.
  const bool by_chance = told_apart() && throttle_ > 0;
  alike_ = same && !limit_rises() && !by_chance ? alike_ + 1 : 0;
  if (!same) alike_since_ = now_;
  // More throttle may be about to come, and the first of it may change nothing.
  double span = strategy() == Strategy::Throttled ? 3 * costs_.throttle_period_s : 0;
  // And a pause.
  if (has_beat()) span = std::max({span, 2 * beat().period_s, once_round_s(duration)});
  const int most = drawn() || has_beat() ? kMostRoundsDrawn : kMostRounds;
  return (alike_ >= kAlike && now_ - alike_since_ >= span) ||
         static_cast<int>(out_.rounds.size()) >= most || now_ > kLongest;
}

/// The clock is looked at after each 64 pages alone: over 100 Mbit/s these take 22 ms.
double Rounds::slice_s(double per_byte) const {
  const double look_s = costs_.pages_of_look * costs_.page_bytes * per_byte;
  if (!(look_s > 0)) return costs_.iterate_s;
  return look_s * std::ceil(costs_.iterate_s / look_s);
}

/// As likely as not, some round up to this one left less than the threshold.
bool Rounds::ends_by_now(double seen) {
  if (drawn()) return marked() < seen;  // the draws are the chance
  const double pages = std::max(1.0, marked() / costs_.page_bytes);
  const double left = std::max(1.0, marked());
  // A throttle lets the guest run for a slice at a time: a window has one more of them or one less.
  const double chance = throttle_ > 0 ? kMostUnsure * left : left / std::sqrt(pages);
  const double deviation = std::min(kMostUnsure * left, std::max(chance, unsure_));
  goes_on_ *= 0.5 * std::erfc((seen - marked()) / deviation / std::sqrt(2.0));
  return goes_on_ < 0.5;
}

void Rounds::round() {
  const double before = marked();
  const double rate_before = rate_;
  const double throttle_before = throttle_;
  const double waited_before = waited_;
  const double began = now_;
  sent_ = 0;
  // On average the look comes half a slice after the threshold was passed.
  const double per_byte = marked() > 0 ? marked_s(rate_) / marked() : 0;
  const double open = std::max(0.0, marked() - in_channels_);  // as QEMU sees it
  const double down_to_threshold = std::max(0.0, open - threshold()) * per_byte;
  // A wait before it makes the rate look low, so that nothing fits, until that is seen anew.
  const bool looks_slow = waited_ > 0 && !rate_is_told();
  const double slice = slice_s(per_byte);
  const double least = looks_slow ? costs_.rate_window_s + slice / 2 : slice;
  const double wanted = std::min(std::max(least, down_to_threshold + slice / 2),
                                 std::max(costs_.look_s, open * per_byte));
  double duration = until_next_look(told_ ? costs_.limit_told_s : wanted);
  const bool limited = in_.time_limit_s && now_ + duration >= *in_.time_limit_s;
  if (limited) duration = std::max(0.0, *in_.time_limit_s - now_);
  send_for(duration);
  out_.live_s += duration;
  const double in_channels = std::min(in_channels_, marked());
  if (!limited) look();
  out_.sent_bytes += sent_;
  out_.rounds.push_back({began, duration, sent_, marked(), throttle_before});
  if (limited) {
    force(in_.at_limit);
    return;
  }
  // What fits goes by the rate of the last window, which began before this look's own wait.
  const bool as_it_is = rate_is_told() || duration >= costs_.rate_window_s;
  const double seen = threshold() * (as_it_is ? 1 : duration / (duration + waited_before));
  if (ends_by_now(seen + in_channels)) {
    // The round that ends it leaves less than the threshold, by a part of a slice, and by half of
    // what its channels took at its start, when the look before had emptied them. (Moves
    // with limits of 100, 150 and 150 ms had 5, 34 and 37 ms of pages left, as if it were all of
    // that; four with 200 ms sent 1.4 to 2.3 MB in the stop, as if it were less.)
    const double below = std::min(seen / 2, costs_.below_threshold * rate_ * slice);
    leave(told_ ? seen : seen - below - in_channels / 2, in_channels);
    stop_and_send_rest();
    return;
  }
  if (strategy() == Strategy::Hybrid &&
      static_cast<int>(out_.rounds.size()) >= std::max(1, in_.sending.pre_copy_rounds)) {
    // Until the switch is granted it goes on by rounds, and a short one may be the last.
    const bool granted = asked_ || marked_s(rate_) > costs_.post_copy_lead_s;
    asked_ = true;
    if (granted) {
      wait_for_sweep();
      switch_to_post_copy();
      return;
    }
  }
  control_rate(duration);
  follow_hovering();
  if (!steady(before, rate_before, throttle_before, duration)) return;
  go_on_for_ever();
}

/// As the agent does it: where rounds hover, the longer limit is told to each that fits into it.
void Rounds::follow_hovering() {
  if (!in_.sending.limit_rises_early || !in_.later_downtime_limit_s) return;
  told_ = hovering_.limit_rises(marked(), rate_of_stop() * *in_.later_downtime_limit_s);
}

/// Until somebody ends it: as the limit's action says, at its time; without one (for the figures)
/// by a stop now.
void Rounds::go_on_for_ever() {
  out_.converges = false;
  if (!in_.time_limit_s) {
    force(LimitAction::StopAndCopy);
    return;
  }
  const double rest = std::max(0.0, *in_.time_limit_s - now_);
  const double sent = rest * hot_wire_ / hot_s(rate_);
  out_.rounds.push_back({now_, rest, sent, marked(), throttle_});
  out_.sent_bytes += sent;
  out_.live_s += rest;
  out_.held_s += rest * held_rate();
  now_ += rest;
  force(in_.at_limit);
}

/// Pages go out until the switch to post-copy is granted.
void Rounds::lead() {
  const double began = now_;
  sent_ = 0;
  send_for(std::min(costs_.post_copy_lead_s, marked_s(rate_)));
  out_.live_s += now_ - began;
  out_.sent_bytes += sent_;
  look();
  out_.rounds.push_back({began, now_ - began, sent_, marked(), 0});
}

void Rounds::force(LimitAction how) {
  out_.forced = true;
  over_ = true;
  if (how == LimitAction::Cancel) {
    out_.cancelled = true;
    out_.total_time_s = now_;
    return;
  }
  look();
  if (how == LimitAction::PostCopy) {
    switch_to_post_copy();
  } else {
    stop_and_send_rest();
  }
}

/// So much at most for the stop, without what its channels hold: that has gone out by then.
void Rounds::leave(double most, double in_channels) {
  const double left = std::max(0.0, std::min(hot_ - in_channels, most - cold_));
  double hot = std::min(in_channels, hot_ - left);
  const double cold = std::min(in_channels - hot, cold_);
  // Some of what is marked again was never sent before, and goes in any case.
  const double sent = out_.sent_bytes + (hot + left) * hot_wire_ + cold_ * cold_wire_;
  const double missing = (in_.total_bytes * cold_wire_ - sent) / hot_wire_;
  hot += std::clamp(missing, 0.0, hot_ - left - hot);
  hot_ = left;
  cold_ -= cold;
  const double took = hot * hot_s(rate_) + cold * cold_s(rate_);
  out_.sent_bytes += hot * hot_wire_ + cold * cold_wire_;
  out_.live_s += took;
  now_ += took;
}

void Rounds::stop_and_send_rest() {
  over_ = true;
  // The rate limit is lifted for the last round.
  const double wire = marked_wire() + costs_.device_bytes;
  const double began = now_;
  const double rate = in_.link_rate * in_.still_gain;
  out_.downtime_s = costs_.switch_s + unpack_s_ + marked_s(rate) + costs_.device_bytes / rate;
  now_ += out_.downtime_s;
  out_.sent_bytes += wire;
  out_.rounds.push_back({began, out_.downtime_s, wire, 0, throttle_});
  out_.total_time_s = now_;
}

/// All that the guest sweeps is marked. It is sent again for a while, until the guest comes to what
/// will not be missing (sweep.h); and the round before was held up until it was where that is best,
/// if it was near that place.
void Rounds::wait_for_sweep() {
  const SweepSwitch& how = in_.sending.sweep_switch;
  if (how.waits.empty() || !(hot_ > 0)) return;
  const double once_s = hot_s(rate_) * hot_;
  const double period_s = std::chrono::duration<double>(how.sweep.period).count();
  const double longest_s = std::chrono::duration<double>(how.longest_hold).count();
  const SweepReplay sweep(once_s / period_s, in_.slowdown, how.sweep.descending);
  const auto parts = static_cast<int>(how.waits.size());
  double held = 0;
  double waited = 0;
  SweepEnd mean;
  const auto add = [&](double place, double miss, double weight) {
    const double hold_s = sweep.way(place, how.best_place) * period_s;
    if (hold_s <= longest_s) held += weight * hold_s;
    double end = (hold_s <= longest_s ? how.best_place : place) + miss;
    end -= std::floor(end);
    const int part = std::min(parts - 1, static_cast<int>(end * parts));
    const Milliseconds wait = how.waits[static_cast<std::size_t>(part)];
    const double wait_s = std::chrono::duration<double>(wait).count();
    const SweepEnd lost = sweep.switched(end, wait_s / once_s);
    waited += weight * wait_s;
    mean.missing += weight * lost.missing;
    mean.lost += weight * lost.lost;
  };
  if (in_.sweep_end) {
    add(in_.sweep_end->place, in_.sweep_end->miss, 1);
  } else {
    // Nobody knows where it is when its rounds come near their end.
    for (int part = 0; part < parts; ++part) {
      for (const double miss : {-SweepReplay::kUsualMiss, 0.0, SweepReplay::kUsualMiss}) {
        add((part + 0.5) / parts, miss, 1.0 / (3 * parts));
      }
    }
  }
  out_.rounds.back().duration_s += held;
  const double began = now_ + held;
  const double sent = waited * hot_wire_ / hot_s(rate_);
  now_ += held + waited;
  out_.live_s += held + waited;
  out_.sent_bytes += sent;
  // It does not quite stand still: it asks for one page after the other.
  const double asked = costs_.page_bytes / fault_time(in_, costs_, in_.link_rate);
  lost_in_sweep_ = mean.lost * once_s * std::max(0.0, 1 - asked * period_s / hot_);
  hot_ *= mean.missing;
  out_.rounds.push_back({began, waited, sent, marked(), 0});
}

/// By writing and by reading, each in what the other leaves. What was sent before the switch is
/// there to be read.
double Rounds::waited_for_pages(const PostCopyPhase& phase) const {
  if (!(phase.duration_s > 0) || !(curve_.share() > 0)) return phase.faulted_s;
  const double in_use = std::max(costs_.page_bytes, in_.total_bytes - in_.zero_bytes);
  const double missing = std::min(1.0, cold_ * (1 - zero_share_) / in_use);
  // As it comes to them; what the stream has brought by then it does not wait for.
  const double within = costs_.read_within_s / phase.duration_s;
  const double still = within <= 1 ? 1 - within / 2 : 1 / (2 * within);
  const double pages = costs_.read_bytes / costs_.page_bytes * missing * still;
  const double read_s = std::min(phase.duration_s, pages * fault_time(in_, costs_, in_.link_rate));
  return phase.faulted_s + (1 - phase.faulted_s / phase.duration_s) * read_s;
}

void Rounds::switch_to_post_copy() {
  over_ = true;
  const double device_s = (costs_.queue_bytes + costs_.device_bytes) / in_.link_rate;
  out_.downtime_s = costs_.post_copy_switch_s + device_s;
  now_ += out_.downtime_s;
  const double wire = marked_wire();
  // The limit of pre-copy's rate is not one of post-copy's, whose pages are waited for.
  const double filled = in_.link_rate * (1 - costs_.post_copy_unfilled * (1 - filled_share()));
  const double rate = std::min(filled, costs_.post_copy_rate);
  const auto phase = post_copy(in_, costs_, {cold_ * (1 - zero_share_), hot_, window_, wire, rate});
  const double duration = std::max(phase.duration_s, marked_s(filled)) + costs_.post_copy_end_s;
  out_.rounds.push_back({now_, duration, wire + costs_.device_bytes, 0, 0});
  out_.faulted_s = lost_in_sweep_.value_or(waited_for_pages(phase));
  out_.sent_bytes += wire + costs_.device_bytes;
  now_ += duration;
  out_.total_time_s = now_;
}

}  // namespace

double rate_of_last_round(const ReplayInput& input, const HypervisorCosts& costs) {
  if (!(input.link_rate > 0) || input.curve == nullptr) return 0;
  ReplayInput unlimited = input;
  unlimited.rate_limit.reset();
  return Rounds(unlimited, costs).rate_of_last_round();
}

Replay replay_rounds(const ReplayInput& input, const HypervisorCosts& costs) {
  // Whether it would end by itself is a question without the time limit.
  ReplayInput unlimited = input;
  unlimited.time_limit_s.reset();
  Replay out = Rounds(unlimited, costs).run();
  if (!input.time_limit_s || (out.converges && out.total_time_s <= *input.time_limit_s)) return out;
  Replay limited = Rounds(input, costs).run();
  limited.converges = out.converges;
  return limited;
}

}  // namespace mare::policy
