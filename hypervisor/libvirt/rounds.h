// Turns what is heard of a migration (events and samples of its statistics) into rounds. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "hypervisor/driver.h"

namespace mare::libvirt {

/// QEMU tells totals, and which iteration it is in; a round is what lies between two iterations.
/// Rounds that no event and no sample told of, and those that were over as soon as they began (two
/// events that arrived together), are lost in the next one's figures: the sums stay right.
class RoundKeeper {
 public:
  struct Sample {
    unsigned long long iteration = 0;  // from 1, as QEMU counts; 0: not sending yet
    Bytes transferred;                 // in all
    Bytes remaining;
    double dirty_bytes_per_s = 0;  // 0: not known yet
    Microseconds elapsed{0};       // since the migration's start
  };
  struct End {
    Bytes transferred;                   // in all
    Microseconds elapsed{0};             // when the last round was over
    std::optional<Microseconds> paused;  // when the VM stopped for it
  };
  /// QEMU's event: an iteration begins.
  void turn(unsigned long long iteration, Microseconds elapsed);
  void add(const Sample& sample);
  /// No more samples: the last round ended.
  void close(const End& end);
  const std::vector<Round>& rounds() const { return rounds_; }

 private:
  void begin(unsigned long long iteration, Microseconds elapsed, Bytes transferred);
  /// The bytes at the turns since the last sample, by the rate from there to this one.
  void settle_turns(Bytes transferred, Microseconds elapsed);

  std::vector<Round> rounds_;
  Bytes began_with_;
  Bytes seen_;               // transferred, at the last sample
  Microseconds seen_at_{0};  // of the last sample
  std::size_t turns_ = 0;    // since the last sample
  unsigned long long iteration_ = 0;
  bool closed_ = false;
};

/// Whether the hypervisor would stop the VM for its last round now, with that limit and at the
/// rate so far: after its first round, and with a sample of the one that runs.
bool could_be_last(const std::vector<Round>& rounds, Bytes transferred, Microseconds elapsed,
                   Milliseconds limit);
/// Whether what is left takes the link half a second and more. False where it is not known what
/// that carries.
bool is_far_from_end(Bytes remaining, BytesPerSecond link);
/// How fast one that holds its switch sends the round that runs, of which a sample has told what is
/// left: so that it takes half a second. Then the next one finds what the guest wrote in such a
/// time, and sends it as fast as it writes; at a rate beyond that rounds grow shorter until one
/// falls between two writes, and is the last. None before the round's first sample.
std::optional<BytesPerSecond> holding_pace(const std::vector<Round>& rounds);
/// The limit of the downtime after so many rounds were begun: one that was chosen, and that rounds
/// hang above, gives way step by step.
Milliseconds downtime_limit_of(const MigrationTicket& ticket, std::size_t rounds,
                               Milliseconds usual);
/// What goes into a stop of that limit: at the rate that it was told, or else at that so far. None
/// while nothing was sent.
std::optional<Bytes> fits_into(Milliseconds limit, const MigrationTicket& ticket,
                               const std::vector<Round>& rounds, Bytes transferred);
/// At what rate the newest rounds were sent, those of the last second or so. None until the rounds
/// after the first took half a second: the first one looks through memory that is not sent.
std::optional<BytesPerSecond> recent_rate(const std::vector<Round>& rounds);
/// What the hypervisor is to be told for `limit` when it goes by `told`, and the link carries much
/// less than that now (another migration shares it): so much less. At least 1 ms.
Milliseconds limit_on_slower_link(Milliseconds limit, BytesPerSecond told, BytesPerSecond seen);

}  // namespace mare::libvirt
