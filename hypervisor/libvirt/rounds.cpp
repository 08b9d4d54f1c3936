#include "hypervisor/libvirt/rounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace mare::libvirt {
namespace {

// The event of the last iteration comes some milliseconds after the VM stopped for it.
constexpr Microseconds kSameMoment{20'000};
// Nothing that counts is sent in so short a time.
constexpr Microseconds kNoRound{1'000};
constexpr Microseconds kRecent{1'000'000};
constexpr Microseconds kLongEnough{500'000};
// Between rounds the log is looked at: that alone makes a rate look a little lower.
constexpr double kMuchSlower = 0.8;
constexpr double kSteps = 10;
constexpr Seconds kNearEnd{0.5};
// QEMU sends what a tenth of a second has room for at once, and then waits: rounds are to be longer
// than that, and longer than a program rests between two steps.
constexpr Microseconds kHeldRound{500'000};

/// Bytes a second, as the hypervisor takes it where it was told none. None while nothing was sent.
std::optional<double> rate_so_far(const std::vector<Round>& rounds, Bytes transferred,
                                  Microseconds elapsed) {
  if (rounds.empty() || transferred.count == 0) return std::nullopt;
  const Seconds sent_for = elapsed - rounds.front().started;
  if (sent_for.count() <= 0) return std::nullopt;
  return static_cast<double>(transferred.count) / sent_for.count();
}

}  // namespace

void RoundKeeper::begin(unsigned long long iteration, Microseconds elapsed, Bytes transferred) {
  if (!rounds_.empty()) {
    Round& last = rounds_.back();
    last.duration = elapsed - last.started;
    last.sent = transferred - began_with_;
  }
  iteration_ = iteration;
  began_with_ = transferred;
  Round next;
  next.index = static_cast<int>(iteration) - 1;
  next.started = elapsed;
  rounds_.push_back(next);
}

void RoundKeeper::turn(unsigned long long iteration, Microseconds elapsed) {
  if (closed_ || iteration <= iteration_) return;
  if (turns_ > 0 && elapsed - rounds_.back().started < kNoRound) {
    iteration_ = iteration;
    rounds_.back().index = static_cast<int>(iteration) - 1;
    return;
  }
  begin(iteration, elapsed, seen_);
  ++turns_;
}

void RoundKeeper::settle_turns(Bytes transferred, Microseconds elapsed) {
  const std::size_t over = std::min(turns_, rounds_.size() - 1);
  turns_ = 0;
  if (elapsed <= seen_at_) return;
  const auto sent = static_cast<double>((transferred - seen_).count);
  const auto all = static_cast<double>((elapsed - seen_at_).count());
  for (std::size_t i = rounds_.size() - 1 - over; i + 1 < rounds_.size(); ++i) {
    const auto since = std::max(rounds_[i].started, seen_at_);
    const double part = static_cast<double>((rounds_[i + 1].started - since).count()) / all;
    const Bytes share{static_cast<std::uint64_t>(sent * std::clamp(part, 0.0, 1.0))};
    rounds_[i].sent = rounds_[i].sent + share;
    began_with_ = began_with_ + share;
  }
}

void RoundKeeper::add(const Sample& sample) {
  // A sample that was read before the last one but arrived after it tells nothing new.
  if (closed_ || sample.iteration == 0 || sample.iteration < iteration_) return;
  if (sample.iteration != iteration_) {
    const bool first = rounds_.empty();
    turns_ = 0;
    begin(sample.iteration, first ? Microseconds{0} : sample.elapsed,
          first ? Bytes{0} : sample.transferred);
  }
  if (turns_ > 0) settle_turns(sample.transferred, sample.elapsed);
  seen_ = sample.transferred;
  seen_at_ = sample.elapsed;
  Round& now = rounds_.back();
  now.duration = sample.elapsed - now.started;
  now.sent = sample.transferred - began_with_;
  now.remaining = sample.remaining;
  if (sample.dirty_bytes_per_s > 0) now.dirty_bytes_per_s = sample.dirty_bytes_per_s;
}

void RoundKeeper::close(const End& end) {
  if (closed_) return;
  closed_ = true;
  if (rounds_.empty()) return;
  // With one turn alone, what came since is the last round's.
  if (turns_ > 1) settle_turns(end.transferred, end.elapsed);
  // What is sent while the VM stands is a round of its own, also if it was too short to be seen.
  const bool unseen =
      end.paused && rounds_.back().started + kSameMoment < *end.paused && *end.paused < end.elapsed;
  if (unseen) begin(iteration_ + 1, *end.paused, std::max(seen_, began_with_));
  Round& last = rounds_.back();
  last.duration = std::max(last.duration, end.elapsed - last.started);
  last.sent = std::max(last.sent, end.transferred - began_with_);
  last.remaining = Bytes{};
}

bool could_be_last(const std::vector<Round>& rounds, Bytes transferred, Microseconds elapsed,
                   Milliseconds limit) {
  if (rounds.size() < 2) return false;
  const auto rest = static_cast<double>((rounds.back().remaining + rounds.back().sent).count);
  const auto rate = rate_so_far(rounds, transferred, elapsed);
  return rate && rest > 0 && rest <= *rate * Seconds{limit}.count();
}

bool is_far_from_end(Bytes remaining, BytesPerSecond link) {
  return link.value > 0 && static_cast<double>(remaining.count) > link.value * kNearEnd.count();
}

std::optional<BytesPerSecond> holding_pace(const std::vector<Round>& rounds) {
  if (rounds.empty() || rounds.back().remaining.count == 0) return std::nullopt;
  const auto rest = static_cast<double>(rounds.back().remaining.count);
  return BytesPerSecond{rest / Seconds{kHeldRound}.count()};
}

Milliseconds downtime_limit_of(const MigrationTicket& ticket, std::size_t rounds,
                               Milliseconds usual) {
  const auto first = ticket.downtime_limit.value_or(usual);
  const int whole = rounds > 0 ? static_cast<int>(rounds) - 1 : 0;
  return risen_limit(first, ticket.sending.later_downtime_limit.value_or(first), whole);
}

std::optional<Bytes> fits_into(Milliseconds limit, const MigrationTicket& ticket,
                               const std::vector<Round>& rounds, Bytes transferred) {
  std::optional<double> rate;
  if (const auto& told = ticket.sending.switchover_bandwidth) {
    rate = told->value;
  } else if (!rounds.empty()) {
    rate = rate_so_far(rounds, transferred, rounds.back().started + rounds.back().duration);
  }
  if (!rate || !(*rate > 0)) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(*rate * Seconds{limit}.count())};
}

std::optional<BytesPerSecond> recent_rate(const std::vector<Round>& rounds) {
  Microseconds took{0};
  Bytes sent;
  for (std::size_t i = rounds.size(); i > 1 && took < kRecent; --i) {
    took += rounds[i - 1].duration;
    sent = sent + rounds[i - 1].sent;
  }
  if (took < kLongEnough) return std::nullopt;
  return BytesPerSecond{static_cast<double>(sent.count) / Seconds{took}.count()};
}

Milliseconds limit_on_slower_link(Milliseconds limit, BytesPerSecond told, BytesPerSecond seen) {
  if (seen.value >= kMuchSlower * told.value) return limit;
  // In steps, or it would be told anew at each sample.
  const double share = std::floor(kSteps * std::max(0.0, seen.value) / told.value) / kSteps;
  const auto less = std::chrono::duration_cast<Milliseconds>(share * limit);
  return std::max(Milliseconds{1}, less);
}

}  // namespace mare::libvirt
