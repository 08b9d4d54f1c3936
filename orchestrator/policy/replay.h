// Replays what the hypervisor will do, round by round, over D(t): for each strategy its time, its
// bytes, its downtime and what it takes from the guest meanwhile. Follows QEMU 10's migration.c,
// ram.c and cpu-throttle.c (docs/forecast.md tells which rule is from where).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orchestrator/core/units.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/policy/beat.h"
#include "orchestrator/policy/dirty_curve.h"

namespace mare::policy {

/// What a move costs beside its pages. The defaults are of QEMU 10 under TCG on a loaded machine;
/// past moves correct them (correction.h).
struct HypervisorCosts {
  // Until the first page: 0.07 s and 0.11 s on one machine, 0.18 s and 0.35 s on slower ones, while
  // most of two CPUs was idle. (0.42 and 0.5 s where libvirt asks for each feature of the CPU, as
  // with KVM.) Past moves correct that (learn_set_up()).
  double set_up_s = 0.07;
  // Where it is known how long an emulator without a guest takes to start and end, it is so many
  // times that: 3.5 to 4 on a machine where that is 57 ms, 3.2 to 3.7 on one where it is 112.
  double set_up_starts = 3.5;
  // Two daemons and an emulator that starts could use so many CPUs; where fewer are idle it takes
  // as much longer. Of 82 moves between guests on two CPUs, 0.38 s with 0.5 of them busy were 0.6 s
  // with 1.0 and 0.95 s with 1.3: the set-ups come out best with 1.4 to 1.8.
  double start_cpus = 1.5;
  double switch_s = 0.03;  // paused, beside what is sent then
  // Where it is known how long an emulator takes to start, so many times that, if it is more: both
  // are a row of small steps of several programs. That is 57 ms on the machine of the above; where
  // it is 164 and 191, moves that end by a round (42 and 47) stood still for 42 and 37 ms more in
  // the median than without it, those that end by post-copy (30 and 26) for 78 and 61. Of these and
  // 82 on a third day (198 ms) errors are the same by 0.35 to 0.45.
  double switch_starts = 0.4;
  double device_bytes = 0.4e6;  // sent paused
  double page_bytes = 4096;
  double page_header_bytes = 8;  // of a normal page
  double zero_page_bytes = 9;    // a header and one byte
  double zero_scan_rate = 2e9;   // bytes/s: finding that pages are zero
  double copy_rate = 1.5e9;      // bytes/s that one thread can send, however fast the link
  // Bytes/s at which what sends would want a CPU all the time, and its wants count by their square.
  // First rounds of 93 moves over 1 Gbit/s between guests on two CPUs filled 0.98 of the link with
  // up to 0.6 of the CPUs busy, 0.92 with up to 0.9 and 0.90 with more; of 85 over 100 Mbit/s all
  // of it. The times of these moves come out best with 200e6 to 240e6.
  double mover_rate = 220e6;
  double rate_step = 1048576;  // bytes/s: libvirt's limits are whole MiB/s, rounded down
  // A limit of the rate is looked at after each write to the socket (64 pieces, so 32 pages and
  // their headers), and what exceeds it in such a window is not taken back in the next.
  double rate_window_s = 0.1;
  double write_bytes = 32 * (4096 + 8);
  // Pages go out in slices of so long, after which what is left is looked at. The clock is looked
  // at after so many pages alone: over 100 Mbit/s these take 22 ms, and a slice is of 67.
  double iterate_s = 0.05;
  double pages_of_look = 64;
  double below_threshold = 0.5;  // what the last round leaves is, by so much of a slice in the mean
  // Of what is left at a look, so much of what two windows of a guest have in common is written
  // again. By chance it would be all; but the stream goes by addresses, and is past the pages that
  // are written all the time more often than not. Of a guest that writes in order hardly any is in
  // the rounds of a sweep that a link just carries. Of 32 moves over 100 Mbit/s of guests that
  // write at random, some pages more often than others, bytes were said 2.1 and 5.7% too low in the
  // median with 0.9 (that of those that write in order), and are so by 1.6 and 2.4.
  double written_again = 0.6;
  double written_again_in_order = 0.9;
  double look_s = 0.01;  // a round with nothing to send takes so long, for its look
  // A downtime limit that is told on the way counts from QEMU's next window of 100 ms on: half of
  // that, half of the agent's 40 ms between two looks, and a slice.
  double limit_told_s = 0.1;
  double default_downtime_s = 0.3;  // where the policy states no limit, all in all
  // Bytes/s that go into zstd -1, for each channel with a CPU, and what unpacking takes below, of a
  // host of which nothing else is known: with_host_of() has them for its own CPUs, and for what
  // the memory holds (real data 350e6 on one host, random ones 3.4e9).
  double compress_rate = 150e6;
  double compress_cpus = 2;  // channels beyond them add nothing
  // Bytes/s of memory that a CPU takes in, unpacks and puts into pages that were not there yet, of
  // a host of which nothing else is known. On one, two channels took 0.36 to 0.41 s of CPU time for
  // 107 to 112 MB, on another one 0.25 to 0.40 for 111 to 170.
  double unpack_rate = 250e6;
  // Each channel compresses and sends a packet of 128 pages, which QEMU counts as sent from the
  // moment at which the channel has it.
  double channel_bytes = 128 * 4096;
  // The destination is behind with unpacking when the last packet comes, if that takes a CPU: by
  // what may wait to be read (dirtylog::unread_limit()) and what it has taken already. 12 moves of
  // two busy jobs stood still for 65 ms in the median, of which 30 go as switch_s; 5 of an idle VM
  // whose host unpacks some 300e6 for 60 (53 to 120).
  double unpack_s = 0.04;
  double throttle_sync_s = 5;     // auto-converge looks at the log at least so often
  double throttle_period_s = 1;   // and counts at most so often
  double throttle_trigger = 0.5;  // dirtied over sent
  double throttle_most = 0.99;
  // A throttled CPU runs for so long at a time. Where it is emulated, each look at the log waits
  // until it runs again (the CPU's own thread does the work).
  double throttle_slice_s = 0.01;
  // Bytes/s that the destination puts in their places: over 10 Gbit/s 157 MB and the end below took
  // 0.39 s, so 400e6 to 800e6.
  double post_copy_rate = 600e6;
  // Of what live rounds leave of a link post-copy's pages do, too: its guest waits for many of
  // them, and leaves its CPU to what brings them. Times of 47 moves over 1 Gbit/s come out best
  // with all of it, those of the worst of the runs with 0.7.
  double post_copy_unfilled = 0.7;
  double post_copy_switch_s = 0.0225;  // as switch_s
  double post_copy_switch_starts = 0.5;
  // Wait in buffers, before the devices' state. 12 post-copy moves over 100 Mbit/s stood still for
  // 60 ms in the median (46 to 67), 8 hybrid ones for 60 (49 to 76), 6 over 1 Gbit/s for 26.
  double queue_bytes = 0.04e6;
  double post_copy_lead_s = 0.06;  // from the first page until the switch is granted
  double post_copy_end_s = 0.19;   // after the last page, until both ends know that it was
  // Handling a missing page at both ends, beside its way: 0.4 ms from one to the next over 100
  // Mbit/s, where the page takes 0.33 and passes those that nobody waits for; more where the
  // guest's own CPU is emulated.
  double fault_s = 0.0003;
  // A guest reads pages, too; but some of those around a missing one are there before it comes to
  // them. Guests that rewrote 9 and 32 MiB over and over stood still for 13.6 of 14.7 s and 8.8 of
  // 14.9, one that swept over 400 MiB twice as fast as the link for 37.4 of 43.7 s.
  double faults_per_page = 0.9;
  // What a guest only reads, its kernel and its programs above all, is not in the log, and missing
  // where nothing was sent before the switch. Most of it is asked for within two seconds: a random
  // writer of 512 pages a second, moved twice, asked for some 900 a second then and for 450 to 550
  // since. (An idle one asked for 675 in its first moments.) Of the added times of 27 such moves
  // over 100 Mbit/s of six runs the model was 1.25 s short in the median with half of it at once.
  double read_bytes = 5.6e6;
  double read_within_s = 2;
  double file_rate = 1e9;  // bytes/s of the shared storage, if faster than the link
  double restore_s = 0.3;  // starting a VM from a file, beside reading it
  // Of a guest's progress while pages are sent: the mover's share of the CPUs, and what the log
  // takes of one that is not emulated.
  double pre_copy_slowdown = 0.02;
  // CPU time that an emulated CPU takes then for the same work, by what it took before: 0.083 of a
  // CPU became 0.11, 0.14 became 0.19. A throttled one feels that.
  double emulated_inflation = 1.3;
  // Of that, the first write to a page after each look, which an emulated CPU finds by itself; by
  // hand, so that it fits two programs: at 99% a sort wrote 2 to 3.4 MB in a second, MigTest 5 of a
  // burst of 25 in two. With it and the warm-up below 10 live moves over 100 Mbit/s are said to
  // cost 0.15 s less than they did in the median, 20 over 1 Gbit/s 0.05 s more.
  double emulated_first_write_s = 4e-6;
  // CPU time that the destination's emulator takes to translate the guest's code anew. Jobs of
  // guests with a quarter of a core lost 0.70 s beyond the downtime of 20 live moves over 1 Gbit/s
  // in the median, those with 0.95 of one 0.0 to 0.2 s when they were moved by hand.
  double emulated_warm_up_s = 0.16;
};

struct ReplayInput {
  const DirtyCurve* curve = nullptr;
  const DirtyCurve* low = nullptr;  // the low end of its range; null: windows do not differ
  /// What a round finds written is then by one of these, drawn at random for each round.
  const std::vector<DirtyCurve>* cycles = nullptr;
  std::uint64_t seed = 1;
  /// Of a guest that writes in bursts of seconds: one of these, by the seed, tells which rounds
  /// have one, while no throttle takes of its work.
  const std::vector<Beat>* beats = nullptr;
  double beats_from_s = 0;    // from the moment that beats count from to the start of the replay
  double longer_windows = 1;  // what is written between two looks is that of so much more progress
  double total_bytes = 0;     // with zero pages
  double zero_bytes = 0;
  double compressed_fraction = 1;
  std::optional<double> hot_compressed_fraction;  // of what was written lately; none: as all
  double sequential = 0;  // of the pages written in a moment: they follow the one before them
  double pause_s = 0;     // the longest that it was seen to write next to nothing in
  double work_share = 0;  // vCPU s a second that are work, not waiting for a clock; 0: not known
  bool sweeps = false;    // seen to go through the same memory again and again, in order
  /// MemoryProfile's; none: it writes all over its memory.
  const std::vector<double>* heat = nullptr;
  /// Of a guest that sweeps, with a switch to match: where it is when the whole rounds are nearly
  /// over, and how far from the place that it is then held up for, or let go at (sweep.h), it is at
  /// their end. None: as it is in the mean.
  struct SweepEnd {
    double place = 0;
    double miss = 0;
  };
  std::optional<SweepEnd> sweep_end;
  bool emulated = false;
  double host_cpus = 0;      // of the source; 0: more than anybody needs
  double busy_cpus = 0;      // of them, before the move
  bool one_machine = false;  // the destination has the same CPUs
  double cpu_quota = 0;   // of the VM, CPUs; 0: none. The others there are taken to have it, too.
  double most_share = 1;  // vCPU time a second that the guest gets when it wants all; over 0
  // The same in the moments when a throttled CPU is awake; 0: no more than else. Under a quota it
  // is more: what it slept through of a period's share is still there for the rest of the period.
  double awake_share = 0;
  double slowdown = 0;   // of its progress while pages are sent before the switch, 0 to 1
  double link_rate = 0;  // bytes/s
  // Of that, while the VM stands still: its job, which waits for it, sends nothing. At least 1.
  double still_gain = 1;
  double filled_by_job = 1;  // of what live rounds fill else: learn_filled_by_job()
  double round_trip_s = 0;
  std::optional<double> rate_limit;              // bytes/s, until the switch
  double downtime_limit_s = 0.3;                 // as the hypervisor is told
  std::optional<double> later_downtime_limit_s;  // what that rises to
  std::optional<double> time_limit_s;
  LimitAction at_limit = LimitAction::Cancel;
  double destination_speed = 1;
  Sending sending;
};

struct ReplayRound {
  double began_s = 0;
  double duration_s = 0;
  double sent_bytes = 0;
  double left_bytes = 0;  // of memory, to be sent after it
  double throttle = 0;    // share of its time that the guest was held back
};

struct Replay {
  bool converges = true;   // false: it would not end by itself; the figures are of a forced end
  bool forced = false;     // ended by the time limit's action, or because it did not converge
  bool cancelled = false;  // by the time limit: the VM stays
  double total_time_s = 0;
  double sent_bytes = 0;  // on the wire
  double downtime_s = 0;
  double live_s = 0;          // pre-copy rounds
  double crowded = 0;         // share of a guest's CPU time that the mover takes in them
  double held_s = 0;          // progress that throttling took
  double first_writes_s = 0;  // CPU time of an emulated guest that the log took in them
  double faulted_s = 0;       // progress that missing pages took
  std::vector<ReplayRound> rounds;
};

/// A link rate of 0 gives a replay that does not converge.
Replay replay(const ReplayInput& input, const HypervisorCosts& costs = {});

/// The downtime that the hypervisor is to be told for the policy's limit, or for the usual one
/// where it states none: it counts only the pages of the last round, so what comes on top (device
/// state, the switch itself) is taken off; of the usual one half at most.
Milliseconds hypervisor_downtime_limit(const MovePolicy& policy, const LinkMeasurement& link,
                                       const HypervisorCosts& costs = {});

/// The progress of a guest whose missing pages come one by one and in the background.
struct PostCopyPhase {
  double duration_s = 0;
  double faulted_s = 0;  // by what is written
};
struct MissingPages {
  double cold_bytes = 0;  // never sent, anywhere in memory
  double hot_bytes = 0;   // written again since they were sent,
  double window_s = 0;    // in this much progress
  double wire_bytes = 0;  // what sending them takes
  double rate = 0;        // bytes/s
};
/// From a guest's want of one page until it has it, s, over a link of that rate.
double fault_time(const ReplayInput& input, const HypervisorCosts& costs, double rate);
PostCopyPhase post_copy(const ReplayInput& input, const HypervisorCosts& costs,
                        const MissingPages& missing);

/// How fast pages that were written lately can be sent while the VM stands still, in bytes of
/// memory a second: as if they could not be compressed, so that they come no later than said if
/// they can't.
double rate_of_last_round(const ReplayInput& input, const HypervisorCosts& costs = {});

/// Pre-copy with all its variants (replay_rounds.cpp).
Replay replay_rounds(const ReplayInput& input, const HypervisorCosts& costs);

}  // namespace mare::policy
