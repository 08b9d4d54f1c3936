#include "orchestrator/policy/strategy_estimate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "orchestrator/policy/correction.h"
#include "orchestrator/policy/crowding.h"
#include "orchestrator/policy/pause.h"
#include "orchestrator/policy/statistics.h"
#include "orchestrator/policy/sweep.h"

namespace mare::policy {
namespace {

// A page-sampling log misses rewrites with the same value and rounds to MiB/s.
constexpr double kSampledWidth = 2;
// No link is measured better than that by one short burst (share, 1 deviation).
constexpr double kLinkDeviation = 0.01;
constexpr int kDraws = 40;
// From the moment that the profile tells of to the order to move: the arithmetic, a transaction,
// the agents.
constexpr double kProfileToStart_s = 0.06;
constexpr int kDrawsOfOtherEnd = 9;
constexpr int kDrawsToChoose = 5;
// Fewer draws than that against all others are chance.
constexpr double kUnsureShare = 0.1;
// Of a round, a pause in which one may end. A MigTest that wrote 26 MB at once, some 2 s after each
// other, was sent in rounds of 1.9 s, of which each but a few had a burst in it; the 27th left
// little.
constexpr double kPauseOfRound = 0.5;
// Of what fits into a stop, what is written in a pause: the rest is what the round itself left.
constexpr double kSparedInPause = 0.5;
// Of a kernel and what else never waits, bytes.
constexpr double kNextToNothing = 0.5e6;
constexpr std::size_t kFewestCycles = 3;
// Looks at the log, and what a guest is slowed by them, are known to a tenth of a round or so.
constexpr double kLongerWindows = 1.1;
// A slower guest comes to an end by itself, or nearly.
constexpr double kLeastSweepSpeed = 1.05;
constexpr int kSweepParts = 32;
constexpr int kSweepEnds = 8;
// A packet of a compressed move that is on its way for so long is one that the stop feels.
constexpr double kLongPacket_s = 0.01;
// A channel that packs so much quicker than the link carries need not take turns with another.
constexpr double kMuchQuicker = 3;
// CPUs: where its guests keep a host wholly busy, what is new gets a part all the same.
constexpr double kLeastIdle = 0.2;
// Shorter limits of the downtime than the usual one.
constexpr Milliseconds kShorter[] = {Milliseconds{200}, Milliseconds{150}, Milliseconds{100},
                                     Milliseconds{60}, Milliseconds{30}};

/// 0: nobody timed it.
double emulator_start_s(const MemoryProfile& profile) {
  return std::chrono::duration<double>(profile.emulator_start).count();
}

double idle_set_up_s(const MemoryProfile& profile, const HypervisorCosts& costs) {
  const double start_s = emulator_start_s(profile);
  return start_s > 0 ? costs.set_up_starts * start_s : costs.set_up_s;
}

double tightness_of(const ForecastInput& input) {
  return input.job ? std::clamp(input.job->tightness, 0.0, 1.0) : 1;
}

/// vCPU time a second that the guest gets when it wants all. Who rarely wants all is not seen to be
/// refused any; of a quota it is known.
double most_share(const ForecastInput& input) {
  const double vcpus = std::max(1, input.vcpus);
  const double granted = std::clamp(input.profile.cpu_granted, 0.01, 1.0) * vcpus;
  return input.profile.cpu_quota > 0 ? std::min(vcpus, input.profile.cpu_quota) : granted;
}

/// The same while a throttled CPU is awake, for a slice at a time: the slice touches one period of
/// the quota and so much of the next as its length tells, and has the whole share of each. Guests
/// with a quarter of each 10 ms did all of their 0.17 of a CPU until they were throttled by 60%,
/// and 0.13 at 70%, 0.08 at 80%.
double awake_share(const Situation& situation) {
  const MemoryProfile& profile = situation.input.profile;
  if (!(profile.cpu_quota > 0)) return 0;
  const double period = std::chrono::duration<double>(profile.cpu_quota_period).count();
  return std::min(static_cast<double>(std::max(1, situation.input.vcpus)),
                  profile.cpu_quota * (1 + period / situation.costs.throttle_slice_s));
}

/// Whose job has one rank only sends nothing that would make room.
double still_gain(const ForecastInput& input) {
  if (!input.job || input.job->ranks < 2 || !(input.link.goodput.value > 0)) return 1;
  const double gain = input.link.unshared.value / input.link.goodput.value;
  return 1 + tightness_of(input) * std::max(0.0, gain - 1);
}

/// Of the time that the guest may compute it does.
double busy_share(const Situation& situation) {
  return std::min(1.0, situation.middle.share() / most_share(situation.input));
}

/// Of the guest's progress, by pages being sent. One that computes half of the time that it may
/// loses half of what is taken from it, and makes up for half of that in the rest. (Added times of
/// three runs with a quarter of a core are off by 0.11 to 0.13 s in the median so, and by 0.14 to
/// 0.16 without the second half.)
double slowdown_of(const Situation& situation, double crowded) {
  const double busy = busy_share(situation);
  return busy * busy * std::min(1.0, situation.costs.pre_copy_slowdown + crowded);
}

/// What the log takes of an emulated guest, s. All of it is taken while it computes, and it makes
/// up for a part in the rest.
double logged(const Situation& situation, const Replay& replay) {
  return busy_share(situation) * replay.first_writes_s / most_share(situation.input);
}

ReplayInput replay_input(const Situation& situation, const DirtyCurve& curve,
                         const Sending& sending) {
  const ForecastInput& in = situation.input;
  ReplayInput out;
  out.curve = &curve;
  if (&curve == &situation.middle) out.low = &situation.low;
  out.total_bytes = static_cast<double>(in.profile.total.count);
  out.zero_bytes = static_cast<double>(std::min(in.profile.zero, in.profile.total).count);
  out.compressed_fraction = in.profile.compressed_fraction;
  out.hot_compressed_fraction = in.profile.hot_compressed_fraction;
  out.sequential = std::clamp(in.profile.sequential, 0.0, 1.0);
  out.pause_s = situation.pause_s;
  if (!situation.cycles.empty()) out.work_share = situation.cycles.front().work_share();
  out.sweeps = in.profile.sweep.period.count() > 0;
  out.heat = &in.profile.heat;
  out.emulated = in.profile.emulated;
  out.host_cpus = in.profile.host_cpus;
  out.busy_cpus = std::clamp(in.profile.busy_cpus, 0.0, in.profile.host_cpus);
  out.filled_by_job = situation.filled_by_job;
  out.one_machine = in.link.one_machine;
  out.cpu_quota = std::max(0.0, in.profile.cpu_quota);
  out.most_share = most_share(in);
  out.awake_share = awake_share(situation);
  out.slowdown = slowdown_of(situation, 0);
  out.link_rate = in.link.goodput.value;
  out.still_gain = still_gain(in);
  out.round_trip_s = std::chrono::duration<double>(in.link.round_trip).count();
  if (in.policy.bandwidth_limit && in.policy.bandwidth_limit->value > 0) {
    out.rate_limit = in.policy.bandwidth_limit->value;
  }
  out.downtime_limit_s = sending.downtime_limit
                             ? std::chrono::duration<double>(*sending.downtime_limit).count()
                             : situation.costs.default_downtime_s;
  if (sending.later_downtime_limit) {
    out.later_downtime_limit_s =
        std::chrono::duration<double>(*sending.later_downtime_limit).count();
  }
  if (in.policy.time_limit) out.time_limit_s = in.policy.time_limit->count();
  out.at_limit = in.policy.at_limit;
  out.destination_speed = in.destination_speed;
  out.sending = sending;
  return out;
}

double rate_max(const Situation& situation) {
  const double link = situation.input.link.goodput.value;
  const auto limit = situation.input.policy.bandwidth_limit;
  return limit && limit->value > 0 ? std::min(link, limit->value) : link;
}

/// Only of a guest that sweeps so fast that its rounds never end, and was seen to do so.
std::optional<SweepSwitch> sweep_switch(const Situation& situation) {
  const Sweep& sweep = situation.input.profile.sweep;
  const double period_s = std::chrono::duration<double>(sweep.period).count();
  if (!(period_s > 0) || !(rate_max(situation) > 0)) return std::nullopt;
  const HypervisorCosts& costs = situation.costs;
  const double swept = situation.middle.bytes(period_s * situation.middle.share());
  const double once_s =
      swept * (1 + costs.page_header_bytes / costs.page_bytes) / rate_max(situation);
  if (once_s < kLeastSweepSpeed * period_s) return std::nullopt;
  const SweepReplay replay(once_s / period_s, slowdown_of(situation, 0), sweep.descending);
  const std::vector<double> waits = replay.best_waits(kSweepParts);
  SweepSwitch out{sweep, {}, replay.best_place(waits)};
  const double hold_s = replay.longest_way(waits, out.best_place) * period_s;
  out.longest_hold = std::min<Milliseconds>(
      kLongestHold, std::chrono::duration_cast<Milliseconds>(Seconds{hold_s}));
  for (const double wait : waits) {
    out.waits.push_back(std::chrono::duration_cast<Milliseconds>(Seconds{wait * once_s}));
  }
  return out;
}

/// Where the wire is slow one keeps it busy, and holds less of what the stop waits for: QEMU counts
/// a packet as sent from the moment at which a channel has it.
int channels_for(const Situation& situation) {
  const double rate = rate_max(situation);
  if (!(rate > 0)) return Sending{}.channels;
  const MemoryProfile& profile = situation.input.profile;
  const double fraction = std::clamp(
      std::min(profile.compressed_fraction, profile.hot_compressed_fraction), 0.001, 1.0);
  const bool slow_wire = situation.costs.channel_bytes * fraction >= kLongPacket_s * rate;
  const bool packs_quickly = situation.costs.compress_rate >= kMuchQuicker * rate / fraction;
  return slow_wire && packs_quickly ? 1 : Sending{}.channels;
}

/// A strategy's own knobs beside those that are set; the first are the usual ones.
std::vector<Sending> free_knobs(const Situation& situation, Strategy strategy, const Knobs& knobs) {
  Sending usual;
  usual.strategy = strategy;
  std::vector<Sending> out;
  switch (strategy) {
    case Strategy::RateControlled:
      usual.rate_max = BytesPerSecond{knobs.rate_max.value_or(rate_max(situation))};
      for (const double share : {0.5, 0.25, 0.75}) {
        usual.rate_min = BytesPerSecond{share * usual.rate_max.value};
        out.push_back(usual);
      }
      return out;
    case Strategy::Throttled:
      for (const auto& [initial, step] : {std::pair{20, 10}, {50, 20}, {80, 19}}) {
        usual.throttle_initial_percent = initial;
        usual.throttle_step_percent = step;
        out.push_back(usual);
      }
      return out;
    case Strategy::Hybrid:
      for (const int rounds : {1, 2, 3}) {
        usual.pre_copy_rounds = rounds;
        out.push_back(usual);
      }
      if (const auto sweep = sweep_switch(situation)) {
        usual.pre_copy_rounds = 1;
        usual.sweep_switch = *sweep;
        out.push_back(usual);
      }
      return out;
    case Strategy::Compressed:
      usual.channels = channels_for(situation);
      return {usual};
    default:
      return {usual};
  }
}

std::vector<Sending> own_knobs(const Situation& situation, Strategy strategy) {
  const MovePolicy& policy = situation.input.policy;
  const Knobs knobs = policy.strategy == strategy ? policy.knobs : Knobs{};
  std::vector<Sending> out = free_knobs(situation, strategy, knobs);
  // A switch behind a sweep is for one round before it.
  std::erase_if(out, [&](const Sending& one) {
    const bool sweeps = !one.sweep_switch.waits.empty();
    return sweeps && knobs.pre_copy_rounds.value_or(one.pre_copy_rounds) != one.pre_copy_rounds;
  });
  for (auto& one : out) set_knobs(one, knobs);
  return out;
}

bool makes_rounds(Strategy strategy) {
  return strategy == Strategy::PreCopy || strategy == Strategy::RateControlled ||
         strategy == Strategy::Throttled || strategy == Strategy::Compressed;
}

/// What the hypervisor is to be told of it: it takes whole MiB/s.
std::optional<BytesPerSecond> switchover_bandwidth(const Situation& situation,
                                                   const Sending& sending) {
  if (!situation.input.profile.takes_switchover_bandwidth) return std::nullopt;
  if (!makes_rounds(sending.strategy) && sending.strategy != Strategy::Hybrid) return std::nullopt;
  const double rate =
      rate_of_last_round(replay_input(situation, situation.middle, sending), situation.costs);
  const double step = situation.costs.rate_step;
  if (rate < step) return std::nullopt;
  return BytesPerSecond{std::floor(rate / step) * step};
}

constexpr Milliseconds kHybridStop{30};
// A limit that gives way by so little costs some rounds at worst.
constexpr Milliseconds kLittle{80};

/// All that are worth trying. Who waits for less to be left stands still for a shorter time after
/// more rounds; what the hypervisor is told for the policy's limit is the most.
std::vector<Sending> knobs(const Situation& situation, Strategy strategy) {
  const ForecastInput& in = situation.input;
  const auto most = hypervisor_downtime_limit(in.policy, in.link, situation.costs);
  std::vector<Sending> out = own_knobs(situation, strategy);
  for (auto& sending : out) {
    sending.downtime_limit = most;
    sending.switchover_bandwidth = switchover_bandwidth(situation, sending);
  }
  if (strategy == Strategy::Hybrid) {
    // It ends by post-copy. With the usual limit chance would make that a long stop now and then:
    // its third round may just fit.
    for (auto& sending : out) {
      sending.downtime_limit = std::min(most, kHybridStop);
    }
  }
  if (!makes_rounds(strategy)) return out;
  const std::size_t usual = out.size();
  for (const auto limit : kShorter) {
    if (limit >= most) continue;
    for (std::size_t i = 0; i < usual; ++i) {
      out.push_back(out[i]);
      out.back().downtime_limit = limit;
      out.back().later_downtime_limit = most;
      out.back().limit_rises_early = true;
    }
  }
  return out;
}

/// Whether it ends by its first limit, or soon after that has risen early, also if the guest writes
/// as much as it may, over a link as slow as it may be.
bool ends_surely(const Situation& situation, const Sending& sending) {
  ReplayInput in = replay_input(situation, situation.high, sending);
  in.link_rate *= 1 - 2 * kLinkDeviation;
  const Replay risen = replay(in, situation.costs);
  // With the stop.
  const auto rounds = static_cast<int>(risen.rounds.size());
  if (risen.converges && !risen.cancelled && rounds <= kRoundsWithFirstLimit + 1) return true;
  in.later_downtime_limit_s.reset();
  const Replay out = replay(in, situation.costs);
  return out.converges && !out.cancelled;
}

/// Who hangs above a short limit for long before a much longer one ends it had better not have
/// begun with it; one that is little shorter ends whenever the longer one would have.
bool may_be_tried(const Situation& situation, const Sending& sending) {
  const auto& later = sending.later_downtime_limit;
  return (later && *later - sending.downtime_limit.value_or(*later) <= kLittle) ||
         ends_surely(situation, sending);
}

double score(const Situation& situation, const Replay& replay) {
  // What does not end by itself is worse than all that do.
  const double penalty = replay.converges && !replay.cancelled ? 0 : 1e15;
  switch (situation.input.policy.priority) {
    case Priority::LeastTraffic:
      return penalty + replay.sent_bytes;
    case Priority::ByDeadline:
    case Priority::LeastStall:
    case Priority::Manual:
      break;
  }
  return penalty + added_job_time(situation, replay);
}

bool windows_differ(const Situation& situation) {
  return !situation.cycles.empty() || !situation.beats.empty();
}

void draw_windows(const Situation& situation, ReplayInput& input) {
  input.cycles = &situation.cycles;
  input.beats = &situation.beats;
  input.beats_from_s = situation.first_page_s - situation.costs.set_up_s;
}

/// Of a guest that writes in bursts the mean over some of its windows: by its middle a throttled
/// one ends by the first step, and hangs in truth.
double score(const Situation& situation, const Sending& sending) {
  ReplayInput in = replay_input(situation, situation.middle, sending);
  if (!windows_differ(situation) || !makes_rounds(sending.strategy)) {
    return score(situation, replay(in, situation.costs));
  }
  draw_windows(situation, in);
  double sum = 0;
  for (int i = 0; i < kDrawsToChoose; ++i) {
    in.seed = static_cast<std::uint64_t>(i) + 1;
    sum += score(situation, replay(in, situation.costs));
  }
  return sum / kDrawsToChoose;
}

Estimate widened(Estimate estimate, double factor, double least) {
  estimate.low = std::max(least, estimate.value - factor * (estimate.value - estimate.low));
  estimate.high = estimate.value + factor * (estimate.high - estimate.value);
  return estimate;
}

double figure(const Situation& situation, const Replay& replay, Quantity quantity) {
  switch (quantity) {
    case Quantity::TotalTime:
      // The replay begins with an idle source's.
      return usual_set_up_s(situation.input.profile, situation.costs) - situation.costs.set_up_s +
             replay.total_time_s;
    case Quantity::SentBytes:
      return replay.sent_bytes;
    case Quantity::Downtime:
      return replay.downtime_s;
    case Quantity::AddedJobTime:
      break;
  }
  return added_job_time(situation, replay);
}

Estimate& slot(StrategyForecast& forecast, Quantity quantity) {
  switch (quantity) {
    case Quantity::TotalTime:
      return forecast.total_time_s;
    case Quantity::SentBytes:
      return forecast.sent_bytes;
    case Quantity::Downtime:
      return forecast.downtime_s;
    case Quantity::AddedJobTime:
      break;
  }
  return forecast.added_job_time_s;
}

/// The same move again and again, each round of it with another of the cycles that were seen.
std::vector<Replay> replays_drawn(const Situation& situation, const Sending& sending) {
  std::vector<Replay> out;
  if (!windows_differ(situation) ||
      !(makes_rounds(sending.strategy) || sending.strategy == Strategy::Hybrid))
    return out;
  ReplayInput in = replay_input(situation, situation.middle, sending);
  draw_windows(situation, in);
  for (int i = 0; i < kDraws; ++i) {
    in.seed = static_cast<std::uint64_t>(i) + 1;
    in.link_rate =
        situation.input.link.goodput.value * (1 + kLinkDeviation * (2.0 * (i % 4) - 3) / 1.5);
    out.push_back(replay(in, situation.costs));
  }
  std::sort(out.begin(), out.end(),
            [](const Replay& a, const Replay& b) { return a.total_time_s < b.total_time_s; });
  return out;
}

double share_that_converges(const std::vector<Replay>& replays) {
  const auto ended = std::count_if(replays.begin(), replays.end(),
                                   [](const Replay& replay) { return replay.converges; });
  return static_cast<double>(ended) / static_cast<double>(replays.size());
}

bool most_converge(const std::vector<Replay>& replays) {
  return share_that_converges(replays) >= 0.5;
}

/// If most of some draws end by themselves (`ends`) or most do not: of those the one that takes
/// least or most time.
std::optional<Replay> furthest_if_most(const Situation& situation, const ReplayInput& input,
                                       bool ends) {
  ReplayInput in = input;
  std::vector<Replay> replays;
  for (int i = 0; i < kDrawsOfOtherEnd; ++i) {
    in.seed = static_cast<std::uint64_t>(i) + 1;
    replays.push_back(replay(in, situation.costs));
  }
  if (most_converge(replays) != ends) return std::nullopt;
  const auto [least, most] = std::minmax_element(
      replays.begin(), replays.end(),
      [](const Replay& a, const Replay& b) { return a.total_time_s < b.total_time_s; });
  return ends ? *least : *most;
}

/// Of a move that ends by itself: what if the one cycle of all in which least was written in the
/// last round's time never comes again: it may have been of a start, or of a moment that the
/// rounds, in step with the guest's own, always miss. And what if its rounds take a little longer
/// than the replay has them: a guest that writes the same pages at each beat may then have a beat
/// in each. Of one that does not end the same the other way round: a guest that writes a little
/// more than the link carries is ended by a beat that comes late. None if the end is the same then.
std::optional<Replay> replay_of_other_end(const Situation& situation, const Sending& sending,
                                          const Replay& usual) {
  if (situation.cycles.size() < kFewestCycles || usual.rounds.size() < 3) return std::nullopt;
  const bool ends = usual.converges;
  const double window = usual.rounds[usual.rounds.size() - 2].duration_s * situation.middle.share();
  std::vector<DirtyCurve> rest = situation.cycles;
  const auto [least, most] = std::minmax_element(
      rest.begin(), rest.end(), [window](const DirtyCurve& a, const DirtyCurve& b) {
        return a.bytes(window) < b.bytes(window);
      });
  rest.erase(ends ? least : most);
  ReplayInput in = replay_input(situation, situation.middle, sending);
  in.cycles = &rest;
  if (auto other = furthest_if_most(situation, in, !ends)) return other;
  in.cycles = &situation.cycles;
  in.longer_windows = ends ? kLongerWindows : 1 / kLongerWindows;
  return furthest_if_most(situation, in, !ends);
}

struct Ends {
  double low = 0;
  double middle = 0;
  double high = 0;
};

Ends ends_drawn(const Situation& situation, const std::vector<Replay>& drawn, Quantity quantity) {
  std::vector<double> values;
  for (const auto& replay : drawn) values.push_back(figure(situation, replay, quantity));
  return {quantile(values, 0.025), median(values), quantile(values, 0.975)};
}

/// The least and the most of it over the ends of D(t) and of the link's rate.
Ends ends_of(const Situation& situation, const std::vector<Replay>& others, double middle,
             Quantity quantity) {
  Ends out{middle, middle, middle};
  for (const auto& replay : others) {
    const double value = figure(situation, replay, quantity);
    out.low = std::min(out.low, value);
    out.high = std::max(out.high, value);
  }
  return out;
}

/// Its rounds seem to go on and on, or to end by one that meets a pause; but if it pauses for half
/// of such a round, any of them may, or none, and nobody knows when.
bool ends_by_a_pause(const Situation& situation, const Sending& sending, const Replay& replay) {
  const ReplayInput in = replay_input(situation, situation.middle, sending);
  const double fits = rate_max(situation) * in.later_downtime_limit_s.value_or(in.downtime_limit_s);
  // Who never writes more than fits into the stop has no need of a pause.
  const double least = replay.converges ? fits : 0;
  std::vector<double> rounds_s;
  for (std::size_t i = 1; i < replay.rounds.size(); ++i) {
    if (replay.rounds[i].sent_bytes > least) rounds_s.push_back(replay.rounds[i].duration_s);
  }
  if (rounds_s.empty()) return false;
  const double pause_s = longest_pause_s(situation.input.profile.cycles, kSparedInPause * fits);
  return pause_s >= kPauseOfRound * median(rounds_s);
}

double first_page_after_profile_s(const ForecastInput& in, const HypervisorCosts& costs) {
  const double usual = usual_set_up_s(in.profile, costs);
  Place place;
  place.source = in.source;
  place.destination = in.destination;
  place.start_timed = in.profile.emulator_start.count() > 0;
  return kProfileToStart_s + learn_set_up(in.past, place).factor * usual;
}

std::vector<Replay> replays_at_ends(const Situation& situation, const Sending& sending) {
  std::vector<Replay> out;
  for (const auto& [curve, sign] : {std::pair{&situation.low, 1.0}, {&situation.high, -1.0}}) {
    ReplayInput in = replay_input(situation, *curve, sending);
    out.push_back(replay(in, situation.costs));
    in = replay_input(situation, situation.middle, sending);
    in.link_rate *= 1 + sign * 2 * kLinkDeviation;
    out.push_back(replay(in, situation.costs));
  }
  // Where a guest that sweeps will be when its rounds are over nobody knows, nor is the best place
  // hit exactly.
  if (sending.sweep_switch.waits.empty()) return out;
  for (int part = 0; part < kSweepEnds; ++part) {
    for (const double share : {-1.0, 0.0, 1.0}) {
      ReplayInput in = replay_input(situation, situation.middle, sending);
      in.sweep_end = ReplayInput::SweepEnd{static_cast<double>(part) / kSweepEnds,
                                           share * SweepReplay::kMostMiss};
      out.push_back(replay(in, situation.costs));
    }
  }
  return out;
}

}  // namespace

Situation::Situation(const ForecastInput& forecast_input, const HypervisorCosts& hypervisor)
    : input(forecast_input),
      costs(with_crowding(
          learn_crowding(forecast_input.past, forecast_input.source, forecast_input.destination),
          with_host_of(forecast_input.profile, hypervisor))),
      low(DirtyCurve::from(forecast_input.profile, Band::Low)),
      middle(DirtyCurve::from(forecast_input.profile, Band::Middle)),
      high(DirtyCurve::from(forecast_input.profile, Band::High)),
      cycles(DirtyCurve::each(forecast_input.profile)),
      beats(plausible_beats(forecast_input.profile, kDraws)),
      first_page_s(first_page_after_profile_s(forecast_input, costs)),
      filled_by_job(learn_filled_by_job(
          forecast_input.past, forecast_input.job ? forecast_input.job->id : JobId{},
          forecast_input.link.goodput,
          learn_crowding(forecast_input.past, forecast_input.source, forecast_input.destination))),
      pause_s(longest_pause_s(forecast_input.profile.cycles, kNextToNothing)) {}

HypervisorCosts with_host_of(const MemoryProfile& profile, HypervisorCosts costs) {
  costs.set_up_s = idle_set_up_s(profile, costs);
  const double start_s = emulator_start_s(profile);
  costs.switch_s = std::max(costs.switch_s, costs.switch_starts * start_s);
  costs.post_copy_switch_s =
      std::max(costs.post_copy_switch_s, costs.post_copy_switch_starts * start_s);
  // The channels copy as well.
  const auto and_copies = [&costs](BytesPerSecond rate) {
    return 1 / (1 / rate.value + 1 / costs.copy_rate);
  };
  const double usual_unpack = costs.unpack_rate;
  if (profile.unpack_rate.value > 0) costs.unpack_rate = and_copies(profile.unpack_rate);
  if (!(profile.compress_rate.value > 0)) return costs;
  const double rate = and_copies(profile.compress_rate);
  double quicker = rate / costs.compress_rate;
  // Random pages pack many times as fast as others, and come into being no faster than others.
  if (profile.unpack_rate.value > 0) quicker = std::min(quicker, costs.unpack_rate / usual_unpack);
  costs.compress_rate = rate;
  costs.unpack_s /= quicker;
  return costs;
}

double usual_set_up_s(const MemoryProfile& profile, const HypervisorCosts& costs) {
  if (!(profile.host_cpus > 0)) return idle_set_up_s(profile, costs);
  const double idle = std::max(kLeastIdle, profile.host_cpus - std::max(0.0, profile.busy_cpus));
  return idle_set_up_s(profile, costs) * std::max(1.0, costs.start_cpus / idle);
}

double added_job_time(const Situation& situation, const Replay& replay) {
  const double tightness = tightness_of(situation.input);
  const double slowed = slowdown_of(situation, replay.crowded) * replay.live_s;
  const MemoryProfile& profile = situation.input.profile;
  const double cold = profile.emulated && !replay.cancelled
                          ? situation.costs.emulated_warm_up_s /
                                (most_share(situation.input) * situation.input.destination_speed)
                          : 0;
  return tightness * (replay.downtime_s + slowed + logged(situation, replay) + replay.held_s +
                      replay.faulted_s + cold);
}

StrategyEstimate estimate(const Situation& situation, Strategy strategy) {
  Sending chosen;
  double best = 0;
  bool first = true;
  for (const auto& sending : knobs(situation, strategy)) {
    const double value = score(situation, sending);
    if (!first && (value >= best || !may_be_tried(situation, sending))) continue;
    first = false;
    best = value;
    chosen = sending;
  }
  return estimate(situation, chosen);
}

StrategyEstimate estimate(const Situation& situation, const Sending& sending) {
  const Strategy strategy = sending.strategy;
  StrategyEstimate out;
  out.sending = sending;
  out.replay = replay(replay_input(situation, situation.middle, sending), situation.costs);
  const auto drawn = replays_drawn(situation, sending);
  if (!drawn.empty()) {
    out.replay = drawn[drawn.size() / 2];
    out.replay.converges = most_converge(drawn);
  }
  out.forecast.strategy = strategy;
  out.forecast.offered = true;
  out.forecast.converges = out.replay.converges;
  out.forecast.rounds = static_cast<int>(out.replay.rounds.size());
  const ForecastInput& in = situation.input;
  const Place place{in.source,
                    in.destination,
                    strategy,
                    in.job ? in.job->program : "",
                    usual_set_up_s(in.profile, situation.costs),
                    in.link.goodput,
                    in.job ? in.job->id : JobId{},
                    in.profile.emulator_start.count() > 0};
  const auto others =
      drawn.empty() ? replays_at_ends(situation, out.sending) : std::vector<Replay>{};
  const auto other_end =
      drawn.empty() ? std::optional<Replay>{} : replay_of_other_end(situation, sending, out.replay);
  if (!drawn.empty()) {
    const double share = share_that_converges(drawn);
    out.forecast.end_unsure = other_end || std::min(share, 1 - share) > kUnsureShare;
  } else if (!others.empty()) {
    const double share = share_that_converges(others);
    out.forecast.end_unsure = share != (out.replay.converges ? 1.0 : 0.0);
  }
  if (makes_rounds(strategy) && ends_by_a_pause(situation, sending, out.replay)) {
    out.forecast.end_unsure = true;
  }
  const double width = in.profile.source == "page-sampling" ? kSampledWidth : 1;
  Correction bytes;
  Correction downtime;
  for (const Quantity quantity : kQuantities) {
    Ends ends = drawn.empty()
                    ? ends_of(situation, others, figure(situation, out.replay, quantity), quantity)
                    : ends_drawn(situation, drawn, quantity);
    if (other_end) {
      const double other = figure(situation, *other_end, quantity);
      // What is cut off stands still for no time at all: that is no end of what it would take.
      if (!out.replay.converges) ends.low = std::min(ends.low, other);
      ends.high = std::max(ends.high, other);
    }
    // A job that waits for a clock while its guest writes nothing waits the less after a stop, and
    // is on time again. Whether it waits for that or computes nobody can see.
    if (quantity == Quantity::AddedJobTime) {
      ends.low = std::max(0.0, ends.low - situation.pause_s);
    }
    Correction correction = learn(in.past, place, quantity, ends.middle);
    if (quantity == Quantity::SentBytes) bytes = correction;
    if (quantity == Quantity::Downtime) downtime = correction;
    if (quantity == Quantity::TotalTime) {
      correction = with_bytes(correction, bytes, out.forecast.sent_bytes, in.link.goodput);
    }
    // Nobody has told yet what such moves cost their jobs; but standing still costs them all of it.
    if (quantity == Quantity::AddedJobTime && correction.moves == 0) {
      correction.offset = tightness_of(situation.input) * downtime.offset;
    }
    slot(out.forecast, quantity) =
        widened(apply(correction, ends.middle, ends.low, ends.high), width, correction.least);
  }
  return out;
}

}  // namespace mare::policy
