// What is known before a move: how a VM writes its memory, how fast the link is, what each strategy
// would cost. Values only; orchestrator/policy computes them (docs/forecast.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/core/clock.h"
#include "orchestrator/core/ids.h"
#include "orchestrator/core/units.h"

namespace mare {

/// How the memory of a VM is sent.
enum class Strategy : std::uint8_t {
  PreCopy,            // rounds at full speed until the rest fits into the downtime limit
  RateControlled,     // rounds at V_r = V_(r-1) + K * dirty rate (Neves 2009, Eq. 4.1, 4.2)
  Throttled,          // pre-copy, the guest is slowed until it converges
  Compressed,         // pre-copy over compressed channels
  PostCopy,           // the destination runs at once, pages follow on demand
  Hybrid,             // some rounds of pre-copy, then post-copy
  StopAndCopy,        // paused, sent, resumed
  CheckpointRestart,  // saved to a file, restored from it
};
inline constexpr int kStrategies = 8;
std::string_view to_string(Strategy strategy);  // "pre-copy", "rate-controlled", ...
std::optional<Strategy> strategy_from(std::string_view text);
std::string strategy_names();  // of all, in order: "pre-copy, rate-controlled, ..."

/// How a guest writes that goes through the same memory again and again, in the order of its
/// addresses or against it.
struct Sweep {
  bool descending = false;  // it comes to lower addresses next
  Microseconds period{0};   // wall time of one time through; 0: no such guest
  bool operator==(const Sweep&) const = default;
};

/// When a hybrid migration of a guest that sweeps is to switch: so that it comes next to what was
/// sent after it had been there. Places are shares of what it sweeps, in the order of addresses.
struct SweepSwitch {
  Sweep sweep;
  /// From the end of the last whole round, of a guest that is then at i/n to (i+1)/n. None: it
  /// switches at the end of its rounds.
  std::vector<Milliseconds> waits;
  /// Where it had best be at that end, which is held up until it is there, if that takes no longer
  /// than longest_hold: more would not be worth it. At most kLongestHold.
  double best_place = 0;
  Milliseconds longest_hold{0};
  bool operator==(const SweepSwitch&) const = default;
};

inline constexpr std::chrono::seconds kLongestHold{30};

/// A strategy with its knobs. Those that its strategy does not use are ignored.
struct Sending {
  Strategy strategy = Strategy::PreCopy;
  int channels = 2;                   // Compressed: 1 to 16
  int throttle_initial_percent = 20;  // Throttled: 1 to 99
  int throttle_step_percent = 10;     // Throttled: 1 to 99
  int pre_copy_rounds = 1;            // Hybrid: rounds before the switch, 1 to 10
  BytesPerSecond rate_min;            // RateControlled: V_min
  BytesPerSecond rate_max;            // RateControlled: V_max
  double rate_gain = 1.0;             // RateControlled: K
  /// It may be forced into post-copy on its way: both ends must get ready for that from the start.
  bool allow_post_copy = false;
  /// Pre-copy of every kind stops for its last round when that would take less. None: the
  /// hypervisor's own.
  std::optional<Milliseconds> downtime_limit = {};
  /// What that rises to, in steps, by rounds that do not end it (later_limit_share()): a limit that
  /// nobody asked for must not keep a migration from its end. None: it stays.
  std::optional<Milliseconds> later_downtime_limit = {};
  /// How fast the last round will be sent, in bytes of memory: what fits into the limit goes by
  /// that. None: by what the hypervisor saw itself, in the last 100 ms or so. All but post-copy and
  /// those that pause it first.
  std::optional<BytesPerSecond> switchover_bandwidth = {};
  SweepSwitch sweep_switch = {};  // Hybrid
  /// The later limit is told as soon as rounds hover above the first one and it would end them
  /// (hovering_rounds.h), beside its rise by rounds.
  bool limit_rises_early = false;
};
/// With the first one, that of all pages.
inline constexpr int kRoundsWithFirstLimit = 16;
inline constexpr int kRoundsWithEachStep = 4;
inline constexpr int kStepsToLaterLimit = 4;
/// How far the limit of the downtime has risen to the later one after so many whole rounds, 0 to 1.
double later_limit_share(int rounds);
/// The limit itself, `first` before it rose.
Milliseconds risen_limit(Milliseconds first, Milliseconds later, int rounds);

/// Unique bytes that a VM wrote since the dirty-page log was last re-armed.
struct DirtyPoint {
  Microseconds wall{0};      // since then
  Microseconds progress{0};  // vCPU time since then, of all vCPUs
  Bytes unique;
};
/// One cycle of the log: points in order of time, from its re-arming on.
struct DirtyCycle {
  WallTime began{0};
  std::vector<DirtyPoint> points;
};

/// What a host knows of the memory of a VM that runs on it.
struct MemoryProfile {
  std::string source;  // "pagemap-scan", "page-sampling", "sim"
  WallTime taken{0};
  Bytes total;                     // that a migration looks at (RAM and the devices' memory)
  Bytes zero;                      // of it, pages that hold only zeros or were never touched
  double compressed_fraction = 1;  // size of the rest after zstd -1, by sampling; 0 to 1
  // The same of where it was written lately, which is sent again and again.
  double hot_compressed_fraction = 1;
  BytesPerSecond compress_rate;  // of it, by one CPU of its host; 0: not known
  BytesPerSecond unpack_rate;    // the same of unpacking it, into pages that were not there yet
  /// Of the pages that it writes in a moment and did not in the last one that was looked at: they
  /// follow the one before them; 0 to 1.
  double sequential = 0;
  Sweep sweep;
  std::vector<DirtyCycle> cycles;  // oldest first; the last one may be unfinished
  /// Share of each region of guest-physical memory written in the last cycle, 0 to 1; 64 regions.
  std::vector<double> heat;
  double cost_fraction = 0;                 // of the guest's time that the log took, as estimated
  bool emulated = false;                    // its CPUs are a program's threads (QEMU's TCG)
  bool takes_switchover_bandwidth = false;  // Sending's; its hypervisor can be told
  double host_cpus = 0;                     // of the host that it is on; 0: unknown
  double busy_cpus = 0;                     // of them, while it was watched last; 0 to host_cpus
  // From the order to start an emulator there, without a guest and beside nothing else, until it
  // has ended; 0: not known.
  Microseconds emulator_start{0};
  double cpu_granted = 1;  // of the CPU time that its vCPUs wanted then; over 0 to 1
  // What a quota lets its vCPUs have of CPUs, all together: so much of the period in each, and not
  // more in one that they slept through before; 0: there is none.
  double cpu_quota = 0;
  Microseconds cpu_quota_period{0};
};

/// Goodput between two hosts, measured by a burst.
struct LinkMeasurement {
  BytesPerSecond goodput;
  Microseconds round_trip{0};
  Bytes sent;
  /// The most that it was seen to carry lately, at least `goodput`: what a job's messages leave
  /// free when they cease. 0: not known.
  BytesPerSecond unshared{};
  /// Both are hosts on one machine, as in a lab, and share its CPUs.
  bool one_machine = false;
};

/// Two measurements of one link differ by what others use of it; links of different kinds by more
/// than the 1.5 times that are allowed for here. True also where one is 0, not known.
bool may_be_one_link(BytesPerSecond one, BytesPerSecond other);

/// A value with the interval that is to hold it in 95 of 100 cases.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
  double model = 0;  // before past moves corrected it; what is learned from it later
};

/// What one strategy would cost.
struct StrategyForecast {
  Strategy strategy = Strategy::PreCopy;
  bool offered = false;
  std::string why_not;      // when it is not offered, or ruled out by the policy
  bool converges = true;    // false: it would not end by itself
  bool end_unsure = false;  // some of what was seen of the guest speaks for the opposite
  int rounds = 0;
  Estimate total_time_s;
  Estimate sent_bytes;
  Estimate downtime_s;
  Estimate added_job_time_s;
};

enum class Priority : std::uint8_t { LeastStall, LeastTraffic, ByDeadline, Manual };
std::string_view to_string(Priority priority);  // "least-stall", ...
std::optional<Priority> priority_from(std::string_view text);

/// What to do when a migration reaches its time limit.
enum class LimitAction : std::uint8_t { Cancel, StopAndCopy, PostCopy };
std::string_view to_string(LimitAction action);  // "cancel", "stop-and-copy", "post-copy"
std::optional<LimitAction> limit_action_from(std::string_view text);

// Of what may be asked for; rest/openapi.json says the same.
inline constexpr BytesPerSecond kLeastBandwidthLimit{1024 * 1024};  // libvirt counts in MiB/s
inline constexpr BytesPerSecond kMostBandwidthLimit{1e12};
inline constexpr Milliseconds kMostDowntimeLimit{2'000'000};  // QEMU's own limit

/// Knobs of the strategy that a policy names, set by hand; the forecast chooses the others.
struct Knobs {
  std::optional<double> rate_min;          // RateControlled: V_min of Neves 2009, Eq. 4.1
  std::optional<double> rate_max;          // RateControlled: V_max
  std::optional<double> rate_gain;         // RateControlled: K of Eq. 4.2
  std::optional<double> throttle_initial;  // Throttled, percent
  std::optional<double> throttle_step;     // Throttled, percent
  std::optional<double> pre_copy_rounds;   // Hybrid: before the switch
  bool operator==(const Knobs&) const = default;
};
struct Knob {
  std::string_view name;  // in JSON, as in a Sending there
  std::optional<double> Knobs::*value;
  Strategy of;
  double least;
  double most;
  bool whole;
};
inline constexpr std::array<Knob, 6> kKnobs{{
    {"rate_min_bytes_per_s", &Knobs::rate_min, Strategy::RateControlled, kLeastBandwidthLimit.value,
     kMostBandwidthLimit.value, false},
    {"rate_max_bytes_per_s", &Knobs::rate_max, Strategy::RateControlled, kLeastBandwidthLimit.value,
     kMostBandwidthLimit.value, false},
    {"rate_gain", &Knobs::rate_gain, Strategy::RateControlled, 0, 1000, false},
    {"throttle_initial_percent", &Knobs::throttle_initial, Strategy::Throttled, 1, 99, true},
    {"throttle_step_percent", &Knobs::throttle_step, Strategy::Throttled, 1, 99, true},
    {"pre_copy_rounds", &Knobs::pre_copy_rounds, Strategy::Hybrid, 1, 10, true},
}};
/// Those of the sending's own strategy. Where only one end of the rate is stated, the other one
/// gives way.
void set_knobs(Sending& sending, const Knobs& knobs);

/// What a user asks of a move. Stated per pool, overridden per migration.
struct MovePolicy {
  Priority priority = Priority::LeastStall;
  std::optional<Strategy> strategy;  // Manual: this one
  std::optional<BytesPerSecond> bandwidth_limit;
  std::optional<Milliseconds> downtime_limit;
  std::optional<Seconds> time_limit;
  LimitAction at_limit = LimitAction::Cancel;
  bool drop_page_cache = false;  // the guest gives it back before the move
  Knobs knobs = {};              // of `strategy`; none without one
};

/// Some fields of a policy; those that it does not state stay as they are. An optional in an
/// optional: that field is stated, and it may be stated to be none.
struct PolicyChange {
  std::optional<Priority> priority;
  std::optional<std::optional<Strategy>> strategy;
  std::optional<std::optional<BytesPerSecond>> bandwidth_limit;
  std::optional<std::optional<Milliseconds>> downtime_limit;
  std::optional<std::optional<Seconds>> time_limit;
  std::optional<LimitAction> at_limit;
  std::optional<bool> drop_page_cache;
  std::optional<Knobs> knobs;  // all of them: those that it does not state are none
};
/// States every field, as a policy has it that nobody stated.
PolicyChange default_policy();
/// A stated strategy makes the priority Manual; another priority drops the strategy. Another
/// strategy drops the knobs.
MovePolicy changed(MovePolicy policy, const PolicyChange& change);

/// When a move begins. At a safe point: its ranks are in an MPI collective, or just past one.
enum class Moment : std::uint8_t { Now, Trough, SafePoint };
std::string_view to_string(Moment moment);  // "now", "trough", "safe-point"
std::optional<Moment> moment_from(std::string_view text);
/// How long it is waited for unless that is stated.
Seconds usual_wait(Moment moment);
struct Timing {
  Moment moment = Moment::Now;
  /// Trough: no later than this after it was asked for. SafePoint: waited for no longer than this
  /// when all else is ready.
  Seconds within{600};
};

/// All of memory once, as it was seen on the wire.
struct FirstRound {
  double duration_s = 0;
  double sent_bytes = 0;
  bool operator==(const FirstRound&) const = default;
};

/// What came of a move that was forecast.
struct ForecastOutcome {
  Strategy strategy = Strategy::PreCopy;  // that was taken
  double total_time_s = 0;
  double sent_bytes = 0;
  std::optional<double> downtime_s;        // as the hypervisor tells, else as the guest saw it
  std::optional<double> added_job_time_s;  // told by a client that timed the job
  std::optional<double> set_up_s;          // until its first page went out; none: not seen
  std::optional<FirstRound> first_round;   // none: not seen
};

/// Of a verdict (StrategyForecast::converges) once its sending was over. Open: it had been left
/// open.
enum class VerdictScore : std::uint8_t { Right, Wrong, Open };
inline constexpr int kVerdictScores = 3;
std::string_view to_string(VerdictScore score);  // "right", "wrong", "open"
std::optional<VerdictScore> verdict_score_from(std::string_view text);

/// One sending of a move: a move that is begun anew has several.
struct ScoredVerdict {
  int sending = 1;  // which one, from 1
  Strategy strategy = Strategy::PreCopy;
  VerdictScore score = VerdictScore::Open;
  bool operator==(const ScoredVerdict&) const = default;
};

/// Written before the first page moves, scored afterwards.
struct Forecast {
  OperationId id;  // of the operation that made it: a forecast.make or a vm.migrate
  VmId vm;
  HostId source;
  HostId destination;
  WallTime made{0};
  MovePolicy policy;
  MemoryProfile profile;
  LinkMeasurement link;
  bool has_job = false;  // a rank runs on the VM
  std::string program;   // of that job; "" without one
  JobId job;             // "" without one, and of forecasts before it was kept
  std::vector<StrategyForecast> strategies;
  std::optional<Strategy> choice;          // none: do not move
  Sending sending;                         // of the choice
  std::string reason;                      // one sentence
  std::optional<ForecastOutcome> outcome;  // none: no move came of it, or it has not ended
  /// Those that could be told; also of a move that came to nothing, and so has no outcome.
  std::vector<ScoredVerdict> verdicts = {};
  double destination_speed = 1;  // how fast it computes against the source, as it was known
  double tightness = 1;          // of the job, Job::tightness
};

}  // namespace mare
