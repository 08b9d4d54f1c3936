#include "orchestrator/policy/replay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "orchestrator/policy/crowding.h"

namespace mare::policy {
namespace {

// Of the phase: so long a wait is looked at as one.
constexpr double kWaitPiece = 1.0 / 200;

/// Of a VM that stands still all along.
double still_rate(const ReplayInput& input, const HypervisorCosts& costs) {
  const double link = input.link_rate * input.still_gain;
  const double others = input.busy_cpus - input.curve->share();
  const double filled = 1 - unfilled_share(others, input.host_cpus, input.link_rate, costs);
  return std::min(link * filled, input.rate_limit.value_or(link));
}

/// All pages once, with their headers.
double wire_of_memory(const ReplayInput& input, const HypervisorCosts& costs) {
  const double in_use = std::max(0.0, input.total_bytes - input.zero_bytes);
  return in_use * (1 + costs.page_header_bytes / costs.page_bytes) +
         input.zero_bytes * costs.zero_page_bytes / costs.page_bytes;
}

Replay stop_and_copy(const ReplayInput& input, const HypervisorCosts& costs) {
  Replay out;
  const double wire = wire_of_memory(input, costs);
  const double pages_s = wire / still_rate(input, costs) + input.zero_bytes / costs.zero_scan_rate;
  const double device_s = costs.device_bytes / (input.link_rate * input.still_gain);
  out.downtime_s = pages_s + costs.switch_s + device_s;
  out.total_time_s = costs.set_up_s + out.downtime_s;
  out.sent_bytes = wire + costs.device_bytes;
  out.rounds = {{costs.set_up_s, out.downtime_s, out.sent_bytes, 0, 0}};
  return out;
}

/// Check, Trans and Restart of Neves 2009 (Eq. 5.4) with the transfer through shared storage: the
/// source packs the file and writes it over the link, the destination reads it.
Replay checkpoint_restart(const ReplayInput& input, const HypervisorCosts& costs) {
  Replay out;
  const double whole = wire_of_memory(input, costs);
  const double file =
      whole * std::clamp(input.compressed_fraction, 0.001, 1.0) + costs.device_bytes;
  const double rate = std::min(input.link_rate, costs.file_rate);
  const double save_s =
      std::max(file / rate, whole / costs.compress_rate) + input.zero_bytes / costs.zero_scan_rate;
  const double restore_s = file / rate + costs.restore_s;
  out.downtime_s = save_s + restore_s + costs.switch_s;
  out.total_time_s = costs.set_up_s + out.downtime_s;
  out.sent_bytes = 2 * file;
  out.rounds = {{costs.set_up_s, save_s, file, file, 0},
                {costs.set_up_s + save_s, restore_s, file, 0, 0}};
  return out;
}

/// Progress that a guest loses which rewrites `hot` bytes in the order of their addresses, those of
/// `missing` among them. The stream goes through memory once, in that order too, and pages that are
/// asked for do not lead it away: the guest goes from one of these to the next until the stream has
/// come to it, half of the way on average, and follows it from there to the end.
double lost_in_order(const ReplayInput& input, const HypervisorCosts& costs,
                     const MissingPages& missing, double hot, double fault_s) {
  const double half = input.curve->progress_for(hot / 2);
  if (!(half > 0) || half >= DirtyCurve::kNever) return 0;
  const double written = hot / 2 / half * input.curve->share() * input.destination_speed;
  const auto lost_at = [&](double rate) { return std::max(0.0, 1 - rate / written); };
  const double until_it_comes = missing.wire_bytes / missing.rate / 2;
  return until_it_comes * lost_at(costs.page_bytes / fault_s) +
         missing.hot_bytes / missing.rate / 2 * lost_at(missing.rate);
}

/// Of what the guest writes the share that the stream has not come to when it has gone through so
/// much of memory, in the order of addresses: a guest that needs one part of it again and again
/// goes on when that has come, in the middle of memory half-way.
double not_come_to(const ReplayInput& input, double gone) {
  if (input.heat == nullptr) return 1 - gone;
  const double at = gone * static_cast<double>(input.heat->size());
  double all = 0;
  double left = 0;
  for (std::size_t i = 0; i < input.heat->size(); ++i) {
    // Squared: a region of which little is written in many seconds is seldom needed.
    const double weight = (*input.heat)[i] * (*input.heat)[i];
    all += weight;
    left += weight * std::clamp(static_cast<double>(i) + 1 - at, 0.0, 1.0);
  }
  return all > 0 ? left / all : 1 - gone;
}

}  // namespace

double fault_time(const ReplayInput& input, const HypervisorCosts& costs, double rate) {
  return costs.fault_s + input.round_trip_s + costs.page_bytes / rate;
}

PostCopyPhase post_copy(const ReplayInput& input, const HypervisorCosts& costs,
                        const MissingPages& missing) {
  PostCopyPhase out;
  if (!(missing.rate > 0) || !(missing.wire_bytes > 0)) return out;
  out.duration_s = missing.wire_bytes / missing.rate;
  const double speed = input.curve->share() * input.destination_speed;
  const double in_use = std::max(costs.page_bytes, input.total_bytes - input.zero_bytes);
  const double hot = input.curve->bytes(missing.window_s);
  const double fault_s = fault_time(input, costs, missing.rate);
  // Missing bytes that the guest has come to after p of progress, if none had come by itself.
  const auto come_to_cold = [&](double p) {
    return input.curve->bytes(p) * std::min(1.0, missing.cold_bytes / in_use);
  };
  const auto come_to_hot = [&](double p) {
    if (!(hot > 0)) return 0.0;
    return input.curve->in_both(missing.window_s, p) * missing.hot_bytes / hot;
  };
  if (!(speed > 0)) return out;
  // In steps of progress: each takes its own time, and its faults' on top, fewer and fewer as the
  // background stream (its share so far is wall / duration) overtakes them.
  const double at_work = input.work_share > 0 ? input.work_share : input.curve->share();
  const double at_rest = 1 - std::min(1.0, at_work / input.most_share);
  const double step = out.duration_s * speed / 2000;
  double wall = 0;
  double late = 0;
  for (double p = 0; wall < out.duration_s && p < 2000 * step; p += step) {
    const double cold = come_to_cold(p + step) - come_to_cold(p);
    const double all_hot = come_to_hot(p + step) - come_to_hot(p);
    const auto faults_at = [&](double wall_s) {
      const double gone = wall_s / out.duration_s;
      const double bytes = cold * not_come_to(input, gone) + all_hot * (1 - gone);
      return costs.faults_per_page * bytes / costs.page_bytes;
    };
    // It waits a little at a time: what a step needs may come by itself meanwhile.
    double waited = 0;
    for (double done = 0; done < 1 && wall + waited < out.duration_s;) {
      const double rest = (1 - done) * faults_at(wall + waited) * fault_s;
      const double piece =
          std::min({rest, kWaitPiece * out.duration_s, out.duration_s - wall - waited});
      waited += piece;
      if (piece >= rest) break;
      done += (1 - done) * piece / rest;
    }
    // What it is late by it makes up for when it would wait for the clock. But who is late by more
    // than a pause of it does not hurry after the clock: its next beat begins then. A MigTest that
    // wrote 26 MB each 2 s lost little by waits of 2 s; a sweep over 400 MB, in beats of 50 ms, all
    // of its 29 s, and a factorisation each 0.2 s, that computed for half of them, most of its 1.8
    // s.
    const double due = std::max(0.0, late + waited - at_rest * step / speed);
    wall += step / speed + due - late;
    late = std::min(due, input.pause_s);
    out.faulted_s += due - late;
  }
  out.faulted_s += late;
  const double ordered =
      input.sequential * missing.hot_bytes / std::max(1.0, missing.hot_bytes + missing.cold_bytes);
  if (ordered > 0) {
    out.faulted_s = (1 - ordered) * out.faulted_s +
                    ordered * lost_in_order(input, costs, missing, hot, fault_s);
  }
  if (!input.sweeps) return out;
  // The same is true of what was never sent.
  const double all = input.curve->bytes(out.duration_s * speed);
  const MissingPages unsent{0, all * std::min(1.0, missing.cold_bytes / in_use), 0,
                            missing.wire_bytes, missing.rate};
  const double never = missing.cold_bytes / std::max(1.0, missing.hot_bytes + missing.cold_bytes);
  out.faulted_s =
      std::max(out.faulted_s, never * lost_in_order(input, costs, unsent, all, fault_s));
  return out;
}

Replay replay(const ReplayInput& input, const HypervisorCosts& costs) {
  if (input.curve == nullptr || !(still_rate(input, costs) > 0)) {
    Replay out;
    out.converges = false;
    return out;
  }
  switch (input.sending.strategy) {
    case Strategy::StopAndCopy:
      return stop_and_copy(input, costs);
    case Strategy::CheckpointRestart:
      return checkpoint_restart(input, costs);
    default:
      return replay_rounds(input, costs);
  }
}

Milliseconds hypervisor_downtime_limit(const MovePolicy& policy, const LinkMeasurement& link,
                                       const HypervisorCosts& costs) {
  const bool stated = policy.downtime_limit.has_value();
  const double limit = stated ? std::chrono::duration<double>(*policy.downtime_limit).count()
                              : costs.default_downtime_s;
  const double device_s = link.goodput.value > 0 ? costs.device_bytes / link.goodput.value : limit;
  // Less than this no guest that runs at all ever meets. Over a slow link the devices alone take
  // all of the usual limit, which nobody insists on.
  const double least = stated ? std::min(limit, 0.01) : limit / 2;
  // Nor is what a slow host adds taken from that: rounds would hover above what is left.
  const double switch_s =
      stated ? costs.switch_s : std::min(costs.switch_s, HypervisorCosts{}.switch_s);
  const double told = std::max(least, limit - switch_s - device_s);
  return std::chrono::duration_cast<Milliseconds>(Seconds{told});
}

}  // namespace mare::policy
